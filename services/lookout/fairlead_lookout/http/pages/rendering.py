"""Renders HTML: the templates, and the functions that they call."""

import hashlib
import re
import shlex
from collections.abc import Hashable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
import msgspec

from fairlead_common.domain.ids import is_array_id
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.scheduling import quantities
from fairlead_lookout.http.pages.jobs.permitted_actions import list_possible
from fairlead_lookout.http.pages.jobs.waiting_advice import ADVICE
from fairlead_lookout.http.pages.navigation import PAGES
from fairlead_lookout.http.responses.job_responses import JobResponse, RunResponse

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
"""The states from left to right in a bar."""

ROWS_MAX: Final = 10_000
"""Rows of tables in memory: as many as 200 pages show, about 20 MB."""
_OBSTACLES: Final = {
    "hold": "on hold",
    "dependencies": "waits for dependencies",
    "startAfter": "waits for its start time",
    "no-matching-node": "its pool has no nodes",
}
_UNSAFE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_BYTE_RESOURCES: Final = (quantities.MEMORY, "ephemeral-storage")
_BUNDLES: Final = {
    "htmx.js": ("htmx.min.js", "hx-sse.min.js"),
    "pages.js": (
        "times.js",
        "requests.js",
        "fairlead.js",
        "live.js",
        "keyboard.js",
        "saved_views.js",
        "list_exchange.js",
    ),
}
"""Scripts of every page, sent as one file: a browser takes about a millisecond for each request,
also if it has the answer already."""
_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asset(msgspec.Struct, frozen=True):
    """A static file."""

    content: bytes
    media_type: str
    version: str


class BarSegment(msgspec.Struct, frozen=True):
    """One state in a bar of states, in percent."""

    state: str
    jobs: int
    x: float
    width: float


@cache
def load_assets() -> Mapping[str, Asset]:
    """The static files of the pages, by name."""
    folder = resources.files("fairlead_lookout.http.pages").joinpath("static")
    contents = {item.name: item.read_bytes() for item in folder.iterdir()}
    for name, parts in _BUNDLES.items():
        contents[name] = b"\n".join(contents.pop(part) for part in parts)
    return {
        name: Asset(content, media_type, hashlib.sha256(content).hexdigest()[:12])
        for name, content in contents.items()
        if (media_type := _MEDIA_TYPES.get(name.rpartition(".")[2])) is not None
    }


def quote_path_part(name: str) -> str:
    """A name as one part of the path of an address."""
    return quote(name, safe="")


def job_set_url(queue: str, job_set: str) -> str:
    """The address of a job set's page."""
    return f"/jobsets/{quote_path_part(queue)}/{quote_path_part(job_set)}"


def jobs_url(**query: str | None) -> str:
    """The address of the page of jobs with these parameters."""
    return "/jobs?" + urlencode({name: value for name, value in query.items() if value})


def format_progress(ended: int, total: int) -> str:
    """The jobs that have ended, in percent. 100 % means all of them, and 0 % none."""
    percent = 100 * ended / max(total, 1)
    if 0 < percent < 1 or 99 < percent < 100:
        return f"{'<' if percent < 1 else '>'} {1 if percent < 1 else 99} %"
    return f"{percent:.0f} %"


def divide_bar(states: Mapping[str, int], total: int) -> list[BarSegment]:
    """The segments of a bar of states."""
    made: list[BarSegment] = []
    x = 0.0
    for state in _ORDER:
        jobs = states.get(state, 0)
        if jobs:
            width = 100 * jobs / max(total, 1)
            made.append(BarSegment(str(state), jobs, round(x, 3), round(width, 3)))
            x += width
    return made


def summarize_states(states: Mapping[str, int]) -> str:
    """A bar of states as text."""
    words = [f"{states[state]} {state.lower()}" for state in _ORDER if states.get(state)]
    return ", ".join(words) or "no jobs"


def describe_obstacle(job: JobResponse) -> str:
    """What a queued job waits for, unless it is the scheduler."""
    return _OBSTACLES.get(job.waiting_for or "", "")


def format_time(time: str) -> str:
    """A time to the second."""
    return f"{time[:19].replace('T', ' ')} UTC"


def add_exit_code(reason: str | None, exit_code: int | None) -> str:
    """The reason, with the exit code unless it names it already."""
    text = reason or "No reason was given."
    if exit_code is None or f"exit code {exit_code}" in text.lower():
        return text
    return f"{text} (exit code {exit_code})"


def format_duration(ms: float) -> str:
    """A length of time in two units."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:z.1f} %"


def format_resource_hours(resource: str, amount: float) -> str:
    """Resource-hours; bytes in GiB."""
    amount, unit = (amount / 2**30, "GiB h") if resource in _BYTE_RESOURCES else (amount, "h")
    return f"< 0.01 {unit}" if 0 < amount < 0.005 else f"{amount:,.2f} {unit}"


def format_usage(resource: str, amount: float) -> str:
    """Resource-hours with the name of the resource."""
    return f"{resource} {format_resource_hours(resource, amount)}"


def format_amount(resource: str, amount: float) -> str:
    """An amount of a resource: bytes in GiB, everything else as a number."""
    if resource in _BYTE_RESOURCES:
        return f"{amount / 2**30:,.1f} GiB"
    return f"{amount:,.10g}"


def format_bytes(number: int) -> str:
    """A size with its unit."""
    if number < 1 << 10:
        return f"{number} bytes"
    if number < 1 << 20:
        return f"{number >> 10:,} KiB"
    mib = number / 2**20
    return f"{mib:.1f} MiB" if mib < 100 else f"{mib:,.0f} MiB"


def format_run_time(run: RunResponse) -> str:
    """How long a run's command ran, if it has ended."""
    if run.running is None or run.ended is None:
        return "–"
    began, ended = datetime.fromisoformat(run.running), datetime.fromisoformat(run.ended)
    return format_duration(1000 * (ended - began).total_seconds())


class Templates:
    """The templates; every value is escaped, and an unknown name is an error."""

    def __init__(self, files: Mapping[str, Asset]) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("fairlead_lookout.http.pages"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals |= {
            "static": lambda name: f"/static/{name}?v={files[name].version}",
            "pages": PAGES,
            "job_set_url": job_set_url,
            "jobs_url": jobs_url,
            "find_advice": ADVICE.get,
            "format_progress": format_progress,
            "format_usage": format_usage,
            "divide_bar": divide_bar,
            "summarize_states": summarize_states,
            "describe_obstacle": describe_obstacle,
            "is_array_id": is_array_id,
            "format_bytes": format_bytes,
            "list_possible": list_possible,
            "format_duration": format_duration,
            "format_run_time": format_run_time,
            "format_percent": format_percent,
            "format_resource_hours": format_resource_hours,
            "format_time": format_time,
            "add_exit_code": add_exit_code,
        }
        self._environment.filters |= {"shell": shlex.quote, "path_part": quote_path_part}
        rows = self._environment.get_template("rows.html").module

        @lru_cache(ROWS_MAX)
        def render_row(name: str, value: Hashable) -> str:
            """A row of a table. Each time a live page is rendered, most rows are as before."""
            text: str = getattr(rows, name)(value)
            return text

        self._environment.globals["render_row"] = render_row

    def render(self, name: str, **values: Any) -> str:
        """The text of a template.

        Control characters, and those that change the direction of all that follows them, could make
        a page show something else than it says: users write reasons, annotations and labels.
        """
        return _UNSAFE.sub("\ufffd", self._environment.get_template(name).render(**values))


@cache
def load_templates() -> Templates:
    """The templates of this process, which take a tenth of a second to compile."""
    return Templates(load_assets())
