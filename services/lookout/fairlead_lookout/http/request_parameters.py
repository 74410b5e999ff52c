"""The parameters of requests: their types, and how a text becomes a value."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import Depends, Header, Path, Query, Request
from starlette.convertors import StringConvertor, register_url_convertor

from fairlead_common.domain.lifecycle import JobState
from fairlead_common.web.requests.query_validation import validated_by
from fairlead_lookout.store.queries.list_filters import (
    ANNOTATION,
    LABEL,
    JobFilter,
)

GROUP_DIMENSIONS: Final = ("queue", "jobSet", "state", "cluster", "node", "class")
GROUP_LABELS_MAX: Final = 3
_STATES_WITH_CATEGORY: Final = ("FAILED", "REJECTED")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)")
_DURATION_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd])")
_DURATION: Final = re.compile(rf"(?:{_DURATION_PART.pattern}){{1,4}}")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

Text = Annotated[str | None, Query(max_length=300)]
QueueName = Annotated[str, Path(max_length=256)]
JobSetName = Annotated[str, Path(max_length=256)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Cursor = Annotated[str | None, Query(max_length=400)]
IfNoneMatch = Annotated[str | None, Header(max_length=400)]
JobReference = Annotated[
    str, Path(alias="job", max_length=512, description="A job's id, or `queue/jobSet/clientId`.")
]
WebhookName = Annotated[
    str, Path(alias="webhook", max_length=63, description="The webhook's name.")
]
DELIVERY_ID_MAX: Final = 2**63 - 1
DeliveryState = Literal["PENDING", "DELIVERED", "FAILED"]


class _Reference(StringConvertor):
    """An id, or `queue/jobSet/clientId`: not `ID/cancel`, which is the path of another call."""

    regex = "[^/]+|.+/.+/.+"


register_url_convertor("reference", _Reference())


def check_state(text: str) -> None:
    """Raises `ValueError` for a text that is not a job state."""
    if text not in JobState.__members__:
        raise ValueError(f"{text[:40]!r} is not a job state. Use {', '.join(JobState)}.")


def check_states(text: str) -> None:
    """Raises `ValueError` for a word that is not a job state."""
    for word in parse_words(text, upper=True):
        check_state(word)


TaskState = Annotated[
    Annotated[str, validated_by(check_state)] | None,
    Query(max_length=20, description=f"Only tasks in this state: {', '.join(JobState)}."),
]


def parse_states(text: str | None, category: str | None) -> tuple[str, ...]:
    """States from a comma-separated list; with a category only those in which a job has one."""
    states = parse_words(text, upper=True)
    if category is not None:
        return tuple(s for s in _STATES_WITH_CATEGORY if not states or s in states) or states
    return states


def parse_words(text: str | None, *, upper: bool = False) -> tuple[str, ...]:
    """The words of a comma-separated text, without duplicates, sorted."""
    words = (text or "").upper() if upper else text or ""
    return tuple(sorted({word for word in words.split(",") if word}))


def parse_prefixed(
    parameters: Iterable[tuple[str, str]], prefix: str
) -> tuple[tuple[str, str], ...]:
    """The pairs given as `<prefix>NAME=VALUE`, sorted by name."""
    pairs = {name[len(prefix) :]: value for name, value in parameters if name.startswith(prefix)}
    return tuple(sorted(pairs.items()))


def parse_time_ms(text: str) -> int:
    """A time in RFC 3339 as ms since 1970. Raises `ValueError`."""
    try:
        # A plus sign that was not escaped arrives as a space.
        unescaped = re.sub(r" (\d\d:\d\d)$", r"+\1", text)
        if _TIME.fullmatch(unescaped) is None:
            raise ValueError("not RFC 3339")
        return round(datetime.fromisoformat(unescaped).astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        detail = f"{text[:40]!r} is not a valid time. Write it like 2026-01-31T12:00:00Z."
        raise ValueError(detail) from None


Time = Annotated[str, validated_by(parse_time_ms)]
"""A parameter that is a time."""


def parse_start_ms(text: str, now_ms: int) -> int:
    """A duration before `now_ms`, or a time, as ms since 1970. Raises `ValueError`."""
    if _DURATION.fullmatch(text):
        parts = _DURATION_PART.findall(text)
        seconds = sum(float(amount) * _UNIT_S[unit] for amount, unit in parts)
        return max(0, now_ms - round(1000 * seconds))
    try:
        return max(0, parse_time_ms(text))
    except ValueError:
        raise ValueError(
            f"{text[:40]!r} is not a valid start. Write a duration like 30s, 10m, 2h or 1h30m, or a"
            " time like 2026-01-31T12:00:00Z."
        ) from None


Start = Annotated[str, validated_by(lambda text: parse_start_ms(text, 0))]
"""A parameter that is a duration before now, or a time."""


def parse_dimensions(text: str) -> list[str]:
    """What to group by. Raises `ValueError`."""
    names = list(dict.fromkeys(name for name in text.split(",") if name))
    wrong = [name for name in names if name not in GROUP_DIMENSIONS and not _is_label(name)]
    if wrong or not names:
        known = ", ".join((*GROUP_DIMENSIONS, "label.<name>"))
        raise ValueError(f"{(wrong or [''])[0][:40]!r} is not a group. Use {known}.")
    if sum(map(_is_label, names)) > GROUP_LABELS_MAX:
        raise ValueError(f"Jobs can be grouped by at most {GROUP_LABELS_MAX} labels.")
    return names


def _is_label(name: str) -> bool:
    return name.startswith(LABEL) and len(name) > len(LABEL)


def parse_job_filter(
    request: Request,
    queue: Text = None,
    job_set: Annotated[str | None, Query(alias="jobSet", max_length=256)] = None,
    state: Annotated[
        Annotated[str, validated_by(check_states)] | None, Query(max_length=300)
    ] = None,
    class_: Annotated[str | None, Query(alias="class", max_length=300)] = None,
    cluster: Annotated[str | None, Query(max_length=256)] = None,
    node: Annotated[str | None, Query(max_length=256)] = None,
    category: Annotated[str | None, Query(max_length=100)] = None,
    submitted_after: Annotated[
        Time | None,
        Query(alias="submittedAfter", max_length=40, description="RFC 3339."),
    ] = None,
    q: Annotated[
        str | None,
        Query(max_length=300, description="Part of a client id or job set, or an id's beginning."),
    ] = None,
) -> JobFilter:
    """The filter of a query, `label.K=V` and `annotation.K=V` included. A parameter without a value
    does not restrict, as forms of pages send all their fields."""
    parameters = request.query_params.multi_items()
    return JobFilter(
        queue=queue or None,
        job_set=job_set or None,
        states=parse_states(state, category or None),
        classes=parse_words(class_),
        cluster=cluster or None,
        node=node or None,
        category=category or None,
        labels=parse_prefixed(parameters, LABEL),
        annotations=parse_prefixed(parameters, ANNOTATION),
        submitted_after_ms=None if submitted_after is None else parse_time_ms(submitted_after),
        q=q or None,
    )


JobFilterQuery = Annotated[JobFilter, Depends(parse_job_filter)]
