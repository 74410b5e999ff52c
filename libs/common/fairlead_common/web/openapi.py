"""Completes the OpenAPI document that the framework makes from the routes.

Services write schemas from the structs that decode and encode (`msgspec`), each where it is used.
Here every schema with a name moves to `components`, and every call gets the problems with which the
middleware can answer; the description that a route gives for a status stays.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from fairlead_common.domain.problems import TYPES

SCHEMES: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token (`fairlead token create`), or a token of an OpenID provider.",
    },
    "password": {
        "type": "http",
        "scheme": "basic",
        "description": "Accepted if the settings have a password file.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "fairlead_session",
        "description": (
            "A browser that was signed in by a link (`fairlead token link`). The name ends with the"
            " port where the address has one: `fairlead_session_8080`."
        ),
    },
}
COMMON_STATUSES: Final = (400, 408, 429, 431, 500, 503)
"""Statuses with which any call can be answered by the middleware."""
SIGN_IN_STATUSES: Final = (401, 403)
"""Statuses of calls that need a sign-in."""
JSON: Final = "application/json"
SLUGS: Final[Mapping[int, str]] = {kind.status: slug for slug, kind in TYPES.items()}
_PARAMETER: Final = re.compile(r"\{[^}]*\}")
RATE_LIMIT: Final = {
    "RateLimit-Policy": (
        "The rate limit of one caller in this process: `q` requests, refilled within `w` seconds."
    ),
    "RateLimit": "The rest of the limit: `r` requests; it is completely refilled in `t` seconds.",
}
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
        "delivery": "The delivery's id.",
        "executor": "The cluster's name.",
        "follow": "Continue with new events only.",
        "group": "The group's id.",
        "if-match": "The ETag that it must still have.",
        "if-none-match": (
            "ETags that the client has: the response is 304 while nothing has changed."
        ),
        "include": "`count`: also return the number of matches, up to 10,000.",
        "job_id": "The job's id.",
        "clientId": "Only with this client id.",
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
_OPERATIONS: Final = frozenset({"get", "put", "post", "delete", "patch"})

Json = dict[str, Any]
"""A part of the document: JSON as it comes."""


def install(app: FastAPI, open_paths: Sequence[str], open_below: tuple[str, ...]) -> None:
    """Make `app.openapi()` return the complete document."""
    made: list[Json] = []
    framework = app.openapi

    def document() -> Json:
        if not made:
            name_operations(app.routes)
            made.append(complete(framework(), frozenset(open_paths), open_below))
        return made[0]

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI says to extend it


def complete(document: Json, open_paths: frozenset[str], open_below: tuple[str, ...]) -> Json:
    """The document with shared schemas, problems and security schemes."""
    schemas: dict[str, Json] = {"Problem": problem_schema()}
    paths: Json = {}
    for path, operations in sorted(document["paths"].items()):
        is_open = path in open_paths or path.startswith(open_below)
        paths[path] = {
            method: _operation(operation, is_open) if method in _OPERATIONS else operation
            for method, operation in operations.items()
        }
    used = {
        int(status) for path in paths.values() for o in path.values() for status in o["responses"]
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairlead",
            "version": document["info"]["version"],
            "description": "A batch scheduler over many clusters. Every error is a problem document"
            " (RFC 9457); `/problems` says what each type means and what to do about it.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{name: []} for name in SCHEMES],
        "paths": _hoisted(paths, schemas),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": {
                name: problem_response(status)
                for status, name in sorted(_NAMES.items())
                if status in used
            },
            "headers": {
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in RATE_LIMIT.items()
            },
            "securitySchemes": SCHEMES,
        },
    }


def answer(kind: Any, description: str, media: Sequence[str] = (JSON,)) -> Json:
    """An entry of a route's `responses`: this type, or one of several. `str` is plain text."""
    part = {"type": "string"} if kind is str else schema(kind)
    return {"description": description, "content": {each: {"schema": part} for each in media}}


def problems(*statuses: int) -> dict[int | str, Json]:
    """Entries of a route's `responses`: these, and those about its parameters."""
    return {
        status: {"description": TYPES[SLUGS[status]].title} for status in sorted({422, *statuses})
    }


def schema(kind: Any, required: Mapping[type, Sequence[str]] | None = None) -> Json:
    """The JSON schema of a type, or of one of several, without references; named parts keep their
    names as titles. `required`: fields that are required although their types have defaults.

    It is made once, and must not be changed.
    """
    fields = tuple((type_, tuple(names)) for type_, names in (required or {}).items())
    return _make_schema(kind if isinstance(kind, tuple) else (kind,), fields)


@functools.cache
def _make_schema(
    kinds: tuple[Any, ...], required: tuple[tuple[type, tuple[str, ...]], ...]
) -> Json:
    made, parts = msgspec.json.schema_components(kinds, ref_template="{name}")
    for type_, fields in required:
        if type_.__name__ in parts:
            parts[type_.__name__]["required"] = list(fields)
    whole: Json = _written_out(made[0] if len(made) == 1 else {"anyOf": list(made)}, parts)
    return whole


def _written_out(part: Any, parts: Mapping[str, Json]) -> Any:
    """The schema without references: no type of the API is too deep for that."""
    match part:
        case {"$ref": str(name)}:
            return _written_out(parts[name], parts)
        case dict():
            return {key: _written_out(value, parts) for key, value in part.items()}
        case list():
            return [_written_out(item, parts) for item in part]
        case _:
            return part


def methods_at(document: Json, path: str) -> list[str]:
    """The methods that the document has for a path, in any service."""
    found: Json = document["paths"].get(path) or next(
        (
            operations
            for template, operations in document["paths"].items()
            if re.fullmatch(_PARAMETER.sub("[^/]+", template), path)
        ),
        {},
    )
    return sorted(method.upper() for method in found)


def problem_schema() -> Json:
    """The schema of every problem document."""
    return {
        "title": "Problem",
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance"],
        "properties": {
            "type": {"enum": [f"/problems/{slug}" for slug in TYPES]},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string", "description": "What is wrong with this request."},
            "instance": {"type": "string", "description": "The request's id, `X-Request-Id`."},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": {
                        "pointer": {"type": "string", "description": "A JSON pointer (RFC 6901)."},
                        "detail": {"type": "string"},
                    },
                },
            },
        },
    }


_NAMES: Final[Mapping[int, str]] = {
    kind.status: "".join(word.capitalize() for word in slug.split("-"))
    for slug, kind in TYPES.items()
}


def problem_response(status: int) -> Json:
    """The response with this status, with its meaning and an example."""
    slug = SLUGS[status]
    kind = TYPES[slug]
    example: Json = {
        "type": f"/problems/{slug}",
        "title": kind.title,
        "status": status,
        "detail": "What is wrong with this request.",
        "instance": "6f1c2a9be07d4410",
    }
    if status == 422:
        example["errors"] = [{"pointer": "/jobs/0/cpu", "detail": "'-1' is negative"}]
    response: Json = {
        "description": " ".join(kind.means),
        "content": {
            "application/problem+json": {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "example": example,
            }
        },
    }
    if status in (429, 503):
        response["headers"] = {
            "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        }
    return response


def _operation(operation: Json, is_open: bool) -> Json:
    """One call, with the problems with which it can be answered."""
    responses: Json = {}
    for status, response in operation["responses"].items():
        if int(status) < 400 or _is_own(response):
            described = _without_nothing(response)
            responses[status] = (
                described if is_open else {**described, "headers": _headers(response)}
            )
    declared = {int(status) for status in operation["responses"] if int(status) >= 400}
    met = {*declared, *COMMON_STATUSES, *(() if is_open else SIGN_IN_STATUSES)}
    for status in met - {int(status) for status in responses}:
        responses[str(status)] = {"$ref": f"#/components/responses/{_NAMES[status]}"}
    made = {**operation, "responses": dict(sorted(responses.items()))}
    if "parameters" in operation:
        made["parameters"] = [_parameter(each) for each in operation["parameters"]]
    if PREFIXES in operation:
        made["description"] = describe_prefixes(operation[PREFIXES])
    if is_open:
        made["security"] = []
    return made


def _parameter(parameter: Json) -> Json:
    """A parameter with the common description of its name, if it has none of its own."""
    meaning = PARAMETERS.get(parameter["name"], "")
    return {"description": meaning, **parameter} if meaning else parameter


def _without_nothing(response: Json) -> Json:
    """The response without the empty content that the framework adds."""
    if "content" not in response:
        return response
    content = {kind: part for kind, part in response["content"].items() if part.get("schema")}
    rest = {name: part for name, part in response.items() if name != "content"}
    return {**rest, "content": content} if content else rest


def _is_own(response: Json) -> bool:
    """Whether a route answers a failure with something else than a problem. The framework's own
    schema of parameter errors does not count: a problem takes its place.
    """
    described = response.get("content", {}).get("application/json", {}).get("schema", {})
    return bool(described) and "HTTPValidationError" not in described.get("$ref", "")


def _headers(response: Json) -> Json:
    limits = {name: {"$ref": f"#/components/headers/{name}"} for name in RATE_LIMIT}
    return {**response.get("headers", {}), **limits}


def _hoisted(part: Any, schemas: dict[str, Json]) -> Any:
    """The schema with every named part moved to `schemas`. `Any`: JSON at every depth."""
    if isinstance(part, list):
        return [_hoisted(item, schemas) for item in part]
    if not isinstance(part, dict):
        return part
    made = {key: _hoisted(value, schemas) for key, value in part.items()}
    if made.get("type") != "object" or not isinstance(made.get("title"), str):
        return made
    name, number = made["title"], 2
    while schemas.setdefault(name, made) != made:
        name, number = f"{made['title']}{number}", number + 1
    return {"$ref": f"#/components/schemas/{name}"}


def text(document: Json) -> bytes:
    """The text of the document, as it is committed."""
    return (
        msgspec.json.format(msgspec.json.encode(document, order="deterministic"), indent=1) + b"\n"
    )


def name_operations(routes: Iterable[BaseRoute]) -> None:
    """Name each call as generated clients do: `listJobs`."""
    for route in routes:
        if isinstance(route, APIRoute):
            first, *others = route.name.split("_")
            route.operation_id = first + "".join(map(str.capitalize, others))


def describe_prefixes(prefixes: list[str]) -> str:
    """The description of parameters with a prefix and any name."""
    forms = " and ".join(f"`{prefix}NAME=VALUE`" for prefix in prefixes)
    return f"Takes {forms} as well, also repeatedly; all of them must match."
