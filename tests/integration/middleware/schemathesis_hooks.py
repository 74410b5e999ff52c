"""What schemathesis must know besides: one JSON value a line is a body as well."""

from typing import Any

import msgspec
import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, value: Any) -> bytes:
    """A body with this value in its only line. `Any`: whatever was made up."""
    return msgspec.json.encode(value) + b"\n"


@schemathesis.hook
def filter_case(_: Any, case: Any) -> bool:
    """Leave out requests for events that follow them: such a response goes on without end. `Any`:
    schemathesis has no annotations for hooks."""
    if not case.path.endswith("/events"):
        return True
    headers = {name.lower(): value for name, value in (case.headers or {}).items()}
    follows = str((case.query or {}).get("follow", "")).lower() in ("true", "1", "yes", "on")
    return not follows and "text/event-stream" not in str(headers.get("accept", ""))
