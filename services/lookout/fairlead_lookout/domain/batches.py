"""Cutting what was read from the log into batches, each folded in one transaction. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from fairlead_lookout.domain import references
from fairlead_lookout.domain.model import Message, Within


class Batch(msgspec.Struct, frozen=True):
    """Some messages and where they begin and end in each partition.

    A part of one request that asks something of many jobs has nothing but its message; `found` are
    the jobs that it is about, `begun` says what was done before it, `left` what is done with it,
    unless it is the last.
    """

    messages: Sequence[Message]
    before: dict[int, int]
    after: dict[int, int]
    found: list[str] | None = None
    begun: Within | None = None
    left: Within | None = None

    @property
    def is_request(self) -> bool:
        """Whether this is one request about many jobs and nothing else."""
        return len(self.messages) == 1 and _is_request(self.messages[0])


def _is_request(message: Message) -> bool:
    return len(message.sequence.events) == 1 and bool(references.bulk([message]))


def cut(
    messages: list[Message], before: dict[int, int], after: dict[int, int], events_max: int
) -> Iterator[Batch]:
    """Batches of about `events_max` events; a request about many jobs is one by itself, and
    whatever else asks something of many ends one."""
    part: list[Message] = []
    count = 0
    at = before
    for message in messages:
        if part and (count >= events_max or _is_request(message) or references.bulk(part[-1:])):
            reached = {**at, **{each.partition: each.position + 1 for each in part}}
            yield Batch(part, at, reached)
            part, count, at = [], 0, reached
        part.append(message)
        count += len(message.sequence.events)
    if part or at != after:
        yield Batch(part, at, after)
