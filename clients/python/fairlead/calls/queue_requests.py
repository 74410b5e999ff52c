"""The requests that write queues, and the paths of queues and their secrets."""

import math

import msgspec

from fairlead.calls import request_building
from fairlead.calls.exchange_types import Request
from fairlead.models.job_models import QUEUE_BY_SERVER, Queue


def build_creation(queue: Queue, *, dry_run: bool) -> Request:
    """The request that creates a queue; not repeatable: a second one is refused as a conflict."""
    query = request_building.make_dry_run_query(dry_run)
    return request_building.build_post("/queues", _body(queue), query=query, repeatable=dry_run)


def build_replacement(queue: Queue, *, dry_run: bool) -> Request:
    """The request that creates or replaces a queue; with a `version`, only this version of it."""
    request = request_building.build_post(
        queue_path(queue.name),
        _body(queue),
        query=request_building.make_dry_run_query(dry_run),
        method="PUT",
    )
    if not queue.version:
        return request
    tag = ("if-match", f'"{queue.version}"')
    return msgspec.structs.replace(request, headers=(*request.headers, tag), repeatable=False)


def queue_path(name: str) -> str:
    """The path of a queue."""
    return f"/queues/{request_building.escape_segment(name)}"


def secret_path(queue: str, name: str | None = None) -> str:
    """The path of a queue's secrets, or of one of them."""
    secrets = f"{queue_path(queue)}/secrets"
    return secrets if name is None else f"{secrets}/{request_building.escape_segment(name)}"


def _body(queue: Queue) -> dict[str, object]:
    """The fields of a queue that a request can set."""
    body: dict[str, object] = msgspec.to_builtins(queue)
    if not math.isfinite(queue.weight):  # JSON would say null, which counts as not given
        body["weight"] = str(queue.weight)
    return {name: value for name, value in body.items() if name not in QUEUE_BY_SERVER}
