"""The filters of lists: which jobs or job sets a query selects."""

from typing import Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.problems import Problem

LABEL: Final = "label."
ANNOTATION: Final = "annotation."
NUMBER_MIN: Final = -(2**63)
NUMBER_MAX: Final = 2**63 - 1


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a list contains; an empty field does not restrict.

    `visible_queues`: those that the caller is permitted to view. Labels and annotations are
    sorted pairs.
    """

    visible_queues: QueueScope = ALL_QUEUES
    queue: str | None = None
    job_set: str | None = None
    states: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    cluster: str | None = None
    node: str | None = None
    category: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    submitted_after_ms: int | None = None
    q: str | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the counters know how many jobs match, so that no row has to be read."""
        rows = (self.cluster, self.node, self.category, self.q, self.submitted_after_ms)
        return not (self.labels or self.annotations) and all(value is None for value in rows)

    @property
    def skips_rows(self) -> bool:
        """Whether jobs of a branch can fail the filter, so that many are read to find few."""
        return (
            bool(self.classes)
            or not msgspec.structs.replace(self, submitted_after_ms=None).is_counted
        )

    def cursor_key(self) -> list[object]:
        """What a cursor of this list is valid for."""
        return [
            value
            for name, value in msgspec.structs.asdict(self).items()
            if name != "visible_queues"
        ]

    def number_min(self) -> int:
        """The smallest submission number that a job submitted after that time can have."""
        if self.submitted_after_ms is None:
            return NUMBER_MIN
        number = ids.submission_number(max(self.submitted_after_ms, ids.NUMBER_EPOCH_MS), 0, 0, 0)
        return min(number, NUMBER_MAX)

    def arguments(self) -> tuple[object, ...]:
        """The arguments of the fragment `matching` of the statements."""
        return (
            list(self.classes),
            self.category,
            self.cluster,
            self.node,
            _encode_pairs(self.labels),
            _encode_pairs(self.annotations),
            self.q,
        )


def _encode_pairs(pairs: tuple[tuple[str, str], ...]) -> str | None:
    return msgspec.json.encode(dict(pairs)).decode() if pairs else None


class JobSetFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which job sets a list contains; an empty field does not restrict."""

    visible_queues: QueueScope = ALL_QUEUES
    queue: str | None = None
    active: bool | None = None
    q: str | None = None


def invalid_parameter(name: str, detail: str) -> Problem:
    """A 422 about one parameter."""
    return Problem("invalid", "A parameter is not valid.", [FieldError(f"/query/{name}", detail)])
