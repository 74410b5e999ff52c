"""What the OpenAPI document says of answers that msgspec writes."""

from collections.abc import Sequence
from typing import Any, Final

from fairlead_common.web import openapi

JSON: Final = openapi.JSON
NOT_CHANGED: Final = 304


def answers(
    kind: Any, what: str, *problems: int, media: str | Sequence[str] = JSON
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: 200 with this type, and these. `Any`: as FastAPI has it."""
    kinds = (media,) if isinstance(media, str) else media
    made: dict[int | str, dict[str, Any]] = {200: openapi.answer(kind, what, kinds)}
    if NOT_CHANGED in problems:
        made[NOT_CHANGED] = {"description": "Nothing changed while it waited."}
    return {**made, **openapi.problems(*(status for status in problems if status >= 400))}
