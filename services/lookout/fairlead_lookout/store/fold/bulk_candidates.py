"""The jobs that a bulk request can match (cancel, preempt or reprioritize by a filter).

A bulk request is folded in parts, each in one transaction, so that a million jobs need no more
memory and no longer transactions than some thousands. Jobs are ordered by job set, number and id;
the place that was reached is saved with the position of the view.
"""

from collections import deque
from collections.abc import Sequence, Set
from typing import Any, Final

import msgspec

from fairlead_common.db import Connection
from fairlead_common.domain.records import events
from fairlead_lookout.domain.bulk_requests import find_bulk_filters
from fairlead_lookout.domain.message_batches import Batch
from fairlead_lookout.domain.model import BulkProgress, Message
from fairlead_lookout.domain.transitions import LIVE
from fairlead_lookout.store.queries.list_filters import NUMBER_MAX, NUMBER_MIN
from fairlead_lookout.store.view_schema import FOLD

CANDIDATES_MAX: Final = 10_000
JOB_SETS_MAX: Final = 1_000
_decode: Final = msgspec.json.Decoder(BulkProgress).decode


class BulkCandidates:
    """Reads candidates on the connection of the fold."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_part(self, whole: Batch, jobs_max: int) -> Batch:
        """The next part of a batch that is one bulk request: at most `jobs_max` of its jobs."""
        (message,) = whole.messages
        ((_, wanted),) = find_bulk_filters([message])
        saved = await self._connection.fetchval(FOLD["bulk_progress"], message.partition)
        reached = None if saved is None else _decode(saved)
        if reached is not None:
            assert reached.position == message.position, (reached, message.position)
            message = msgspec.structs.replace(message, published=reached.published)
        states = LIVE.intersection(wanted.states) if wanted.states else LIVE
        after = reached or _before_all_jobs(message)
        candidates, end = await self._read(message.partition, wanted, states, after, jobs_max)
        return Batch(
            messages=deque([message]),
            before=whole.before,
            after=whole.after if end is None else whole.before,
            candidates=candidates,
            progress_before=reached,
            progress_after=end,
        )

    async def read_all(self, messages: Sequence[Message]) -> dict[tuple[int, int], list[str]]:
        """All jobs that the filters in these messages can match, by (partition, position).
        Live jobs of all states: earlier events of the batch can change the states in the tables."""
        found: dict[tuple[int, int], list[str]] = {}
        for message, wanted in find_bulk_filters(messages):
            ids = found.setdefault((message.partition, message.position), [])
            after: BulkProgress | None = _before_all_jobs(message)
            while after is not None:
                some, after = await self._read(
                    message.partition, wanted, LIVE, after, CANDIDATES_MAX
                )
                ids += some
        return found

    async def _read(
        self,
        partition: int,
        wanted: events.JobFilter,
        states: Set[str],
        after: BulkProgress,
        jobs_max: int,
    ) -> tuple[list[str], BulkProgress | None]:
        """Ids of jobs in these states after a place, and the last place; None at the end."""
        while True:
            sets = await self._connection.fetch(
                FOLD["live_sets"],
                partition,
                wanted.queue,
                wanted.job_set,
                after.job_set,
                after.number == NUMBER_MAX,
                JOB_SETS_MAX,
            )
            if not sets:
                return [], None
            chosen = _take_job_sets(sets, jobs_max)
            rows = await self._connection.fetch(
                FOLD["candidates"],
                [row["number"] for row in chosen],
                [row["job_set"] for row in chosen],
                sorted(states),
                list(wanted.classes),
                after.job_set,
                after.number,
                after.job_id,
                jobs_max,
            )
            ids = [row["id"] for row in rows]
            if len(rows) == jobs_max:
                return ids, BulkProgress(after.position, *rows[-1])
            if len(chosen) == len(sets) < JOB_SETS_MAX:
                return ids, None
            # No job has a greater number: the place is after all jobs of this job set.
            after = BulkProgress(after.position, chosen[-1]["job_set"], NUMBER_MAX, "")
            if ids:
                return ids, after


def _before_all_jobs(message: Message) -> BulkProgress:
    return BulkProgress(message.position, "", NUMBER_MIN, "")


def _take_job_sets(sets: Sequence[Any], jobs: int) -> Sequence[Any]:
    """The first of these job sets that together have this many live jobs."""
    for index, row in enumerate(sets, 1):
        jobs -= row["live"]
        if jobs <= 0:
            return sets[:index]
    return sets
