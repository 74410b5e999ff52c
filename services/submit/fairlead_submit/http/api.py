"""All routes of submit."""

from fastapi import APIRouter

from fairlead_submit.http.auth.sign_in_routes import sign_in_routes
from fairlead_submit.http.auth.token_routes import session_routes, token_routes
from fairlead_submit.http.configuration.executor_routes import executor_routes
from fairlead_submit.http.configuration.queue_routes import queue_routes
from fairlead_submit.http.configuration.secret_routes import secret_routes
from fairlead_submit.http.jobs.array_change_routes import array_change_routes
from fairlead_submit.http.jobs.group_change_routes import group_change_routes
from fairlead_submit.http.jobs.manifest_routes import manifest_routes
from fairlead_submit.http.jobs.submission_routes import job_routes
from fairlead_submit.service.service import Service


def routers(service: Service) -> list[APIRouter]:
    """The routers of all routes, the most frequently used first: each one costs a look-up."""
    return [
        job_routes(service),
        manifest_routes(service),
        group_change_routes(service),
        array_change_routes(service),
        queue_routes(service),
        secret_routes(service.queues, service.secrets),
        executor_routes(service),
        token_routes(service.settings, service.pool, service.identify),
        session_routes(service.settings, service.pool, service.identify),
        sign_in_routes(service.settings, service.pool, service.identify),
    ]
