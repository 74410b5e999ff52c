"""Golden lines: what was once written to the log, which every later version must still read.

The files are append-only. A struct that grew a field gets a *new* line with that field; the old
lines stay, because logs hold such records.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(__file__).parent.parent / "golden"


def lines(name: str) -> list[bytes]:
    """The lines of a golden file, without their ends."""
    return (FOLDER / name).read_bytes().splitlines()


def tag(line: bytes) -> str:
    """What the line says it is, "" for a struct that is alone on its topic."""
    return str(msgspec.json.decode(line).get("type", ""))


def unseen_fields(kind: type[msgspec.Struct], of_kind: Iterable[bytes]) -> set[str]:
    """The fields of a struct, by their written names, that no line mentions."""
    seen = {name for line in of_kind for name in msgspec.json.decode(line)}
    return {field.encode_name for field in msgspec.structs.fields(kind)} - seen


def tag_of(kind: type[msgspec.Struct]) -> str:
    """The tag under which a struct is written."""
    return str(kind.__struct_config__.tag or "")
