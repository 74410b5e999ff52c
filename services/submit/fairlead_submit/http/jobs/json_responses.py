"""JSON responses of routes."""

from collections.abc import Mapping

import msgspec
from fastapi import Response


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The value as a JSON response."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )
