"""JSON answers: how they are written, and what the OpenAPI document says about them."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from fastapi import Response

from fairlead_common.web import openapi

NDJSON: Final = "application/x-ndjson"
SSE: Final = "text/event-stream"
NOT_CHANGED: Final = 304
_encode: Final = msgspec.json.Encoder().encode


def json_response(value: object, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_encode(value), media_type=openapi.JSON, headers=headers)


def make_etag(value: object) -> str:
    """A tag that changes with this value."""
    return f'"{hashlib.blake2b(_encode(value), digest_size=8).hexdigest()}"'


def document_responses(
    kind: Any, description: str, *problems: int, media: str | Sequence[str] = openapi.JSON
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: 200 with this type, and these. `Any`: as FastAPI has it."""
    kinds = (media,) if isinstance(media, str) else media
    made: dict[int | str, dict[str, Any]] = {200: openapi.answer(kind, description, kinds)}
    if NOT_CHANGED in problems:
        made[NOT_CHANGED] = {"description": "Nothing changed within `wait`."}
    return {**made, **openapi.problems(*(status for status in problems if status >= 400))}
