"""What the OpenAPI document says of bodies: schemas made from the structs that decode them.

FastAPI does not see those structs, so each route carries its schema in `openapi_extra`; references
are written out, which no type here is too deep for.
"""

from typing import Any, Final

import msgspec

from fairlead_submit.requests import REQUIRED

DRY_RUN: Final = {
    "name": "dryRun",
    "in": "query",
    "description": "Say what is wrong or would happen, and do nothing.",
    "schema": {"type": "boolean", "default": False},
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


def request_body(kind: type, *, required: bool = True, lines: type | None = None) -> dict[str, Any]:
    """The `requestBody` of a route that decodes this type, or one of `lines` in each line.

    `Any`: OpenAPI as FastAPI has it.
    """
    content: dict[str, Any] = {"application/json": {"schema": schema(kind)}}
    if lines is not None:
        content["application/x-ndjson"] = {"schema": schema(lines)}
    return {"requestBody": {"required": required, "content": content}}


def answer(kind: type, description: str) -> dict[str, Any]:
    """One entry of a route's `responses`."""
    return {
        "description": description,
        "content": {"application/json": {"schema": schema(kind)}},
    }


def problem(description: str) -> dict[str, Any]:
    """One entry of a route's `responses`: a problem document."""
    fault = {
        "type": "object",
        "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
    }
    texts = {name: {"type": "string"} for name in ("type", "title", "detail", "instance")}
    properties = {
        **texts,
        "status": {"type": "integer"},
        "errors": {"type": "array", "items": fault},
    }
    schema_ = {"type": "object", "properties": properties, "required": ["type", "status"]}
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": schema_}},
    }


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: problem("The body cannot be read."),
    401: problem("No credentials, or unknown ones."),
    403: problem("The caller may not do this."),
    404: problem("There is no such thing."),
    409: problem("It conflicts with what is there."),
    412: problem("It has changed since it was read."),
    413: problem("The body is too large."),
    415: problem("The content type or encoding is not understood."),
    422: problem("Something is wrong with the request; every fault is named."),
    503: problem("The log or the database is away; come again after `Retry-After`."),
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These entries of `responses`, and those that every route may give."""
    return {status: PROBLEMS[status] for status in sorted({401, 403, 422, 503, *statuses})}


def schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a type, without references."""
    (top,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    structs = {type_.__name__: fields for type_, fields in REQUIRED.items()}
    for name, fields in structs.items():
        if name in parts:
            parts[name]["required"] = list(fields)
    written = _written_out(top, parts)
    assert isinstance(written, dict)
    return written


def _written_out(part: object, parts: dict[str, dict[str, Any]]) -> object:
    match part:
        case {"$ref": str(name)}:
            return _written_out(parts[name], parts)
        case dict():
            return {key: _written_out(value, parts) for key, value in part.items()}
        case list():
            return [_written_out(item, parts) for item in part]
        case _:
            return part
