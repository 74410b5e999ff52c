"""The routes of lookout's API. All of them only read."""

from fastapi import APIRouter, Depends

from fairlead_common.web import query_validation
from fairlead_lookout.http.api import (
    event_routes,
    export_routes,
    fairness_routes,
    job_routes,
    job_set_routes,
    log_routes,
    quarantine_routes,
    report_routes,
)
from fairlead_lookout.http.deps import Parts


def routes(parts: Parts) -> list[APIRouter]:
    """All routes of the API. Each needs a caller who may view something."""
    router = APIRouter(
        prefix="/api/v1",
        dependencies=[Depends(parts.sight), Depends(query_validation.check_query)],
        tags=["lookout"],
    )
    # What has a fixed name is asked before what may have any: a job set's name may hold slashes.
    export_routes.add_routes(router, parts)
    event_routes.add_routes(router, parts)
    job_set_routes.add_routes(router, parts)
    log_routes.add_routes(router, parts)
    job_routes.add_routes(router, parts)
    report_routes.add_routes(router, parts)
    quarantine_routes.add_routes(router, parts)
    fairness_routes.add_routes(router, parts)
    return [router]
