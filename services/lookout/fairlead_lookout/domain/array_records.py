"""The rows of arrays that a batch writes."""

import msgspec


class ArrayRow(msgspec.Struct, frozen=True):
    """A new array of `tasks` tasks. `submitted` is its `ArraySubmitted`, as JSON; `listed` is it
    with what lists show.
    """

    array_id: str
    queue: str
    job_set: str
    priority_class: str
    client_id: str | None
    digest: str
    tasks: int
    submitted: str
    submitted_ms: int
    submitted_by: str
    listed: str
    priority: int


class ArrayChange(msgspec.Struct):
    """What a batch changes of an array.

    `released` and `cancelled`: how many more tasks became jobs, or were cancelled before;
    `cancelled_ranges`: as how many ranges these were named. `requested_ms`: when somebody wanted
    tasks cancelled. `priority`: the new one, if a request named the array.
    """

    array_id: str
    released: int = 0
    cancelled: int = 0
    cancelled_ranges: int = 0
    requested_ms: int | None = None
    reason: str | None = None
    by: str | None = None
    ended_ms: int | None = None
    priority: int | None = None


class ArrayPriority(msgspec.Struct, frozen=True):
    """A new priority of all arrays in a partition of the log that match a filter and have not
    ended; the other changes of the batch are before it. `labels`: as JSON, if it has some.
    """

    partition: int
    queue: str
    job_set: str | None
    classes: list[str]
    labels: str | None
    priority: int


class ArrayChanges(msgspec.Struct, frozen=True):
    """Everything that a batch changes of arrays.

    `counts`: (array, state) -> how many more tasks are in it. `cancelled_tasks`: (array, chunk) ->
    for each of its `CHUNK_TASKS` indexes `1` if the task was cancelled before it became a job, else
    `0`. `priorities`: in their order.
    """

    new: list[ArrayRow]
    changes: dict[str, ArrayChange]
    counts: dict[tuple[str, str], int]
    cancelled_tasks: dict[tuple[str, int], bytearray]
    priorities: list[ArrayPriority]
