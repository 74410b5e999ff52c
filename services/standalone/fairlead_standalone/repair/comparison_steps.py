"""What the comparisons of jobs and of groups have in common: pages, the second look, and what the
repair does, in words."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.repair_events import Choice

Id = TypeVar("Id")
Found = TypeVar("Found")


def split_pages(ids: Sequence[Id], size: int) -> Iterator[Sequence[Id]]:
    """The ids in their order, at most `size` at a time."""
    for first in range(0, len(ids), size):
        yield ids[first : first + size]


async def compare_twice(
    candidates: AsyncIterator[Sequence[Id]],
    compare: Callable[[Sequence[Id]], Awaitable[list[Found]]],
    find_id: Callable[[Found], Id],
    size: int,
) -> list[Found]:
    """What differs among the candidates, each once. What differs is compared again, because both
    views can be moving. `size`: ids that are compared at a time."""
    found: dict[Id, None] = {}
    async for ids in candidates:
        found |= dict.fromkeys(map(find_id, await compare(ids)))
    return [each for ids in split_pages(list(found), size) for each in await compare(ids)]


def describe_action(
    choice: Choice, truth: JobState | None, scheduler: JobState | None, lookout: JobState | None
) -> str:
    """What the repair does with a job or group, for people: by its true state and its states in the
    views, None in a view that does not know it."""
    if choice is Choice.END_UNKNOWN:
        return "close (its result is unknown)"
    if truth in JOB_ENDED and lookout not in JOB_ENDED:
        return f"end as {truth}"
    if scheduler is None:
        return f"restore in the scheduler as {truth}"
    if truth in JOB_ENDED:
        return f"end as {truth}"
    if lookout is None:
        return f"restore in lookout as {truth}"
    return f"correct to {truth}"
