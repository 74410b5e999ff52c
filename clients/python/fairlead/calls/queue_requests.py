"""The requests that write queues, and the paths of queues and their secrets."""

import math

import msgspec

from fairlead.calls import request_building
from fairlead.calls.exchange_types import Request
from fairlead.models.job_models import QUEUE_BY_SERVER, Queue


def create(queue: Queue, *, dry_run: bool) -> Request:
    """Create the queue; not repeatable, because the second time it conflicts."""
    query = request_building.tried(dry_run)
    return request_building.post("/queues", _body(queue), query=query, repeatable=dry_run)


def replace(queue: Queue, *, dry_run: bool) -> Request:
    """Create or replace the queue, only its `version` if it has one."""
    request = request_building.post(
        path(queue.name), _body(queue), query=request_building.tried(dry_run), method="PUT"
    )
    if not queue.version:
        return request
    tag = ("if-match", f'"{queue.version}"')
    return msgspec.structs.replace(request, headers=(*request.headers, tag), repeatable=False)


def path(name: str) -> str:
    """The path of a queue."""
    return f"/queues/{request_building.part(name)}"


def secret_path(queue: str, name: str | None = None) -> str:
    """The path of a queue's secrets, or of one of them."""
    secrets = f"{path(queue)}/secrets"
    return secrets if name is None else f"{secrets}/{request_building.part(name)}"


def _body(queue: Queue) -> dict[str, object]:
    """The fields of a queue that a request can set."""
    body: dict[str, object] = msgspec.to_builtins(queue)
    if not math.isfinite(queue.weight):  # JSON would say null, which counts as not given
        body["weight"] = str(queue.weight)
    return {name: value for name, value in body.items() if name not in QUEUE_BY_SERVER}
