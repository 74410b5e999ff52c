"""Reads traces in the Standard Workload Format: one job per line, 18 numbers, headers after `;`.

The format: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers"
(JSSPP 1999). Read from a line: its number, its submit time, its run time, its processors
(requested, else used) and memory, its status, and its queue, user or group as the queue. The
waiting time is a result of the simulation; dependencies (fields 17 and 18) are part of the submit
times already.
"""

import math
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_common.domain.scheduling.priority_classes import DEFAULT_CLASS
from fairlead_scheduler.simulate.input import job_lines, line_fields
from fairlead_scheduler.simulate.input.input_errors import InputErrors
from fairlead_scheduler.simulate.model.trace import JOBS_MAX, Failure, Trace

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
QueueField = Literal["queue", "user", "group"]
_QUEUE_FIELDS: Final[dict[QueueField, int]] = {"queue": 14, "user": 11, "group": 12}
_FAILED: Final = 0


class TraceFile(NamedTuple):
    """The jobs of a file, the number of skipped jobs, and the processors (0: unknown)."""

    trace: Trace
    skipped: int
    processors: int


def read_trace(path: Path, field: QueueField, with_memory: bool, errors: InputErrors) -> TraceFile:
    """The jobs in the order of the file. Jobs that never ran or requested nothing are skipped."""
    trace = Trace()
    header: dict[str, int] = {}
    skipped = 0
    for number, text in job_lines.read_lines(path, errors):
        if text.lstrip().startswith(b";"):
            _read_header(text, header)
            continue
        values = _read_numbers(str(path), number, text, errors)
        if values is None:
            continue
        processors = values[7] if values[7] > 0 else values[4]
        if values[3] < 0 or processors <= 0:
            skipped += 1
            continue
        job_id = str(int(values[0]))
        if not _check_values(str(path), number, job_id, values, trace, errors):
            continue
        job = trace.add(
            job_id,
            submit_ms=job_lines.to_ms(values[1]),
            run_ms=job_lines.to_ms(values[3]),
            queue=_queue(field, values),
            shape=_shape(trace, int(processors), values[9] if with_memory else 0),
            priority_class=DEFAULT_CLASS,
        )
        if values[10] == _FAILED:
            trace.failures[job] = Failure(after_ms=job_lines.to_ms(values[3]))
        if len(trace) > JOBS_MAX:
            errors.add(str(path), number, "", f"more than {JOBS_MAX} jobs")
            break
    return TraceFile(trace, skipped, header.get("maxprocs") or header.get("maxnodes") or 0)


def _read_header(text: bytes, header: dict[str, int]) -> None:
    """Read a number such as `; MaxProcs: 128`; other headers are ignored."""
    name, colon, value = text.decode("latin-1").strip().lstrip(";").partition(":")
    words = value.split()
    if colon and words and words[0].isascii() and words[0].isdecimal() and len(words[0]) < 10:
        header[name.strip().lower()] = int(words[0])


def _read_numbers(file: str, number: int, text: bytes, errors: InputErrors) -> list[float] | None:
    words = text.split()
    if len(words) < len(FIELDS):
        reason = f"has {len(words)} fields; the format has {len(FIELDS)}"
        errors.add(file, number, "", reason)
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
            printable = word[:40].decode("ascii", "backslashreplace")
            errors.add(file, number, name, f"{printable!r} is not a number")
    return None


def _check_values(
    file: str, number: int, job_id: str, values: list[float], trace: Trace, errors: InputErrors
) -> bool:
    before = errors.count
    if job_id in trace.number:
        errors.add(file, number, FIELDS[0], f"{job_id} is used in an earlier line already")
    for at in (1, 3):
        if not 0 <= values[at] <= line_fields.SECONDS_MAX:
            reason = f"is {values[at]:g}; 0 to {line_fields.SECONDS_MAX} seconds are permitted"
            errors.add(file, number, FIELDS[at], reason)
    for at in (4, 7, 9):
        if values[at] > quantities.AMOUNT_MAX / 1024**2:
            errors.add(file, number, FIELDS[at], f"{values[at]:g} is larger than any machine")
    return errors.count == before


def _queue(field: QueueField, values: list[float]) -> str:
    value = int(values[_QUEUE_FIELDS[field]])
    return f"{field}-{value}" if value >= 0 else "unknown"


def _shape(trace: Trace, processors: int, memory_kb: float) -> int:
    """The format gives the memory per processor, in KiB."""
    requests = {quantities.CPU: 1000 * processors}
    if memory_kb > 0:
        requests[quantities.MEMORY] = min(int(memory_kb * 1024) * processors, quantities.AMOUNT_MAX)
    return trace.shapes.number(bytes(shapes.encode(shapes.Shape(requests=requests))))
