"""Schemas of bodies for the OpenAPI document, from the structs that decode them.

FastAPI does not see those structs, so each route carries its schema in `openapi_extra`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fairlead_common.web import openapi
from fairlead_submit.domain import request_types
from fairlead_submit.domain.groups import group_types

REQUIRED: Final = {**request_types.REQUIRED, **group_types.REQUIRED}
"""Required fields by type, by their names in JSON."""

DRY_RUN: Final = {
    "name": "dryRun",
    "in": "query",
    "description": "Validate the request and return what would happen, without doing it.",
    "schema": {"type": "boolean", "default": False},
}
IF_MATCH: Final = {
    "name": "if-match",
    "in": "header",
    "description": "The ETag of the version that the request is based on.",
    "schema": {"type": "string"},
}
LINES: Final = tuple(
    {
        "name": name,
        "in": "query",
        "description": f"{what}, where the body is one job a line.",
        "schema": {"type": "string"},
    }
    for name, what in (("queue", "The queue"), ("jobSet", "The job set"))
)


_SHORT: Final = {
    "clientId": "trial-7",
    "image": "python:3.12",
    "command": ["python", "train.py"],
    "cpu": "1",
    "memory": "2Gi",
}
_CONTAINER: Final = {"name": "main", "image": "busybox", "command": ["true"]}
_FILTER: Final = {"queue": "physics", "jobSet": "scan-12", "states": ["QUEUED"]}
EXAMPLES: Final[Mapping[type, object]] = MappingProxyType(
    {
        request_types.Submission: {"queue": "physics", "jobSet": "scan-12", "jobs": [_SHORT]},
        request_types.Job: _SHORT,
        request_types.ArrayCancellation: {"indexes": "10-19,40", "reason": "the data is wrong"},
        request_types.ArrayResubmission: {"indexes": "10-19,40", "clientId": "scan-again"},
        request_types.Manifests: {
            "queue": "physics",
            "manifests": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "scan"},
                    "spec": {"completions": 3, "template": {"spec": {"containers": [_CONTAINER]}}},
                }
            ],
        },
        group_types.GroupSubmission: {
            "queue": "physics",
            "jobSet": "training",
            "groups": [
                {
                    "clientId": "bert-1",
                    "roles": [
                        {
                            "name": "ps",
                            "min": 2,
                            "template": {"command": ["python", "ps.py"], "cpu": "2"},
                        },
                        {
                            "name": "trainer",
                            "min": 4,
                            "max": 16,
                            "template": {"command": ["python", "train.py"], "cpu": "4"},
                        },
                    ],
                    "completion": {"roles": ["trainer"]},
                }
            ],
        },
        group_types.GroupAction: {"reason": "wrong input"},
        group_types.GroupChange: {"roles": [{"name": "trainer", "max": 8}]},
        request_types.Action: {"filter": _FILTER, "reason": "wrong input"},
        request_types.Reprioritization: {"filter": _FILTER, "priority": 10},
        request_types.Release: {"ids": ["0a01k3v8m0c5q2r7t9w4x6y8zb1d"]},
        request_types.Resubmission: {
            "filter": _FILTER,
            "jobSet": "scan-12-again",
            "clientId": "again-1",
        },
        request_types.Queue: {
            "name": "physics",
            "weight": 2,
            "limits": {"default": {"cpu": 0.5}},
            "permissions": [{"subjects": ["ann", "group:physics"], "verbs": ["submit", "cancel"]}],
        },
        request_types.Cordon: {"reason": "the storage is being moved"},
        request_types.ExecutorCordon: {"cordoned": True, "reason": "a fan is broken"},
    }
)
"""Examples of bodies."""


def describe_body(
    kind: type, *, required: bool = True, lines: type | None = None, example: object = None
) -> dict[str, Any]:
    """The `requestBody` of a route that decodes this type, or one of `lines` in each line.

    `Any`: OpenAPI as FastAPI has it.
    """
    content = {openapi.JSON: _describe_content(kind, example)}
    if lines is not None:
        content["application/x-ndjson"] = _describe_content(lines, None)
    return {"requestBody": {"required": required, "content": content}}


def _describe_content(kind: type, example: object) -> dict[str, Any]:
    sample = EXAMPLES.get(kind) if example is None else example
    schema = openapi.schema(kind, REQUIRED)
    return {"schema": schema} if sample is None else {"schema": schema, "example": sample}


def describe_response(kind: type, description: str) -> dict[str, Any]:
    """One entry of a route's `responses`."""
    return openapi.answer(kind, description)


def describe_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Entries of a route's `responses`."""
    return openapi.problems(*statuses)
