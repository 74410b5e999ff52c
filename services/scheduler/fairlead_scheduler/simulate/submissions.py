"""Reads the jobs of a simulation from a file of `fairlead submit`.

All are submitted at the beginning and run as long as the caller says, because such a file says
neither. `hold` and `startAfter` are left aside; pod specs are not read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from fairlead_scheduler.simulate import faults as faulty
from fairlead_scheduler.simulate import yamls
from fairlead_scheduler.simulate.chance import Chance
from fairlead_scheduler.simulate.faults import Faults
from fairlead_scheduler.simulate.jobs import Line, Reading
from fairlead_scheduler.simulate.trace import Trace

SUFFIXES: Final = (".yaml", ".yml", ".json")
_SAME: Final = (
    *("cpu", "memory", "gpu", "priority", "priorityClass", "maxRuntimeSeconds", "onPreemption"),
    "after",
)
"""Fields of a job that a line of the simulation has as well."""
_OF_GANG: Final = ("name", "size", "minSize", "uniformityLabel", "rest")
_OF_RETRY: Final = ("limit", "on", "avoidNode")
_DEFAULTS: Final = {"cpu": "1", "memory": "1Gi"}
"""What submit takes where a job says nothing (its setting `jobDefaults`)."""

Values = Mapping[str, Any]
"""What YAML holds; each value is checked when a `Line` is made of it."""


def read(path: Path, run_s: float, chance: Chance, classes: list[str], faults: Faults) -> Trace:
    """The jobs of a file in its order; each runs for `run_s`."""
    reading = Reading(str(path), chance, frozenset(classes), faults)
    document = yamls.read(path, faults)
    if document is None:
        return reading.trace
    found = document.value
    if not isinstance(found, dict) or not isinstance(found.get("jobs"), list):
        faults.add(document.file, 1, "", "is no submission (`queue`, `jobSet`, `jobs`)")
        return reading.trace
    queue, defaults = str(found.get("queue") or "default"), _values(found.get("defaults"))
    for place, item in enumerate(cast(list[object], found["jobs"])):
        number = document.line("jobs", place)
        job = {**defaults, **_values(item)}
        if job.get("podSpec") is not None:
            faults.add(document.file, number, "podSpec", "is not read here; use the short form")
            continue
        values = _line(job, queue, run_s, f"job-{place}")
        wrong = faulty.per_field(values, Line)
        for field, reason in wrong:
            faults.add(document.file, number, field, reason)
        if not wrong:
            reading.take(number, msgspec.convert(values, Line))
    reading.finish()
    return reading.trace


def _line(job: Values, queue: str, run_s: float, name: str) -> dict[str, object]:
    """A job as a line of the simulation."""
    made: dict[str, object] = {
        **_DEFAULTS,
        **_some(job, _SAME),
        "id": job.get("clientId") or name,
        "queue": queue,
        "submitSeconds": 0,
        "runSeconds": run_s,
    }
    if isinstance(job.get("gang"), dict):
        made["gang"] = _some(job["gang"], _OF_GANG)
    if isinstance(job.get("retry"), dict):
        made["retry"] = _some(job["retry"], _OF_RETRY)
    if job.get("checkpointIntervalSeconds") is not None:
        made["checkpointSeconds"] = job["checkpointIntervalSeconds"]
    return made


def _some(values: Values, names: tuple[str, ...]) -> dict[str, object]:
    """The fields of these names that say something."""
    return {name: values[name] for name in names if values.get(name) is not None}


def _values(found: object) -> Values:
    return cast(Values, found) if isinstance(found, dict) else {}
