"""Turning what was read into HTML: templates, and the few helpers that they call."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from importlib import resources
from typing import Any, Final
from urllib.parse import quote

import jinja2
import msgspec

from fairlead_common.domain import quantities
from fairlead_common.domain.lifecycle import JobState
from fairlead_lookout.http.responses import JobShown, RunShown

_ORDER: Final = (
    JobState.SUCCEEDED,
    JobState.RUNNING,
    JobState.PENDING,
    JobState.LEASED,
    JobState.FAILED,
    JobState.REJECTED,
    JobState.CANCELLED,
    JobState.PREEMPTED,
    JobState.QUEUED,
)
"""From left to right in the bar of states."""

_WORDS: Final = {
    "hold": "on hold",
    "dependencies": "waits for other jobs",
    "startAfter": "waits for its time",
}
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asset(msgspec.Struct, frozen=True):
    """A static file, as it is sent."""

    content: bytes
    media_type: str
    version: str


class Piece(msgspec.Struct, frozen=True):
    """A part of the bar of states, in percent."""

    state: str
    jobs: int
    x: float
    width: float


def assets() -> dict[str, Asset]:
    """The static files of the pages, by name."""
    found: dict[str, Asset] = {}
    for item in resources.files("fairlead_lookout.http.pages").joinpath("static").iterdir():
        media_type = _TYPES.get(item.name.rpartition(".")[2])
        if media_type is not None:
            content = item.read_bytes()
            version = hashlib.sha256(content).hexdigest()[:12]
            found[item.name] = Asset(content, media_type, version)
    return found


def set_url(queue: str, job_set: str) -> str:
    """The address of a job set's page."""
    return f"/jobsets/{quote(queue, safe='')}/{quote(job_set, safe='')}"


def pieces(states: Mapping[str, int], total: int) -> list[Piece]:
    """The bar of states."""
    made: list[Piece] = []
    x = 0.0
    for state in _ORDER:
        jobs = states.get(state, 0)
        if jobs:
            width = 100 * jobs / max(total, 1)
            made.append(Piece(str(state), jobs, round(x, 3), round(width, 3)))
            x += width
    return made


def summary(states: Mapping[str, int]) -> str:
    """The bar in words."""
    said = [f"{states[state]} {state.lower()}" for state in _ORDER if states.get(state)]
    return ", ".join(said) or "no jobs"


def waiting_words(job: JobShown) -> str:
    """What a queued job waits for, when that is not the scheduler."""
    return _WORDS.get(job.waiting_for or "", "")


def when(time: str) -> str:
    """A time for people, to the second."""
    return f"{time[:19].replace('T', ' ')} UTC"


def with_exit_code(reason: str | None, exit_code: int | None) -> str:
    """A reason, and the exit code unless the reason names it already."""
    said = reason or "No reason was given."
    if exit_code is None or f"exit code {exit_code}" in said.lower():
        return said
    return f"{said} (exit code {exit_code})"


def duration(ms: float) -> str:
    """A length of time for people."""
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.1f} %"


def hours(resource: str, amount: float) -> str:
    """Resource-hours for people: bytes as GiB."""
    if resource in (quantities.MEMORY, "ephemeral-storage"):
        return f"{amount / 2**30:,.2f} GiB h"
    return f"{amount:,.2f} h"


def took(run: RunShown) -> str:
    """How long a run's command ran, if it has ended."""
    if run.running is None or run.ended is None:
        return "–"
    began, ended = datetime.fromisoformat(run.running), datetime.fromisoformat(run.ended)
    return duration(1000 * (ended - began).total_seconds())


class Templates:
    """The templates; every value is escaped, and an unknown name is an error."""

    def __init__(self, files: Mapping[str, Asset]) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("fairlead_lookout.http.pages"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {
            "static": lambda name: f"/static/{name}?v={files[name].version}",
            "set_url": set_url,
            "pieces": pieces,
            "summary": summary,
            "waiting_words": waiting_words,
            "duration": duration,
            "took": took,
            "percent": percent,
            "hours": hours,
            "when": when,
            "with_exit_code": with_exit_code,
        }

    def render(self, name: str, **values: Any) -> str:
        """The text of a template."""
        return self._environment.get_template(name).render(**values)
