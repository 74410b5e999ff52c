"""Reads `jobs.jsonl`: one job per line, every fault with its line and field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from fairlead_common.domain import quantities
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.cases import case_file
from fairlead_scheduler.simulate.input import input_errors as faulty
from fairlead_scheduler.simulate.input.input_errors import Faults
from fairlead_scheduler.simulate.model.random_draws import Chance
from fairlead_scheduler.simulate.model.trace import JOBS_MAX, NEVER, Fails, Trace

LINE_BYTES_MAX: Final = 1_048_576
SECONDS_MAX: Final = 3_000_000_000
"""Nearly a century: also traces that count from 1970 fit."""

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Id = Name | Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]
Above0 = Annotated[float, Meta(gt=0, le=SECONDS_MAX)]


class _Part(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Any part of a line."""


class RunTime(_Part, frozen=True):
    """A run time that is drawn: `min` and an exponential part of this mean on top."""

    min: Seconds = 0.0
    mean_tail: Seconds = 0.0


class FailsAtRandom(_Part, frozen=True):
    """Each run fails with this probability, at any moment of it."""

    probability: Annotated[float, Meta(ge=0, le=1)]


class Gang(_Part, frozen=True):
    """Jobs of one queue with this gang name start together."""

    name: Name
    size: Annotated[int, Meta(ge=1, le=100_000)]
    min_size: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    uniformity_label: Name | None = None
    rest: Literal["wait", "fail"] = "wait"


class Retry(_Part, frozen=True):
    """How often a failed run is tried again, and with what changed."""

    limit: Annotated[int, Meta(ge=0, le=1_000)]
    on: tuple[ev.FailureCategory, ...] = (ev.FailureCategory.EXIT_CODE,)
    avoid_node: bool = False

    def policy(self) -> ev.RetryPolicy:
        """As the log has it."""
        return ev.RetryPolicy(limit=self.limit, on=self.on, avoid_node=self.avoid_node)


class Line(_Part, frozen=True, kw_only=True):
    """One job."""

    id: Id
    queue: Name
    submit_seconds: Seconds
    run_seconds: Seconds | RunTime
    cpu: case_file.Amount | None = None
    memory: case_file.Amount | None = None
    gpu: case_file.Amount | None = None
    resources: dict[str, case_file.Amount] = {}
    priority_class: Name = "default"
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    gang: Gang | None = None
    node_selector: dict[str, case_file.Text] = {}
    affinity: case_file.Affinity | None = None
    tolerations: tuple[case_file.Toleration, ...] = ()
    max_runtime_seconds: Above0 | None = None
    fail_after_seconds: Seconds | FailsAtRandom | None = None
    after: tuple[Id, ...] = ()
    checkpoint_seconds: Above0 | None = None
    on_preemption: Literal["requeue", "fail"] = "requeue"
    stop_seconds: Seconds = 0.0
    retry: Retry | None = None


_decoder: Final = msgspec.json.Decoder(Line)


def read(path: Path, chance: Chance, classes: list[str], faults: Faults) -> Trace:
    """The jobs of a file in its order, with what the file leaves open drawn by chance."""
    reading = Reading(str(path), chance, frozenset(classes), faults)
    for number, text in lines(path, faults):
        try:
            line = _decoder.decode(text)
        except msgspec.MsgspecError as error:
            reading.refuse(number, text, error)
            continue
        reading.take(number, line)
        if len(reading.trace) > JOBS_MAX:
            faults.add(str(path), number, "", f"more than {JOBS_MAX} jobs")
            break
    reading.finish()
    return reading.trace


def lines(path: Path, faults: Faults) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, one after another, each within a bound."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                if len(line) > LINE_BYTES_MAX:
                    reason = f"is longer than {LINE_BYTES_MAX >> 20} MiB: is it one job per line?"
                    faults.add(str(path), number, "", reason)
                    return
                if line.strip():
                    yield number, line
    except OSError as error:
        faults.add(str(path), 0, "", f"cannot be read: {error.strerror or error}")


class Reading:
    """Turns lines into columns and remembers what must be compared at the end."""

    def __init__(self, file: str, chance: Chance, classes: frozenset[str], faults: Faults) -> None:
        self.trace = Trace()
        self._file = file
        self._chance = chance
        self._classes = classes
        self._faults = faults
        self._shapes: dict[object, int] = {}
        self._lines: dict[int, int] = {}
        """Lines of jobs with a gang or dependencies: they are looked at again at the end."""

    def refuse(self, number: int, text: bytes, error: Exception) -> None:
        """Say all that is wrong with a line that is no job."""
        try:
            values = msgspec.json.decode(text)
        except msgspec.DecodeError:
            self._faults.add(self._file, number, "", f"is no JSON: {error}")
            return
        found = faulty.per_field(values, Line)
        for field, reason in found or [("", str(error))]:
            self._faults.add(self._file, number, field, reason)

    def take(self, number: int, line: Line) -> None:
        """One more job, unless something is wrong with it."""
        job_id = str(line.id)
        trace, before = self.trace, self._faults.count
        if job_id in trace.number:
            self._fault(number, "id", f"{job_id} stands in an earlier line already")
        if line.priority_class not in self._classes:
            names = ", ".join(sorted(self._classes))
            self._fault(
                number, "priorityClass", f"{line.priority_class!r} is no class; there are {names}"
            )
        shape = self._shape(number, line)
        if self._faults.count > before:
            return
        job = trace.add(
            job_id,
            submit_ms=ms(line.submit_seconds),
            run_ms=self._run_ms(job_id, line.run_seconds),
            queue=line.queue,
            shape=shape,
            priority_class=line.priority_class,
            priority=line.priority,
            runtime_ms_max=max(1, ms(line.max_runtime_seconds or 0))
            if line.max_runtime_seconds
            else NEVER,
        )
        self._rare(number, job, line)

    def _rare(self, number: int, job: int, line: Line) -> None:
        """What few jobs have."""
        trace = self.trace
        match line.fail_after_seconds:
            case None:
                pass
            case FailsAtRandom(probability=probability):
                trace.fails[job] = Fails(probability=probability)
            case seconds:
                trace.fails[job] = Fails(after_ms=ms(seconds))
        if line.checkpoint_seconds is not None:
            trace.checkpoint_ms[job] = max(1, ms(line.checkpoint_seconds))
        if line.stop_seconds:
            trace.stop_ms[job] = ms(line.stop_seconds)
        if line.on_preemption == "fail":
            trace.preempted_is_final.add(job)
        if line.retry is not None:
            trace.retry[job] = line.retry.policy()
        if line.after:
            trace.after[job] = tuple(dict.fromkeys(str(other) for other in line.after))
            self._lines[job] = number
        if line.gang is not None:
            gang = line.gang
            if gang.min_size is not None and gang.min_size > gang.size:
                self._fault(number, "gang", f"minSize {gang.min_size} is above size {gang.size}")
            trace.gangs[job] = ev.Gang(
                name=gang.name,
                size=gang.size,
                min_size=gang.min_size,
                uniformity_label=gang.uniformity_label,
                rest=gang.rest,
            )
            self._lines[job] = number

    def _fault(self, number: int, field: str, reason: str) -> None:
        self._faults.add(self._file, number, field, reason)

    def _run_ms(self, job_id: str, given: float | RunTime) -> int:
        if not isinstance(given, RunTime):
            return ms(given)
        tail = self._chance.exponential(given.mean_tail, job_id, "run") if given.mean_tail else 0.0
        return ms(min(given.min + tail, SECONDS_MAX))

    def _shape(self, number: int, line: Line) -> int:
        """The number of the job's shape; equal ones are made once."""
        more: Any = None
        if line.resources or line.node_selector or line.affinity or line.tolerations:
            rest = (line.resources, line.node_selector, line.affinity, line.tolerations)
            more = msgspec.json.encode(rest)
        key = (line.cpu, line.memory, line.gpu, more)
        found = self._shapes.get(key)
        if found is None:
            found = self._new_shape(number, line)
            if found >= 0:
                self._shapes[key] = found
        return found

    def _new_shape(self, number: int, line: Line) -> int:
        given = {"cpu": line.cpu, "memory": line.memory, "gpu": line.gpu}
        amounts = {name: amount for name, amount in given.items() if amount is not None}
        wrong = False
        for field, of in (
            *((name, {name: a}) for name, a in amounts.items()),
            ("resources", line.resources),
        ):
            for name, amount in of.items():
                try:
                    quantities.parse_quantity(name, amount, round_up=True)
                except ValueError as error:
                    self._fault(number, field, str(error))
                    wrong = True
        if wrong:
            return -1
        group = case_file.Group(
            id="",
            queue="",
            cpu=line.cpu,
            memory=line.memory,
            gpu=line.gpu,
            resources=line.resources,
            node_selector=line.node_selector,
            affinity=line.affinity,
            tolerations=line.tolerations,
        )
        return self.trace.shapes.number(bytes(group.shape()))

    def finish(self) -> None:
        """Compare what lines say of each other: dependencies and gangs."""
        trace, all_known = self.trace, not self._faults.count
        for job, others in trace.after.items():
            for other in others:
                if other == trace.ids[job]:
                    self._fault(self._lines[job], "after", "the job waits for itself")
                elif all_known and other not in trace.number:
                    self._fault(self._lines[job], "after", f"there is no job {other} in the file")
        members: dict[tuple[int, str], list[int]] = {}
        for job, gang in trace.gangs.items():
            members.setdefault((trace.queue[job], gang.name), []).append(job)
        for jobs in members.values():
            self._compare(jobs)

    def _compare(self, jobs: list[int]) -> None:
        """The members of a gang agree with the first of them."""
        trace = self.trace
        first = trace.gangs[jobs[0]]
        for job in jobs[1:]:
            if trace.gangs[job] != first:
                reason = f"differs from that of {trace.ids[jobs[0]]} in line {self._lines[jobs[0]]}"
                self._fault(self._lines[job], "gang", reason)
        if len(jobs) > first.size:
            reason = f"{first.name} has {len(jobs)} members, more than its size {first.size}"
            self._fault(self._lines[jobs[first.size]], "gang", reason)


def ms(seconds: float) -> int:
    """Virtual time is counted in whole milliseconds."""
    return round(1000 * seconds)
