"""The differences between two states of an object, line by line. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from fairlead.models.job_models import QUEUE_BY_SERVER

Plain: TypeAlias = Mapping[str, object] | Sequence[object] | str | int | float | bool | None


def list_differences(old: msgspec.Struct, new: msgspec.Struct) -> list[str]:
    """`weight: 1 -> 2`, one line for each field, without the fields that the server sets."""
    before, after = _plain(old), _plain(new)
    return [
        f"{name}: {_format_value(before.get(name))} -> {_format_value(after.get(name))}"
        for name in dict.fromkeys((*before, *after))
        if name not in QUEUE_BY_SERVER and before.get(name) != after.get(name)
    ]


def _plain(thing: msgspec.Struct) -> dict[str, object]:
    """By place, as files have it: `limits.default.cpu`."""
    return {
        place: value
        for field in msgspec.structs.fields(thing)
        for place, value in _leaves(
            field.encode_name, msgspec.to_builtins(getattr(thing, field.name))
        )
    }


def _leaves(place: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{place}.{key}", inner)
    else:
        yield place, value


def _format_value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.10g}"
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
