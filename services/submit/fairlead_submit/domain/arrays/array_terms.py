"""Arrays of tasks: from the field `array` of a job to the terms of the array, or to errors."""

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import ArrayId, parse_task_id
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.records import events, index_sets
from fairlead_common.domain.records.index_sets import IndexSet
from fairlead_submit.domain.request_types import Array

COUNT_MAX: Final = index_sets.INDEX_MAX + 1
"""The largest `count`: indexes have seven digits."""
DIVIDED_MAX: Final = 10 * index_sets.RANGES_MAX
"""Most ranges into which requests divide the tasks that they do not name."""
AFTER_MAX: Final = 100
"""Most jobs and arrays that an array waits for: they are saved with each change of its state."""


class ArrayTerms(msgspec.Struct, frozen=True):
    """The tasks of an array: which of `count` indexes, and how many at a time.

    `after`: the array whose tasks they follow, as it was named.
    """

    count: int
    indexes: IndexSet
    running_max: int | None = None
    after: str | None = None


def read_terms(array: Array, found: list[FieldError]) -> ArrayTerms:
    """The terms of an array; pointers of errors begin at the array."""
    count = array.count
    if count is None:
        found.append(FieldError("/count", "is missing"))
        return ArrayTerms(1, index_sets.make_full(1))
    if not 1 <= count <= COUNT_MAX:
        detail = f"is {count}; an array has at least 1 and at most {COUNT_MAX} tasks"
        found.append(FieldError("/count", detail))
        return ArrayTerms(1, index_sets.make_full(1))
    running_max = array.max_running
    if running_max is not None and running_max < 1:
        found.append(FieldError("/maxRunning", f"is {running_max}; at least 1 is expected"))
    if running_max is not None and running_max > COUNT_MAX:
        detail = f"is {running_max}; at most {COUNT_MAX}, the most tasks of an array, is expected"
        found.append(FieldError("/maxRunning", detail))
    indexes = index_sets.make_full(count)
    if array.indexes is not None:
        indexes = read_indexes(array.indexes, "/indexes", found) or indexes
        last = indexes.ranges[-1][1]
        if last >= count:
            detail = f"has {last}, but the indexes of this array are 0 to {count - 1} (`count`)"
            found.append(FieldError("/indexes", detail))
    return ArrayTerms(count, indexes, running_max, array.after_corresponding)


def read_indexes(text: str, pointer: str, found: list[FieldError]) -> IndexSet | None:
    """The set that a text of the request describes; None if it is not valid."""
    try:
        return index_sets.parse(text)
    except ValueError as error:
        found.append(FieldError(pointer, str(error)))
        return None


def choose_indexes(every: IndexSet, named: IndexSet, cancelled_ranges: int) -> IndexSet:
    """The tasks of an array among those that a request names. Raises ValueError, with a message
    for the user, if these have more ranges than an event can name, or if the request would divide
    the others, after the cancellation of `cancelled_ranges`, into more than `DIVIDED_MAX`.
    """
    chosen, others = every.common(named), every.minus(named)
    divided = len(others.ranges) + cancelled_ranges
    if len(chosen.ranges) > index_sets.RANGES_MAX:
        raise ValueError(
            f"names {len(chosen.ranges)} ranges of the tasks of this array; at most"
            f" {index_sets.RANGES_MAX} are allowed. Name the indexes in several requests"
        )
    if divided > DIVIDED_MAX:
        raise ValueError(
            f"divides the tasks of this array, with what was cancelled before, into {divided}"
            f" ranges; at most {DIVIDED_MAX} are allowed. Name longer ranges"
        )
    return chosen


def explain_refusal(verb: Verb, array: ArrayId, job_id: str) -> str | None:
    """Why this cannot be done with an array, or with a task of it that is not released; None if
    it can, or if it changes nothing, as with a queued job.
    """
    _, index = parse_task_id(job_id)
    if index < 0:
        if verb in (Verb.CANCEL, Verb.REPRIORITIZE):
            return None
        return f"is array {array}: name its tasks, or use `filter`"
    if verb is not Verb.REPRIORITIZE:
        return None
    return (
        f"is task {index} of array {array}, which has not been released and has no priority of its"
        f" own. Change the priority of the array, by its id {array}, or of its job set, by `filter`"
    )


def check_template(event: events.JobSubmitted, after: int) -> Iterator[FieldError]:
    """What an array cannot have; pointers begin at the job. `after`: how many jobs and arrays it
    waits for.
    """
    if after > AFTER_MAX:
        detail = f"has {after} entries; at most {AFTER_MAX} are allowed with `array`"
        yield FieldError("/after", detail)
    if event.gang is not None:
        yield FieldError("/gang", "is not allowed with `array`: tasks start independently")
    if event.hold:
        yield FieldError("/hold", "is not allowed with `array`")
    if event.queue_s_max is not None:
        detail = "is not allowed with `array`: tasks wait for each other"
        yield FieldError("/maxQueueSeconds", detail)


def make_digest(template: str, terms: ArrayTerms) -> str:
    """The digest of an array, from the digest of its tasks and its terms."""
    text = f"{template} {terms.count} {terms.indexes} {terms.running_max}"
    if terms.after is not None:
        text += f" {terms.after}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def make_event(
    template: events.JobSubmitted, terms: ArrayTerms, after: ArrayId | None = None
) -> events.ArraySubmitted:
    """The event that submits an array; the id of `template` is the array's."""
    return events.ArraySubmitted(
        array=ArrayId(template.job_id),
        template=template,
        count=terms.count,
        indexes=str(terms.indexes),
        running_max=terms.running_max,
        after=after,
    )
