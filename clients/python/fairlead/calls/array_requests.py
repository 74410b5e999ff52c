"""Building requests about arrays. No I/O."""

from fairlead.calls import request_building
from fairlead.calls.exchange_types import Request


def array_path(array: str) -> str:
    """The path of an array."""
    return f"/arrays/{request_building.escape_segment(array)}"


def build_cancellation(array: str, indexes: str | None, reason: str) -> Request:
    """The request that cancels tasks of an array."""
    given = {"indexes": indexes, "reason": reason or None}
    body = {name: value for name, value in given.items() if value is not None}
    return request_building.build_post(f"{array_path(array)}/cancel", body)


def build_resubmission(array: str, indexes: str | None, client_id: str) -> Request:
    """The request that submits tasks of an array again."""
    body = {"clientId": client_id} | ({} if indexes is None else {"indexes": indexes})
    return request_building.build_post(f"{array_path(array)}/resubmit", body)
