"""Reads traces in the Standard Workload Format: one job per line, 18 numbers, headers after `;`.

The format: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers"
(JSSPP 1999). Taken from a line: its number, when it was submitted, how long it ran, its processors
(requested, else used) and memory, its status, and its queue, user or group as the queue. Waiting
time is what a simulation finds out anew; dependencies (fields 17 and 18) are in the times of
submission already.
"""

import math
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fairlead_common.domain import quantities, shapes
from fairlead_common.domain.priority_classes import DEFAULT_CLASS
from fairlead_scheduler.simulate.input import job_lines
from fairlead_scheduler.simulate.input.input_errors import Faults
from fairlead_scheduler.simulate.model.trace import JOBS_MAX, Fails, Trace

FIELDS: Final = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average cpu time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
By = Literal["queue", "user", "group"]
_BY: Final[dict[By, int]] = {"queue": 14, "user": 11, "group": 12}
_FAILED: Final = 0


class Swf(NamedTuple):
    """What a file says: jobs, how many were left out, processors of the machine (0: not said)."""

    trace: Trace
    left_out: int
    processors: int


def read(path: Path, by: By, with_memory: bool, faults: Faults) -> Swf:
    """The jobs in the order of the file. Those that never ran or asked for nothing are left out."""
    trace = Trace()
    header: dict[str, int] = {}
    left_out = 0
    for number, text in job_lines.lines(path, faults):
        if text.lstrip().startswith(b";"):
            _header(text, header)
            continue
        values = _numbers(str(path), number, text, faults)
        if values is None:
            continue
        processors = values[7] if values[7] > 0 else values[4]
        if values[3] < 0 or processors <= 0:
            left_out += 1
            continue
        job_id = str(int(values[0]))
        if not _is_sound(str(path), number, job_id, values, trace, faults):
            continue
        job = trace.add(
            job_id,
            submit_ms=job_lines.ms(values[1]),
            run_ms=job_lines.ms(values[3]),
            queue=_queue(by, values),
            shape=_shape(trace, int(processors), values[9] if with_memory else 0),
            priority_class=DEFAULT_CLASS,
        )
        if values[10] == _FAILED:
            trace.fails[job] = Fails(after_ms=job_lines.ms(values[3]))
        if len(trace) > JOBS_MAX:
            faults.add(str(path), number, "", f"more than {JOBS_MAX} jobs")
            break
    return Swf(trace, left_out, header.get("maxprocs") or header.get("maxnodes") or 0)


def _header(text: bytes, header: dict[str, int]) -> None:
    """`; MaxProcs: 128`; what else headers say is for people."""
    name, colon, value = text.decode("latin-1").strip().lstrip(";").partition(":")
    words = value.split()
    if colon and words and words[0].isascii() and words[0].isdecimal() and len(words[0]) < 10:
        header[name.strip().lower()] = int(words[0])


def _numbers(file: str, number: int, text: bytes, faults: Faults) -> list[float] | None:
    words = text.split()
    if len(words) < len(FIELDS):
        reason = f"has {len(words)} fields; the format has {len(FIELDS)}"
        faults.add(file, number, "", reason)
        return None
    try:
        values = [float(word) for word in words[: len(FIELDS)]]
    except ValueError:
        values = []
    if values and all(map(math.isfinite, values)):
        return values
    for name, word in zip(FIELDS, words, strict=False):
        try:
            good = math.isfinite(float(word))
        except ValueError:
            good = False
        if not good:
            shown = word[:40].decode("ascii", "backslashreplace")
            faults.add(file, number, name, f"{shown!r} is no number")
    return None


def _is_sound(
    file: str, number: int, job_id: str, values: list[float], trace: Trace, faults: Faults
) -> bool:
    before = faults.count
    if job_id in trace.number:
        faults.add(file, number, FIELDS[0], f"{job_id} stands in an earlier line already")
    for at in (1, 3):
        if not 0 <= values[at] <= job_lines.SECONDS_MAX:
            reason = f"is {values[at]:g}; 0 to {job_lines.SECONDS_MAX} seconds are possible"
            faults.add(file, number, FIELDS[at], reason)
    for at in (4, 7, 9):
        if values[at] > quantities.AMOUNT_MAX / 1024**2:
            faults.add(file, number, FIELDS[at], f"{values[at]:g} is larger than any machine")
    return faults.count == before


def _queue(by: By, values: list[float]) -> str:
    value = int(values[_BY[by]])
    return f"{by}-{value}" if value >= 0 else "unknown"


def _shape(trace: Trace, processors: int, memory_kb: float) -> int:
    """Memory is asked for per processor, in KiB."""
    requests = {quantities.CPU: 1000 * processors}
    if memory_kb > 0:
        requests[quantities.MEMORY] = min(int(memory_kb * 1024) * processors, quantities.AMOUNT_MAX)
    return trace.shapes.number(bytes(shapes.encode(shapes.Shape(requests=requests))))
