"""Which jobs a list is about, and how a query says so."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.web.query_validation import validated_by

GROUPS: Final = ("queue", "jobSet", "state", "cluster", "node", "class")
LABEL: Final = "label."
ANNOTATION: Final = "annotation."
GROUP_LABELS_MAX: Final = 3
_FAILED: Final = ("FAILED", "REJECTED")
"""States in which a job has a category."""
NUMBER_MIN: Final = -(2**63)
NUMBER_MAX: Final = 2**63 - 1
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a list is about; an empty field does not restrict.

    `reach`: the queues that the caller may view. Labels and annotations are pairs, sorted.
    """

    reach: QueueScope = ALL_QUEUES
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
        """Whether counters answer how many there are: no row has to be looked at."""
        rows = (self.cluster, self.node, self.category, self.q, self.submitted_after_ms)
        return not (self.labels or self.annotations) and all(value is None for value in rows)

    @property
    def leaves_out(self) -> bool:
        """Whether jobs of a branch may be left out, so that many are visited to find few."""
        return (
            bool(self.classes)
            or not msgspec.structs.replace(self, submitted_after_ms=None).is_counted
        )

    def key(self) -> list[object]:
        """What a cursor of this list belongs to."""
        return [value for name, value in msgspec.structs.asdict(self).items() if name != "reach"]

    def number_min(self) -> int:
        """No job submitted after that time has a smaller number."""
        if self.submitted_after_ms is None:
            return NUMBER_MIN
        number = ids.submission_number(max(self.submitted_after_ms, ids.NUMBER_EPOCH_MS), 0, 0, 0)
        return min(number, NUMBER_MAX)

    def arguments(self) -> tuple[object, ...]:
        """What the piece `matching` of the statements takes."""
        return (
            list(self.classes),
            self.category,
            self.cluster,
            self.node,
            _pairs(self.labels),
            _pairs(self.annotations),
            self.q,
        )


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str | None:
    return msgspec.json.encode(dict(pairs)).decode() if pairs else None


def check_states(text: str) -> None:
    """Raises `ValueError` for a word that is no state."""
    wrong = [word for word in words(text, upper=True) if word not in JobState.__members__]
    if wrong:
        raise ValueError(f"{wrong[0][:40]!r} is no state; there are {', '.join(JobState)}.")


def states(text: str | None, category: str | None) -> tuple[str, ...]:
    """States from a list of words; with a category those that have one."""
    found = words(text, upper=True)
    if category is not None:
        return tuple(state for state in _FAILED if not found or state in found) or found
    return found


def words(text: str | None, *, upper: bool = False) -> tuple[str, ...]:
    """The parts of a comma-separated text, each once, sorted."""
    said = (text or "").upper() if upper else text or ""
    return tuple(sorted({part for part in said.split(",") if part}))


def named(parameters: Iterable[tuple[str, str]], prefix: str) -> tuple[tuple[str, str], ...]:
    """The pairs given as `label.K=V`."""
    found = {name[len(prefix) :]: value for name, value in parameters if name.startswith(prefix)}
    return tuple(sorted(found.items()))


def time_ms(text: str) -> int:
    """A time from RFC 3339. Raises `ValueError`."""
    try:
        # A plus sign that was not escaped arrives as a space.
        said = re.sub(r" (\d\d:\d\d)$", r"+\1", text)
        if _TIME.fullmatch(said) is None:
            raise ValueError("not RFC 3339")
        return round(datetime.fromisoformat(said).astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        detail = f"{text[:40]!r} is no time; write it like 2026-01-31T12:00:00Z."
        raise ValueError(detail) from None


Time = Annotated[str, validated_by(time_ms)]
"""A parameter that is a time."""


def dimensions(text: str) -> list[str]:
    """What to group by. Raises `ValueError`."""
    names = list(dict.fromkeys(name for name in text.split(",") if name))
    wrong = [name for name in names if name not in GROUPS and not _is_label(name)]
    if wrong or not names:
        known = ", ".join((*GROUPS, "label.<name>"))
        raise ValueError(f"{(wrong or [''])[0][:40]!r} is none of {known}.")
    if sum(map(_is_label, names)) > GROUP_LABELS_MAX:
        raise ValueError(f"Group by {GROUP_LABELS_MAX} labels at most.")
    return names


def _is_label(name: str) -> bool:
    return name.startswith(LABEL) and len(name) > len(LABEL)


def refusal(name: str, detail: str) -> Problem:
    """A 422 about one parameter."""
    return Problem("invalid", "A parameter is not valid.", [FieldError(f"/query/{name}", detail)])
