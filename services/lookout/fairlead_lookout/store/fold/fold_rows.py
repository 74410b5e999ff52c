"""The rows that a batch writes."""

from typing import Any

import msgspec

from fairlead_lookout.domain.message_batches import Batch


class FoldRows(msgspec.Struct, frozen=True):
    """The rows by table. They are written while the next batch is folded."""

    moves: list[tuple[Any, ...]]
    jobs: list[tuple[Any, ...]]
    specs: list[tuple[Any, ...]]
    job_changes: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    run_changes: list[tuple[Any, ...]]
    sets: list[tuple[Any, ...]]
    counters: list[tuple[Any, ...]]
    events: list[tuple[Any, ...]]
    shapes: list[tuple[Any, ...]]
    queue_counts: list[tuple[Any, ...]]
    usage: list[tuple[Any, ...]]
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


def encode_moves(batch: Batch, published: int) -> list[tuple[Any, ...]]:
    """The rows of the statement `advance`, one for each partition that moves."""
    before, after = batch.before, batch.after
    end = batch.progress_after
    if end is not None:
        end = msgspec.structs.replace(end, published=published)
    bulk = {each.partition for each in batch.messages if batch.candidates is not None}
    times_ms = {message.partition: message.time_ms for message in batch.messages}
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
