"""Sends one delivery to Airflow: starts a run of a DAG, creates an event of an asset, or both."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from fairlead_common.domain.secret_values import DecryptionFailed, Keyring
from fairlead_common.service import clock
from fairlead_lookout.domain.webhooks import airflow_calls
from fairlead_lookout.domain.webhooks.airflow_calls import AirflowRefusal, Call
from fairlead_lookout.domain.webhooks.delivery_bodies import TEST
from fairlead_lookout.domain.webhooks.retry_schedule import Attempt
from fairlead_lookout.domain.webhooks.webhook_types import (
    PASSWORD,
    TOKEN,
    AirflowTarget,
    Webhook,
)
from fairlead_lookout.service.webhooks.http_client import HttpClient, HttpResponse, RequestFailed
from fairlead_lookout.service.webhooks.request_sender import (
    explain_decryption,
    make_printable,
    open_headers,
)


class _Login:
    """The token of one webhook. `version`: of the webhook that it belongs to."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.lock = asyncio.Lock()
        self.token = ""


class _Outcome(NamedTuple):
    status: int | None
    error: str | None = None
    retry_after_s: int = 0
    is_final: bool = False


@contextlib.contextmanager
def _noting(response: HttpResponse) -> Iterator[None]:
    """Notes the status of the response in a refusal that is raised because of it."""
    try:
        yield
    except AirflowRefusal as refusal:
        refusal.note_answer(response.status, response.retry_after_s)
        raise


class AirflowSender:
    """Sends deliveries of the kind airflow; holds the tokens of its webhooks. `http`: reads up to
    `airflow_calls.ANSWER_BYTES_MAX`."""

    def __init__(self, keyring: Keyring, http: HttpClient) -> None:
        self._keyring = keyring
        self._http = http
        self._logins: dict[int, _Login] = {}

    async def send(
        self, webhook: Webhook, message_id: str, body: str, content_type: str
    ) -> Attempt:
        """Send it once. Never raises for what Airflow or the network does."""
        started_s = clock.monotonic_s()
        delivery = _Delivery(self, webhook, message_id, body)
        outcome = await delivery.run()
        return Attempt(
            duration_ms=round((clock.monotonic_s() - started_s) * 1000),
            status=outcome.status,
            error=None if outcome.error is None else make_printable(outcome.error),
            retry_after_s=outcome.retry_after_s,
            is_final=outcome.is_final,
        )

    async def request(self, webhook: Webhook, call: Call, token: str) -> HttpResponse:
        """One request. Raises `RequestFailed`, `DecryptionFailed`."""
        headers = open_headers(self._keyring, webhook)
        headers["Accept"] = "application/json"
        if call.body:
            headers["Content-Type"] = "application/json"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return await self._http.request(
            call.method,
            webhook.url.rstrip("/") + call.path,
            headers,
            call.body,
            queue=webhook.filter.queue,
        )

    async def get_token(self, webhook: Webhook, refused: str = "") -> str:
        """The given token, or one for the user and password: another than the `refused` one.

        Concurrent deliveries sign in once. Raises `AirflowRefusal` and what `request` raises.
        """
        if TOKEN in webhook.credentials:
            return self._open(webhook, TOKEN)
        login = self._logins.get(webhook.number)
        if login is None or login.version != webhook.version:
            login = self._logins[webhook.number] = _Login(webhook.version)
        async with login.lock:
            if not login.token or login.token == refused:
                login.token = ""
                login.token = await self._sign_in(webhook)
            return login.token

    async def _sign_in(self, webhook: Webhook) -> str:
        target = webhook.options.airflow or AirflowTarget()
        call = airflow_calls.make_sign_in(target.username or "", self._open(webhook, PASSWORD))
        response = await self.request(webhook, call, "")
        with _noting(response):
            airflow_calls.check_sign_in(response.status, response.content)
            return airflow_calls.read_token(response.content)

    def _open(self, webhook: Webhook, name: str) -> str:
        return self._keyring.open(webhook.seal_name, webhook.credentials[name])


class _Delivery:
    """The calls of one delivery."""

    def __init__(self, sender: AirflowSender, webhook: Webhook, message_id: str, body: str) -> None:
        self._sender = sender
        self._webhook = webhook
        self._target = webhook.options.airflow or AirflowTarget()
        self._message_id = message_id
        self._event = airflow_calls.decode_event(body)

    async def run(self) -> _Outcome:
        """What came of it."""
        try:
            if self._event.type == TEST:
                await self._check_target()
            else:
                await self._start()
        except DecryptionFailed as failure:
            return _Outcome(None, explain_decryption(failure))
        except RequestFailed as failure:
            return _Outcome(None, f"Airflow does not answer. {failure}")
        except AirflowRefusal as refusal:
            status, retry_after_s = refusal.status, refusal.retry_after_s
            return _Outcome(status, str(refusal), retry_after_s, refusal.is_final)
        return _Outcome(200)

    async def _start(self) -> None:
        target = self._target
        if target.dag is not None:
            call = airflow_calls.make_run(target.dag, self._message_id, self._event)
            await self._call(call, about_dag=True)
        if target.asset is not None:
            asset_id = await self._find_asset(target.asset)
            search = airflow_calls.make_event_search(asset_id, self._event.timestamp)
            known = await self._call(search, about_dag=False)
            if not airflow_calls.has_event(known.content, self._message_id):
                call = airflow_calls.make_asset_event(asset_id, self._message_id, self._event)
                await self._call(call, about_dag=False)

    async def _check_target(self) -> None:
        """A test: whether Airflow accepts the token, and has the DAG, not paused, and the asset."""
        if self._target.dag is not None:
            found = await self._call(airflow_calls.make_dag_read(self._target.dag), about_dag=True)
            airflow_calls.check_dag(found.content, self._target.dag)
        if self._target.asset is not None:
            await self._find_asset(self._target.asset)

    async def _find_asset(self, uri: str) -> int:
        found = await self._call(airflow_calls.make_asset_search(uri), about_dag=False)
        return airflow_calls.find_asset(found.content, uri)

    async def _call(self, call: Call, *, about_dag: bool) -> HttpResponse:
        """A call with a token, which is renewed once if Airflow refuses it."""
        sender, webhook = self._sender, self._webhook
        token = await sender.get_token(webhook)
        response = await sender.request(webhook, call, token)
        is_refused = airflow_calls.refuses_token(response.status, response.content)
        if is_refused and TOKEN not in webhook.credentials:
            token = await sender.get_token(webhook, refused=token)
            response = await sender.request(webhook, call, token)
        with _noting(response):
            airflow_calls.check_answer(
                response.status, response.content, self._target, about_dag=about_dag
            )
        return response
