"""The rows that a batch writes."""

from collections.abc import Mapping, Set
from typing import Any, Final, NamedTuple

import msgspec

from fairlead_lookout.domain.message_batches import Batch
from fairlead_lookout.domain.model import JobSetKey


class FoldRows(msgspec.Struct, frozen=True):
    """The rows by table. They are written while the next batch is folded."""

    moves: list[tuple[Any, ...]]
    jobs: list[tuple[Any, ...]]
    submissions: list[tuple[Any, ...]]
    job_changes: list[tuple[Any, ...]]
    older_runs: list[tuple[Any, ...]]
    older_run_changes: list[tuple[Any, ...]]
    new_sets: list[tuple[Any, ...]]
    sets: list[tuple[Any, ...]]
    counters: list[tuple[Any, ...]]
    events: list[tuple[Any, ...]]
    shapes: list[tuple[Any, ...]]
    queue_counts: list[tuple[Any, ...]]
    usage: list[tuple[Any, ...]]
    user_usage: list[tuple[Any, ...]]
    preemptions: list[tuple[Any, ...]]
    groups: list[tuple[Any, ...]]
    group_members: list[tuple[Any, ...]]
    group_changes: list[tuple[Any, ...]]
    group_events: list[tuple[Any, ...]]
    arrays: list[tuple[Any, ...]]
    array_changes: list[tuple[Any, ...]]
    array_counts: list[tuple[Any, ...]]
    cancelled_tasks: list[tuple[Any, ...]]
    array_priorities: list[tuple[Any, ...]]


class WrittenKeys(NamedTuple):
    """The jobs, job sets and shapes of a batch that is being written."""

    jobs: Set[str]
    job_sets: Set[JobSetKey]
    shapes: Set[str]


NOTHING_WRITTEN: Final = WrittenKeys(frozenset(), frozenset(), frozenset())


def encode_moves(
    batch: Batch, times_ms: Mapping[int, int], published: int
) -> list[tuple[Any, ...]]:
    """The rows of the statement `advance`, one for each partition that moves. `times_ms`: the time
    of the last message of each partition."""
    before, after = batch.before, batch.after
    end = batch.progress_after
    if end is not None:
        end = msgspec.structs.replace(end, published=published)
    bulk = frozenset() if batch.candidates is None else times_ms.keys()
    return [
        (
            number,
            before[number],
            position,
            times_ms.get(number, 0),
            _encode_text(batch.progress_before) if number in bulk else None,
            _encode_text(end) if number in bulk else None,
        )
        for number, position in after.items()
        if position != before[number] or number in bulk
    ]


def _encode_text(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
