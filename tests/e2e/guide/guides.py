"""The guides, taken apart: files to save, commands to type, what they print."""

import re
import textwrap
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[3]
BLOCK: Final = re.compile(r"^( *)```(\w+)(?: ([\w.-]+))?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


class Block(msgspec.Struct, frozen=True):
    """A block of code: of a language, with a name if it is a file, and the line it begins at."""

    language: str
    name: str
    text: str
    line: int


def blocks(document: str) -> list[Block]:
    """The blocks of a document, in order."""
    text = (ROOT / "docs" / document).read_text()
    return [
        Block(
            language=found[2],
            name=found[3] or "",
            text=textwrap.dedent(found[4]),
            line=text.count("\n", 0, found.start()) + 1,
        )
        for found in BLOCK.finditer(text)
    ]


def matches(expected: str, printed: str) -> bool:
    """Whether this was printed, where `...` is anything and spaces are as many as they like."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in expected.split("...")]
    pattern = r"\s*" + r".*?".join(rf"\s*{part}\s*" for part in parts)
    return re.fullmatch(pattern, printed, re.DOTALL) is not None
