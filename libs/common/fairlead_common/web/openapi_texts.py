"""Descriptions of parameters that are the same in every call, and the names of calls."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fastapi.routing import APIRoute

PREFIXES: Final = "x-parameter-prefixes"
"""In a route's `openapi_extra`: beginnings of the names that it reads itself, as `label.`."""

PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "accept": "The content type of the response.",
        "action": "The action's id, from the response that started it.",
        "active": "true: only job sets with live jobs; false: only job sets without.",
        "all": "true: the tokens of all users; for admins.",
        "category": "Only jobs that failed with this category, for example `oom`.",
        "class": "Only these priority classes, separated by commas.",
        "cluster": "Only jobs whose latest run is on this cluster.",
        "code": "The code of the link.",
        "container": "The container; the default is the first one.",
        "cursor": "`next` of the previous page.",
        "executor": "The cluster's name.",
        "follow": "Continue with new events only.",
        "if-none-match": (
            "ETags that the client has: the response is 304 while nothing has changed."
        ),
        "include": "`count`: also return the number of matches, up to 10,000.",
        "job_id": "The job's id.",
        "jobSet": "Only this job set.",
        "job_set": "The job set's name; slashes in it are not escaped.",
        "last-event-id": "Continue after this event: the `id` of the last event of a stream.",
        "limit": "The maximum number of results.",
        "name": "The queue's name.",
        "node": "The node's name.",
        "pool": "The pool's name.",
        "q": "Only names that contain this text.",
        "queue": "The queue's name.",
        "run": "The number of the run, from 1; the default is the latest run.",
        "slug": "The last segment of the problem's type.",
        "spec": "true: include the pod spec.",
        "state": "Only these states, separated by commas.",
        "stream": "Which output.",
        "token_id": "The token's id, which is not its secret.",
        "until": "`finished`: respond, or end the stream, when all jobs have ended.",
    }
)


def operation_id(route: APIRoute) -> str:
    """The name of a call in generated clients: `listJobs`."""
    first, *others = route.name.split("_")
    return first + "".join(map(str.capitalize, others))


def prefixed(prefixes: list[str]) -> str:
    """The description of parameters with a prefix and any name."""
    forms = " and ".join(f"`{prefix}NAME=VALUE`" for prefix in prefixes)
    return f"Takes {forms} as well, also repeatedly; all of them must match."
