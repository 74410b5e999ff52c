"""Which jobs a request about many may find (cancel, preempt or reprioritise by a filter).

Such a request is folded a part at a time, each in one transaction, so that a million jobs need no
more memory and hold no transaction longer than some thousands. They are gone through by job set,
number and id; the place reached is kept with the view's position.
"""

from collections.abc import Sequence, Set
from typing import Any, Final

import msgspec

from fairlead_common.db import Connection, load
from fairlead_common.domain.records import events
from fairlead_lookout.domain import references
from fairlead_lookout.domain.batches import Batch
from fairlead_lookout.domain.model import Message, Within
from fairlead_lookout.domain.transitions import LIVE
from fairlead_lookout.http.list_filters import NUMBER_MAX, NUMBER_MIN

SQL: Final = load("fairlead_lookout.store", "sql/fold.sql")
FOUND_MAX: Final = 10_000
SETS_MAX: Final = 1_000
_decode: Final = msgspec.json.Decoder(Within).decode


class Requests:
    """Reads on the connection of the fold."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def part(self, whole: Batch, jobs_max: int) -> Batch:
        """The next part of a batch that is one request: at most so many of its jobs."""
        (message,) = whole.messages
        ((_, wanted),) = references.bulk([message])
        kept = await self._connection.fetchval(SQL["within"], message.partition)
        begun = None if kept is None else _decode(kept)
        if begun is not None:
            assert begun.position == message.position, (begun, message.position)
            message = msgspec.structs.replace(message, told=begun.told)
        states = LIVE.intersection(wanted.states) if wanted.states else LIVE
        behind = begun or _beginning(message)
        found, left = await self._found(message.partition, wanted, states, behind, jobs_max)
        return Batch(
            messages=[message],
            before=whole.before,
            after=whole.after if left is None else whole.before,
            found=found,
            begun=begun,
            left=left,
        )

    async def everything(self, messages: Sequence[Message]) -> dict[tuple[int, int], list[str]]:
        """All jobs that the filters of messages that are not requests alone may find, by their
        places. What is before them in the batch may change the states that the tables have."""
        found: dict[tuple[int, int], list[str]] = {}
        for message, wanted in references.bulk(messages):
            ids = found.setdefault((message.partition, message.position), [])
            behind: Within | None = _beginning(message)
            while behind is not None:
                some, behind = await self._found(message.partition, wanted, LIVE, behind, FOUND_MAX)
                ids += some
        return found

    async def _found(
        self,
        partition: int,
        wanted: events.JobFilter,
        states: Set[str],
        behind: Within,
        most: int,
    ) -> tuple[list[str], Within | None]:
        """Ids of jobs in these states behind a place, and the place they end at; None: all."""
        while True:
            sets = await self._connection.fetch(
                SQL["live_sets"],
                partition,
                wanted.queue,
                wanted.job_set,
                behind.job_set,
                behind.number == NUMBER_MAX,
                SETS_MAX,
            )
            if not sets:
                return [], None
            chosen = _enough(sets, most)
            rows = await self._connection.fetch(
                SQL["candidates"],
                [row["number"] for row in chosen],
                [row["job_set"] for row in chosen],
                sorted(states),
                list(wanted.classes),
                behind.job_set,
                behind.number,
                behind.job_id,
                most,
            )
            ids = [row["id"] for row in rows]
            if len(rows) == most:
                return ids, Within(behind.position, *rows[-1])
            if len(chosen) == len(sets) < SETS_MAX:
                return ids, None
            # No job has a greater number: all of this set are before it.
            behind = Within(behind.position, chosen[-1]["job_set"], NUMBER_MAX, "")
            if ids:
                return ids, behind


def _beginning(message: Message) -> Within:
    return Within(message.position, "", NUMBER_MIN, "")


def _enough(sets: Sequence[Any], jobs: int) -> Sequence[Any]:
    """The first of these sets that have so many live jobs together."""
    for index, row in enumerate(sets, 1):
        jobs -= row["live"]
        if jobs <= 0:
            return sets[:index]
    return sets
