"""What schemathesis must know besides: one JSON value a line is a body as well."""

from typing import Any

import msgspec
import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, value: Any) -> bytes:
    """A body with this value in its only line. `Any`: whatever was made up."""
    return msgspec.json.encode(value) + b"\n"
