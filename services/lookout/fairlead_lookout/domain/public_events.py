"""The public events: what lookout tells people and programs about jobs, one JSON object each.

They are made from the facts of the log, but are not the same: a fact that changed nothing is not
told, one bulk request becomes an event per job, and a run that failed is told when the scheduler
has decided what that means.
"""

from typing import Final, Literal

import msgspec

Kind = Literal[
    "submitted",
    "rejected",
    "queued",
    "leased",
    "pending",
    "running",
    "succeeded",
    "failed",
    "runFailed",
    "preempting",
    "preempted",
    "requeued",
    "cancelling",
    "cancelled",
    "reprioritized",
    "finished",
]
"""What happened."""


class PublicEvent(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """One public event. `id` is `<partition>-<position>-<item>`; what does not apply is absent.

    `position` is the opaque token that `?after=` takes. `counts` (of `finished`) has the jobs of
    the job set by state.
    """

    id: str
    type: Kind
    job_id: str | None = None
    run: int | None = None
    client_id: str | None = None
    priority: int | None = None
    priority_class: str | None = None
    cluster: str | None = None
    node: str | None = None
    code: str | None = None
    category: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    cause: str | None = None
    for_job: str | None = None
    will_retry: bool | None = None
    final: bool | None = None
    by: str | None = None
    counts: dict[str, int] | None = None
    time: str
    position: str
    queue: str
    job_set: str


ID_MAX: Final = 40
encode: Final = msgspec.json.Encoder().encode


def parse_id(text: str) -> tuple[int, int]:
    """(position, item) of an event id. Raises ValueError."""
    parts = text.split("-")
    if len(parts) != 3 or len(text) > ID_MAX or not all(map(_is_number, parts)):
        raise ValueError(f"{text[:ID_MAX]!r} is not the id of an event")
    return int(parts[1]), int(parts[2])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 2**63
