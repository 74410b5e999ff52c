"""Lists of preemptions: who lost what to whom, newest first."""

from typing import Any, Final

import msgspec

from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.queries.view_reader import ViewReader
from fairlead_lookout.store.view_schema import READ

TIME_MAX_MS: Final = 2**62


def _compose(chosen: str) -> str:
    """The statement that reads the details of the preemptions that another one chooses."""
    return READ["preemption_details"].replace("{chosen}", READ[chosen].rstrip().rstrip(";"))


BY_TIME: Final = _compose("preemptions_by_time")
OF_QUEUES: Final = _compose("preemptions_of_queues")


class PreemptionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which preemptions a list contains: of this queue, from a time until before another."""

    visible_queues: QueueScope = ALL_QUEUES
    queue: str | None = None
    from_ms: int = 0
    to_ms: int = TIME_MAX_MS


class PreemptionPage(msgspec.Struct, frozen=True):
    """Rows of a page, newest first, and the cursor of the next page."""

    rows: list[Any]
    next: str | None


async def read_preemptions(
    view: ViewReader, wanted: PreemptionFilter, limit: int, cursor: str | None
) -> PreemptionPage:
    """A page of preemptions. Raises a 400 `Problem` for an invalid cursor."""
    query = ("preemptions", wanted.queue, wanted.from_ms, wanted.to_ms)
    place = _split_place(list_cursors.decode(query, cursor))
    only, but = wanted.visible_queues.arguments()
    if wanted.queue is not None:
        only = [wanted.queue] if wanted.queue in wanted.visible_queues else []
    rows = await view.fetch_text(
        BY_TIME if only is None else OF_QUEUES,
        only,
        but,
        wanted.from_ms,
        wanted.to_ms,
        *place,
        limit + 1,
    )
    if len(rows) <= limit:
        return PreemptionPage(rows, None)
    last = rows[limit - 1]
    following = list_cursors.encode(query, last["time_ms"], f"{last['job_id']}-{last['run']}")
    return PreemptionPage(rows[:limit], following)


def _split_place(place: tuple[int, str] | None) -> tuple[int | None, str | None, int | None]:
    """(time, job, run) of the last row that was read."""
    if place is None:
        return None, None, None
    job_id, _, run = place[1].partition("-")
    return place[0], job_id, int(run) if run.isascii() and run.isdecimal() and len(run) < 10 else 0
