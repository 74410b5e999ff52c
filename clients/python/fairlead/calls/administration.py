"""Calls for operators: queues, clusters and their nodes, tokens."""

import math
from collections.abc import Sequence

import msgspec

from fairlead.calls import call_effects, request_building
from fairlead.calls.call_effects import Flow, Reply
from fairlead.models.cluster_models import (
    Cluster,
    Cordon,
    Node,
    PriorityClass,
    PriorityClasses,
    QuarantineRecord,
)
from fairlead.models.job_models import QUEUE_BY_SERVER, Queue, several
from fairlead.models.token_models import NewToken, SignInLink, Token


def create_queue(queue: Queue | str, *, dry_run: bool = False) -> Flow[Queue]:
    """Create a queue, with the defaults if only its name is given. Raises `Conflict`.

    With `dry_run` the server validates the request and creates nothing.
    """
    made = Queue(name=queue) if isinstance(queue, str) else queue
    request = request_building.post(
        "/queues", _queue_body(made), query=request_building.tried(dry_run), repeatable=dry_run
    )
    return (yield from request_building.ask(request, Queue))


def queue(name: str) -> Flow[Queue]:
    """One queue. Its `version` lets `replace_queue` see whether it has changed since."""
    return (yield from request_building.ask(request_building.get(_queue_path(name)), Queue))


def queues() -> Flow[None]:
    """Iterates over all queues."""
    yield from request_building.pages("/queues", (), "queues", Queue)


def replace_queue(queue: Queue, *, dry_run: bool = False) -> Flow[Queue]:
    """Create or replace a queue. Raises `Conflict` if its `version` is not the given one.

    With `dry_run` the server validates the request and changes nothing.
    """
    path, query = _queue_path(queue.name), request_building.tried(dry_run)
    request = request_building.post(path, _queue_body(queue), query=query, method="PUT")
    if queue.version:
        tag = ("if-match", f'"{queue.version}"')
        request = msgspec.structs.replace(
            request, headers=(*request.headers, tag), repeatable=False
        )
    return (yield from request_building.ask(request, Queue))


def delete_queue(name: str) -> Flow[None]:
    """Remove a queue. Raises `Conflict` while it has jobs that have not ended."""
    request = call_effects.Request(
        method="DELETE", path=request_building.API + _queue_path(name), repeatable=False
    )
    yield from request_building.done(request)


def cordon_queue(name: str, *, reason: str = "") -> Flow[Queue]:
    """Start no new runs of this queue; its current runs continue."""
    request = request_building.post(f"{_queue_path(name)}/cordon", {"reason": reason})
    return (yield from request_building.ask(request, Queue))


def uncordon_queue(name: str) -> Flow[Queue]:
    """Let the queue start new runs again."""
    return (
        yield from request_building.ask(
            request_building.post(f"{_queue_path(name)}/uncordon", {}), Queue
        )
    )


def clusters() -> Flow[None]:
    """Iterates over all clusters."""
    yield from _listed("/clusters", "clusters", Cluster)


def nodes(cluster: str) -> Flow[None]:
    """Iterates over a cluster's nodes."""
    yield from _listed(f"/clusters/{request_building.part(cluster)}/nodes", "nodes", Node)


def quarantine() -> Flow[None]:
    """Iterates over the records of the log that a service could not decode, the newest first."""
    yield from _listed("/quarantine", "records", QuarantineRecord)


def cordon(cluster: str, node: str | None = None, *, reason: str = "") -> Flow[None]:
    """Place no new runs on a cluster, or on one of its nodes; current runs continue."""
    yield from _mark(cluster, node, Cordon(cordoned=True, reason=reason or None))


def uncordon(cluster: str, node: str | None = None) -> Flow[None]:
    """Let a cluster, or one of its nodes, be used again."""
    yield from _mark(cluster, node, Cordon(cordoned=False))


def priority_classes() -> Flow[tuple[PriorityClass, ...]]:
    """The configured classes."""
    answer = yield from request_building.ask(
        request_building.get("/priority-classes"), PriorityClasses
    )
    return answer.priority_classes


def create_token(
    name: str,
    roles: Sequence[str],
    *,
    queues: Sequence[str] | None = None,
    expires_in_s: int | None = None,
    label: str = "",
) -> Flow[Token]:
    """Create an API token of that name; only this response contains its secret.

    `roles`: admin, operator, submitter, viewer. `queues`: valid for these queues only.
    """
    several("roles", roles)
    several("queues", queues or ())
    body = NewToken(
        name=name or None,
        roles=tuple(roles),
        queues=None if queues is None else tuple(queues),
        label=label or None,
        expires_in_seconds=expires_in_s,
    )
    return (
        yield from request_building.ask(
            request_building.post("/tokens", body, repeatable=False), Token
        )
    )


def tokens(*, everybody: bool = False) -> Flow[None]:
    """Iterates over the caller's tokens, or (for admins) all tokens, without their secrets."""
    yield from request_building.pages(
        "/tokens", (("all", "true"),) if everybody else (), "tokens", Token
    )


def revoke_token(token_id: str) -> Flow[None]:
    """Revoke a token. Raises `NotFound`."""
    path = f"{request_building.API}/tokens/{request_building.part(token_id)}"
    yield from request_building.done(call_effects.Request(method="DELETE", path=path))


def sign_in_link() -> Flow[SignInLink]:
    """A link that signs a browser in as the caller; it works one time."""
    return (
        yield from request_building.ask(request_building.post("/sign-in-links", {}), SignInLink)
    )


def fetch(path: str) -> Flow[Reply]:
    """The response of any path of the server, for `fairlead doctor`."""
    return (yield from request_building.answered(call_effects.Request(path=path)))


def _mark(cluster: str, node: str | None, cordon: Cordon) -> Flow[None]:
    path = f"/executors/{request_building.part(cluster)}"
    if node is not None:
        path += f"/nodes/{request_building.part(node)}"
    yield from request_building.done(request_building.post(path, cordon, method="PUT"))


def _listed(path: str, key: str, kind: type[request_building.A]) -> Flow[None]:
    """Emit the items under `key` of a response that has no pages."""
    reply = request_building.accepted(
        (yield from request_building.answered(request_building.get(path)))
    )
    found = request_building.decode(reply.body, dict[str, msgspec.Raw])
    for item in request_building.decode(bytes(found.get(key, b"null")), list[msgspec.Raw]):
        yield from call_effects.emit(request_building.decode(bytes(item), kind))


def _queue_body(queue: Queue) -> dict[str, object]:
    """The fields of a queue that a request can set."""
    body: dict[str, object] = msgspec.to_builtins(queue)
    if not math.isfinite(queue.weight):  # JSON would say null, which counts as not given
        body["weight"] = str(queue.weight)
    return {name: value for name, value in body.items() if name not in QUEUE_BY_SERVER}


def _queue_path(name: str) -> str:
    return f"/queues/{request_building.part(name)}"
