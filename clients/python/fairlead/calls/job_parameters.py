"""The parameters that select jobs and job sets: of queries, and of actions."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from fairlead.calls import request_building
from fairlead.models.job_models import Filter, require_list

POSITION_WAIT_S: Final = 10.0
"""How long the server waits for the position that a read must include."""

IDS_MAX: Final = 1_000
"""The maximum number of ids in one request."""

Format: TypeAlias = Literal["csv", "ndjson"]
"""The format of an export."""

Jobs: TypeAlias = Sequence[str] | Filter
"""The jobs of an action: their ids, or a filter with a queue."""


def job_set_query(
    *, queue: str | None, active: bool | None, q: str | None, after: str | None
) -> list[tuple[str, str]]:
    """The parameters that select job sets."""
    query = request_building.make_query({"queue": queue, "active": active, "q": q})
    return [*query, *request_building.make_position_query(after, POSITION_WAIT_S)]


def job_query(
    where: Filter | None,
    *,
    category: str | None,
    annotations: Mapping[str, str] | None,
    submitted_after: str | None,
    q: str | None,
    sort: str | None,
    after: str | None,
) -> list[tuple[str, str]]:
    """The parameters that select and order jobs."""
    return [
        *filter_query(where),
        *request_building.make_query(
            {"category": category, "submittedAfter": submitted_after, "q": q, "sort": sort}
        ),
        *((f"annotation.{name}", value) for name, value in (annotations or {}).items()),
        *request_building.make_position_query(after, POSITION_WAIT_S),
    ]


def filter_query(where: Filter | None) -> list[tuple[str, str]]:
    """The parameters of a filter."""
    where = where or Filter()
    query = request_building.make_query(
        {
            "queue": where.queue,
            "jobSet": where.job_set,
            "state": ",".join(where.states) or None,
            "class": ",".join(where.classes) or None,
            "cluster": where.cluster,
            "node": where.node,
        }
    )
    return [*query, *((f"label.{name}", value) for name, value in where.labels.items())]


def make_target(jobs: Jobs) -> dict[str, object]:
    """The fields of a request that select its jobs. Raises `TypeError` for a single string."""
    if isinstance(jobs, Filter):
        return {"filter": jobs}
    require_list("ids", jobs)
    return {"ids": list(jobs)}


def make_targets(jobs: Jobs) -> list[dict[str, object]]:
    """As `make_target`, for one request per `IDS_MAX` ids."""
    if isinstance(jobs, Filter | str):
        return [make_target(jobs)]
    return [make_target(jobs[start : start + IDS_MAX]) for start in range(0, len(jobs), IDS_MAX)]
