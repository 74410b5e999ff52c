"""The middleware of an app, which every request passes. Pure ASGI.

`RequestMiddleware` is the outermost one. In this order: the request gets an id; the `Host` header
must be one of the server's names; unless the path is open to everybody, the caller must be known
and within its rate limit; a browser session makes changes only from Fairlead's own pages. So a
route is protected unless its path is listed as open. Every response gets the request's id, the
rest of the rate limit, and security headers for browsers.
"""

import asyncio
import logging
import secrets
from typing import Final, Protocol

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead_common.domain import ids
from fairlead_common.domain.errors import LogFull, WorldError
from fairlead_common.domain.permissions import Caller
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock, json_logging
from fairlead_common.service.disk import Disk, Space
from fairlead_common.service.settings import Settings
from fairlead_common.web import fair_semaphore, problem_documents, rate_limits
from fairlead_common.web.auth.authenticator import Headers, check_origin
from fairlead_common.web.auth.request_origin import SAFE
from fairlead_common.web.problem_documents import ErrorPage, respond
from fairlead_common.web.rate_limits import ConcurrencyLimiter, RateLimiter

CHANGES_PREFIX: Final = "/api/"
"""Paths of requests that change something. Signing in is not one: pages need a session."""
OPEN_PATHS: Final = frozenset(
    {
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/sign-in",
        "/sign-in/oidc",
        "/sign-in/callback",
    }
)
OPEN_PREFIXES: Final = ("/problems", "/static/")
"""Paths that are open to everybody: health, API documentation, signing in."""

REQUEST_ID_MAX: Final = 64
TRACE_LENGTH: Final = 32
_ID: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+=")
_logger = logging.getLogger("fairlead.http")
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
_SECURITY_HEADERS: Final = (
    _NOSNIFF,
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Identify(Protocol):
    """Finds the caller of a request: `auth.Authenticator` in services."""

    def find_cached(self, headers: Headers) -> Caller | None:
        """The caller, if that is known without I/O."""

    async def find(self, headers: Headers) -> Caller:
        """The caller. Raises a `Problem` or `WorldError`."""

    def is_costly(self, headers: Headers) -> bool:
        """Whether failures must be limited before these credentials are checked."""


class CredentialWatch:
    """Checks the credentials of a long request periodically and cancels its task when they are no
    longer valid. `revoked`: the reason, once that has happened.

    A short request costs one timer. While an identity provider or the database is unavailable,
    nothing is cancelled.
    """

    def __init__(
        self,
        identify: Identify,
        headers: Headers,
        request: "asyncio.Task[object]",
        every_s: float,
    ) -> None:
        self.revoked: Problem | None = None
        self._identify = identify
        self._headers = headers
        self._request = request
        self._every_s = every_s
        self._checking: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(every_s, self._start)

    def stop(self) -> None:
        """The request has ended."""
        self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()

    def _start(self) -> None:
        self._checking = asyncio.create_task(self._check())

    async def _check(self) -> None:
        while True:
            try:
                await self._identify.find(self._headers)
            except Problem as problem:
                if problem.slug == "unauthenticated":
                    self.revoked = problem
                    self._request.cancel()
                    return
                _logger.warning("credentials were not checked again: %s", problem)
            except WorldError as error:
                _logger.warning("credentials were not checked again: %s", error)
            await asyncio.sleep(self._every_s)


class RequestMiddleware:
    """The outermost middleware. Without `identify` only open paths are served."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        identify: Identify | None,
        open_below: tuple[str, ...] = (),
        error_page: ErrorPage | None = None,
    ) -> None:
        self._app = app
        self._hosts = frozenset(settings.hosts)
        self._identify = identify
        self._open_below = (*OPEN_PREFIXES, *open_below)
        self._error_page = error_page
        given = settings.requests
        self._recheck_s = given.recheck_s
        self._callers: RateLimiter[str] = RateLimiter(
            given.per_second, given.burst, given.callers_max
        )
        self._wrong_tokens, self._wrong_passwords = (
            RateLimiter[str](given.failures_per_second, given.failures_burst, given.callers_max)
            for _ in range(2)
        )
        self._concurrent: ConcurrencyLimiter[str] = ConcurrencyLimiter(given.concurrent_max)
        full_s = rate_limits.retry_after_s(given.burst / given.per_second)
        self._policy = (b"ratelimit-policy", f'"caller";q={given.burst};w={full_s}'.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        extra = [(b"x-request-id", _request_id(headers))]
        state = scope.setdefault("state", {})
        state["request_id"] = extra[0][1].decode()
        fields = _make_log_fields(state["request_id"], scope["path"], headers)
        json_logging.REQUEST_FIELDS.set(fields)

        async def send_with_extra(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["answering"] = True
                state["event_stream"] = _add_headers(message["headers"], extra)
            await send(message)

        caller = None
        try:
            if len(headers) < len(scope["headers"]):
                _check_duplicate_headers(scope)
            self._check_host(headers)
            if not self._is_open(scope["path"]):
                caller = await self._caller(scope, headers)
                state["caller"] = caller
                fair_semaphore.CALLER.set(caller.name)
                check_origin(scope["method"], headers)
                self._count(caller, extra)
        except (Problem, WorldError) as error:
            await self._refuse(error, scope, receive, send_with_extra)
            return
        watch = None if caller is None else self._watch(headers)
        try:
            await self._app(scope, receive, send_with_extra)
        except asyncio.CancelledError:
            if watch is not None and watch.revoked is not None:
                await self._end(watch.revoked, scope, receive, send_with_extra)
            elif not state.get("answering"):
                ending = Problem(
                    "unavailable", "This server is shutting down. Try again.", retry_after_s=1
                )
                await self._refuse(ending, scope, receive, send_with_extra)
        finally:
            if watch is not None:
                watch.stop()
            if caller is not None:
                self._concurrent.end(caller.name)

    def _is_open(self, path: str) -> bool:
        return path in OPEN_PATHS or path.startswith(self._open_below)

    def _check_host(self, headers: Headers) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if _has_port(host) else host
        if name not in self._hosts and "*" not in self._hosts:
            raise Problem(
                "malformed",
                f"The Host header {name!r} is not one of this server's names; add it to the"
                " setting `hosts`.",
            )

    async def _caller(self, scope: Scope, headers: Headers) -> Caller:
        if self._identify is None:
            raise Problem("unauthenticated", "This server does not accept any caller.")
        caller = self._identify.find_cached(headers)
        if caller is not None:
            return caller
        address = (scope.get("client") or ("",))[0]
        if self._identify.is_costly(headers):
            return await self._find_limited(
                self._wrong_passwords, address, headers, check_first=True
            )
        return await self._find_limited(self._wrong_tokens, address, headers, check_first=False)

    async def _find_limited(
        self, failures: RateLimiter[str], address: str, headers: Headers, *, check_first: bool
    ) -> Caller:
        """The caller. Failures beyond the limit of their client address are answered with 429.

        Tokens are looked up in any case: all clients behind one gateway share its address, and a
        valid token must not suffer from the invalid ones of others.
        """
        assert self._identify is not None
        now_s = clock.monotonic_s()
        if check_first and (wait_s := failures.wait_s(address, now_s)) > 0:
            raise _too_many_failures(wait_s)
        try:
            return await self._identify.find(headers)
        except Problem as problem:
            if problem.slug != "unauthenticated" or b"authorization" not in headers:
                raise
            if (wait_s := failures.take(address, now_s).wait_s) > 0:
                raise _too_many_failures(wait_s) from None
            raise

    def _watch(self, headers: Headers) -> CredentialWatch:
        """Cancel this request when its credentials are no longer valid."""
        assert self._identify is not None
        task = asyncio.current_task()
        assert task is not None
        return CredentialWatch(self._identify, headers, task, self._recheck_s)

    async def _end(self, why: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request whose credentials were revoked, or end its stream."""
        if scope["state"].get("answering"):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await self._refuse(why, scope, receive, send)

    def _count(self, caller: Caller, extra: list[tuple[bytes, bytes]]) -> None:
        """Count a request of the caller. Raises a 429 `Problem` beyond its limits."""
        taken = self._callers.take(caller.name, clock.monotonic_s())
        extra.append(self._policy)
        extra.append((b"ratelimit", b'"caller";r=%d;t=%d' % (taken.left, taken.full_s + 0.999)))
        if taken.wait_s > 0:
            raise Problem(
                "too-many-requests",
                f"{caller.name} has exceeded this server's request rate limit. Wait as long as"
                " `Retry-After` says.",
                retry_after_s=rate_limits.retry_after_s(taken.wait_s),
            )
        if not self._concurrent.begin(caller.name):
            raise Problem(
                "too-many-requests",
                f"{caller.name} has {self._concurrent.most} concurrent requests, which is the limit"
                " for one caller. Streams and long polls count. Wait until some have ended.",
                retry_after_s=1,
            )

    async def _refuse(
        self, error: Problem | WorldError, scope: Scope, receive: Receive, send: Send
    ) -> None:
        await respond(Request(scope), problem_documents.to_problem(error), self._error_page)(
            scope, receive, send
        )


class DiskFullMiddleware:
    """Refuses changes while the disk is full, before they cost anything; reads and pages work.

    It is inside `RequestMiddleware`, which finds the caller.
    """

    def __init__(self, app: ASGIApp, disk: Disk) -> None:
        self._app = app
        self._disk = disk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a change with 503 while the disk is full, and pass on everything else."""
        if scope["type"] == "http" and scope["method"] not in SAFE:
            try:
                if scope["path"].startswith(CHANGES_PREFIX):
                    self._disk.check(Space.FULL)
            except LogFull as error:
                answer = problem_documents.respond_to_error(Request(scope, receive, send), error)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _too_many_failures(wait_s: float) -> Problem:
    return Problem(
        "too-many-requests",
        "Too many invalid credentials were sent from your address. Wait as long as `Retry-After`"
        " says, and check the token.",
        retry_after_s=rate_limits.retry_after_s(wait_s),
    )


def _check_duplicate_headers(scope: Scope) -> None:
    """Raises a 400 `Problem` for a duplicate header, because a proxy could have used the other
    value.
    """
    names = [name for name, _ in scope["headers"]]
    for name in (b"host", b"authorization"):
        if names.count(name) > 1:
            raise Problem(
                "malformed", f"The header {name.decode()} occurs more than once; send it once."
            )


def _request_id(headers: Headers) -> bytes:
    given = headers.get(b"x-request-id", b"")[:REQUEST_ID_MAX]
    return given if given and _ID.issuperset(given) else secrets.token_hex(8).encode()


def _make_log_fields(request_id: str, path: str, headers: Headers) -> dict[str, str]:
    """The fields that log lines about this request have: its id, its trace, the job in its path."""
    fields = {"request": request_id}
    _, _, after = path.partition("/jobs/")
    job_id = after[: ids.JOB_ID_LENGTH]
    if ids.is_job_id(job_id):
        fields["jobId"] = job_id
    trace = headers.get(b"traceparent", b"").decode("latin-1").split("-")[1:2]
    return {**fields, "trace": trace[0][:TRACE_LENGTH]} if trace else fields


def _add_headers(headers: list[tuple[bytes, bytes]], extra: list[tuple[bytes, bytes]]) -> bool:
    """Add the headers of every response, and the security headers that the route did not set;
    whether the response is an event stream.
    """
    own = dict(headers)
    headers.extend(item for item in _SECURITY_HEADERS if item[0] not in own)
    headers.extend(extra)
    return own.get(b"content-type", b"").startswith(b"text/event-stream")


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]") and ":" in host
