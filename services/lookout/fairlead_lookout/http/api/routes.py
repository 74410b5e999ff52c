"""All routes of lookout's API. Except for those of webhooks and saved
views, they only read."""

from fastapi import APIRouter, Depends

from fairlead_common.web.requests.query_validation import StrictRoute
from fairlead_lookout.http.api import quarantine_routes, saved_view_routes
from fairlead_lookout.http.api.jobs import (
    array_routes,
    event_routes,
    export_routes,
    group_routes,
    job_routes,
    job_set_routes,
    log_routes,
)
from fairlead_lookout.http.api.scheduling import cluster_routes, fairness_routes, report_routes
from fairlead_lookout.http.api.webhooks import webhook_delivery_routes, webhook_routes
from fairlead_lookout.http.deps import Deps


def make_routers(deps: Deps) -> list[APIRouter]:
    """The routes of the API. Each needs a caller to whom some queue is visible."""
    router = APIRouter(
        prefix="/api/v1",
        dependencies=[Depends(deps.visibility)],
        route_class=StrictRoute,
        tags=["lookout"],
    )
    # Fixed paths come before paths with a job set's name, which can contain slashes.
    export_routes.add_routes(router, deps)
    event_routes.add_routes(router, deps)
    job_set_routes.add_routes(router, deps)
    log_routes.add_routes(router, deps)
    job_routes.add_routes(router, deps)
    group_routes.add_routes(router, deps)
    array_routes.add_routes(router, deps)
    report_routes.add_routes(router, deps)
    cluster_routes.add_routes(router, deps)
    quarantine_routes.add_routes(router, deps)
    fairness_routes.add_routes(router, deps)
    saved_view_routes.add_routes(router, deps)
    webhook_routes.add_routes(router, deps)
    webhook_delivery_routes.add_routes(router, deps)
    return [router]
