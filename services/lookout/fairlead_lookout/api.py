"""The routes of lookout's API. All of them only read."""

from fastapi import APIRouter, Depends

from fairlead_common import parameters
from fairlead_lookout import (
    api_events,
    api_fairness,
    api_jobs,
    api_logs,
    api_quarantine,
    api_reports,
    api_sets,
    export,
)
from fairlead_lookout.parts import Parts


def routes(parts: Parts) -> list[APIRouter]:
    """All routes of the API. Each needs a caller who may view something."""
    router = APIRouter(
        prefix="/api/v1",
        dependencies=[Depends(parts.sight), Depends(parameters.check)],
        tags=["lookout"],
    )
    # What has a fixed name is asked before what may have any: a job set's name may hold slashes.
    export.add_routes(router, parts)
    api_events.add_routes(router, parts)
    api_sets.add_routes(router, parts)
    api_logs.add_routes(router, parts)
    api_jobs.add_routes(router, parts)
    api_reports.add_routes(router, parts)
    api_quarantine.add_routes(router, parts)
    api_fairness.add_routes(router, parts)
    return [router]
