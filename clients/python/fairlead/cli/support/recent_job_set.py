"""The job set that was used last on each server: commands accept its client ids, and reads include
a recent submission, also one of another `fairlead` process.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from fairlead.cli.support import command_base

SERVERS_MAX: Final = 50
FRESH_S: Final = 60.0
"""A server's view includes older submissions."""


class JobSet(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A job set, and the `position` of its last submission at the Unix time `at_s`."""

    queue: str
    job_set: str
    position: str = ""
    at_s: float = 0.0

    @property
    def is_fresh(self) -> bool:
        """Whether the server's view possibly does not include it yet."""
        return bool(self.position) and abs(_now_s() - self.at_s) < FRESH_S


_decoder: Final = msgspec.json.Decoder(dict[str, JobSet])


def state_file(environment: Mapping[str, str]) -> Path:
    """The path of the file."""
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    base = environment.get("XDG_STATE_HOME") or str(home / ".local" / "state")
    return Path(base) / "fairlead" / "recent.json"


def load(url: str) -> JobSet | None:
    """The job set used last on this server, if it is known."""
    return _read(state_file(os.environ)).get(url)


def save(url: str, queue: str, job_set: str, position: str = "") -> None:
    """Store the job set that was used last, if the file can be written."""
    path = state_file(os.environ)
    known = _read(path)
    before = known.pop(url, None)
    used = JobSet(queue, job_set, position, _now_s() if position else 0.0)
    if not position and before is not None and (before.queue, before.job_set) == (queue, job_set):
        used = before
    known[url] = used
    latest = dict(list(known.items())[-SERVERS_MAX:])
    new = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(msgspec.json.encode(latest))
        new.replace(path)
    except OSError as error:
        if command_base.is_terminal():
            command_base.print_message(
                f"fairlead: {path} cannot be written ({error.strerror}): give --jobset each time"
            )


def _read(path: Path) -> dict[str, JobSet]:
    """The content of the file; empty if the file does not exist or is damaged."""
    try:
        return _decoder.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}


def _now_s() -> float:
    return datetime.now(UTC).timestamp()
