"""OpenAPI of answers that msgspec writes: their schemas, written out where they are used."""

from typing import Any, Final

import msgspec

JSON: Final = "application/json"
PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}
_SAYS: Final = {
    304: "Nothing changed while it waited.",
    400: "The request cannot be read.",
    401: "No token, or one that is not known.",
    403: "The caller may not do this.",
    404: "There is no such thing.",
    422: "A parameter is not valid.",
    503: "The database or the log is away, or the view lags.",
}


def schema(kind: Any) -> dict[str, Any]:
    """The schema of a type, or of any of several, without references."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    made, parts = msgspec.json.schema_components(kinds, ref_template="#/{name}")
    if len(made) > 1:
        return {"anyOf": _resolved(list(made), parts)}
    resolved: dict[str, Any] = _resolved(made[0], parts)
    return resolved


def _resolved(node: Any, parts: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_resolved(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolved(parts[node["$ref"].removeprefix("#/")], parts)
    return {name: _resolved(each, parts) for name, each in node.items()}


def answers(
    kind: Any, what: str, *problems: int, media: str = JSON
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: 200 with this type, the usual problems and these."""
    content = {media: {"schema": {"type": "string"} if kind is str else schema(kind)}}
    made: dict[int | str, dict[str, Any]] = {200: {"description": what, "content": content}}
    for status in sorted({401, 403, 422, 503, *problems}):
        made[status] = {"description": _SAYS[status]}
        if status >= 400:
            made[status]["content"] = {"application/problem+json": {"schema": PROBLEM}}
    return made
