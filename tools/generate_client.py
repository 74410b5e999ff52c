"""Generate the blocking client from the asynchronous one.

    python tools/generate_client.py    # rewrites clients/python/fairlead/blocking

`make client` does this; a test says when what is committed is out of date. unasync replaces
`async`, `await` and the names below; ruff formats the result.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import unasync

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "clients" / "python" / "fairlead"
SOURCE: Final = "asynchronous"
TARGET: Final = "blocking"
NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AsyncBody": "Body",
        "AsyncClient": "Client",
        "AsyncConnection": "Connection",
        "AsyncTransport": "Transport",
        "AsyncioTransport": "BlockingTransport",
        "asynchronous": TARGET,
        "asyncio_transport": "blocking_transport",
    }
)
"""Names that differ, beside the names of the language that unasync knows."""

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "The asynchronous client, from which `make client` generates `fairlead.blocking`.": (
            "The blocking client, which `make client` generates from `fairlead.asynchronous`."
        ),
        "The asynchronous client": "The blocking client",
        "`AsyncClient`": "`Client`",
        "A client of a Fairlead server.": "A client of a Fairlead server; threads can share it.",
    }
)
"""What docstrings say of the two clients."""

HEAD: Final = "# Generated from fairlead/{source}/{name} (`make client`).\n"


def generated() -> dict[str, str]:
    """The modules of the blocking client: file name -> text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = sorted((PACKAGE / SOURCE).glob("*.py"))
        (folder / SOURCE).mkdir()
        for file in files:
            (folder / SOURCE / file.name).write_text(file.read_text())
        rule = unasync.Rule(f"/{SOURCE}/", f"/{TARGET}/", dict(NAMES))
        unasync.unasync_files([str(folder / SOURCE / file.name) for file in files], [rule])
        return {file.name: _finished(file.name, folder / TARGET / file.name) for file in files}


def _finished(name: str, file: Path) -> str:
    """The text with a head, sorted imports and the format of this repository."""
    text = HEAD.format(source=SOURCE, name=name) + _in_words(file.read_text())
    for arguments in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, f"--stdin-filename={PACKAGE}/{name}", "-"],
            input=text,
            capture_output=True,
            check=True,
            cwd=ROOT,
            text=True,
        )
        text = done.stdout
    return text


def _in_words(text: str) -> str:
    """What the docstrings say of the client itself."""
    for there, here in WORDS.items():
        text = text.replace(there, here)
    return text


def main() -> None:
    """Write the modules; remove those whose source is gone."""
    folder = PACKAGE / TARGET
    made = generated()
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.py"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
