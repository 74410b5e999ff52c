"""The words of the OpenAPI document that are the same in every call: what parameters mean, and what
calls are named after.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fastapi.routing import APIRoute

PREFIXES: Final = "x-parameter-prefixes"
"""In a route's `openapi_extra`: beginnings of the names that it reads itself, as `label.`."""

PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "accept": "Which content type of the answer is wanted.",
        "action": "The action's id, as the answer that started it says it.",
        "active": "true: only those with jobs that have not ended; false: only the others.",
        "all": "true: those of everybody, for admins.",
        "category": "Only those that failed for this, as `oom`.",
        "class": "Only of these priority classes, with commas between.",
        "cluster": "Only those whose newest run is on this cluster.",
        "code": "The code of the link.",
        "container": "Of this container; the first otherwise.",
        "cursor": "`next` of the page before.",
        "executor": "The cluster's name.",
        "follow": "Go on with what happens from now on.",
        "if-none-match": "ETags that are known: 304 as long as nothing has changed.",
        "include": "`count`: say also how many there are, up to 10,000.",
        "job_id": "The job's id.",
        "jobSet": "Only of this job set.",
        "job_set": "The job set's name; slashes may stand in it as they are.",
        "last-event-id": "Go on behind this event, whose `id` a stream has told.",
        "limit": "At most so many.",
        "name": "The queue's name.",
        "node": "The node's name.",
        "pool": "The pool's name.",
        "q": "Only with this text in their name.",
        "queue": "The queue's name.",
        "run": "Of this run, from 1; the newest otherwise.",
        "slug": "The last part of the problem's type.",
        "spec": "true: with the pod spec.",
        "state": "Only in these states, with commas between.",
        "stream": "Which output.",
        "token_id": "The token's id, which is not its secret.",
        "until": "`finished`: answer, or end the stream, when all jobs have ended.",
    }
)


def operation_id(route: APIRoute) -> str:
    """What generated clients name a call after: `listJobs`."""
    first, *others = route.name.split("_")
    return first + "".join(map(str.capitalize, others))


def prefixed(prefixes: list[str]) -> str:
    """What a call says of parameters that are a beginning and any name."""
    forms = " and ".join(f"`{prefix}NAME=VALUE`" for prefix in prefixes)
    return f"Takes {forms} besides, several of each: only what has all of them is found."
