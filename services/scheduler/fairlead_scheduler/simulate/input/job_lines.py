"""Reads `jobs.jsonl`: one job or group per line, and reports each error with its line and field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from fairlead_common.domain.records import events as ev
from fairlead_common.domain.scheduling import quantities
from fairlead_scheduler.cases import case_file
from fairlead_scheduler.simulate.input import group_lines, input_errors
from fairlead_scheduler.simulate.input.input_errors import InputErrors
from fairlead_scheduler.simulate.input.line_fields import (
    SECONDS_MAX,
    Id,
    LinePart,
    Name,
    PositiveSeconds,
    RunTime,
    Seconds,
)
from fairlead_scheduler.simulate.model.random_draws import RandomDraws
from fairlead_scheduler.simulate.model.trace import JOBS_MAX, NEVER, Failure, Trace

LINE_BYTES_MAX: Final = 1_048_576
_GROUP_FIELD: Final = b'"roles"'


class FailsAtRandom(LinePart, frozen=True):
    """Each run fails with this probability, at a uniformly distributed time."""

    probability: Annotated[float, Meta(ge=0, le=1)]


class Gang(LinePart, frozen=True):
    """Jobs of one queue with this gang name start together."""

    name: Name
    size: Annotated[int, Meta(ge=1, le=100_000)]
    min_size: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    uniformity_label: Name | None = None
    rest: Literal["wait", "fail"] = "wait"


class Retry(LinePart, frozen=True):
    """How often and where a failed run is retried."""

    limit: Annotated[int, Meta(ge=0, le=1_000)]
    on: tuple[ev.FailureCategory, ...] = (ev.FailureCategory.EXIT_CODE,)
    avoid_node: bool = False

    def to_policy(self) -> ev.RetryPolicy:
        """The policy as the events contain it."""
        return ev.RetryPolicy(limit=self.limit, on=self.on, avoid_node=self.avoid_node)


class Line(LinePart, frozen=True, kw_only=True):
    """One job."""

    id: Id
    queue: Name
    submit_seconds: Seconds
    run_seconds: Seconds | RunTime
    cpu: case_file.Amount | None = None
    memory: case_file.Amount | None = None
    gpu: case_file.Amount | None = None
    resources: dict[str, case_file.Amount] = msgspec.field(default_factory=dict)
    priority_class: Name = "default"
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    gang: Gang | None = None
    node_selector: dict[str, case_file.Text] = msgspec.field(default_factory=dict)
    affinity: case_file.Affinity | None = None
    tolerations: tuple[case_file.Toleration, ...] = ()
    max_runtime_seconds: PositiveSeconds | None = None
    fail_after_seconds: Seconds | FailsAtRandom | None = None
    after: tuple[Id, ...] = ()
    checkpoint_seconds: PositiveSeconds | None = None
    on_preemption: Literal["requeue", "fail"] = "requeue"
    stop_seconds: Seconds = 0.0
    retry: Retry | None = None


_decoder: Final = msgspec.json.Decoder(Line)


def read_jobs(path: Path, draws: RandomDraws, classes: list[str], errors: InputErrors) -> Trace:
    """The jobs of a file in its order; random run times are drawn."""
    reader = JobReader(str(path), draws, frozenset(classes), errors)
    for number, text in read_lines(path, errors):
        is_group = _GROUP_FIELD in text
        try:
            line = group_lines.decoder.decode(text) if is_group else _decoder.decode(text)
        except msgspec.MsgspecError as error:
            kind = group_lines.GroupLine if is_group else Line
            reader.add_line_errors(number, text, kind, error)
            continue
        if isinstance(line, group_lines.GroupLine):
            reader.add_group(number, line)
        else:
            reader.add_line(number, line)
        if len(reader.trace) > JOBS_MAX:
            errors.add(str(path), number, "", f"more than {JOBS_MAX} jobs")
            break
    reader.check_references()
    return reader.trace


def read_lines(path: Path, errors: InputErrors) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, with their numbers; their length is limited."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                if len(line) > LINE_BYTES_MAX:
                    reason = f"is longer than {LINE_BYTES_MAX >> 20} MiB; write one job per line"
                    errors.add(str(path), number, "", reason)
                    return
                if line.strip():
                    yield number, line
    except OSError as error:
        errors.add(str(path), 0, "", f"cannot be read: {error.strerror or error}")


class JobReader:
    """Adds lines to the trace, and checks references between jobs at the end."""

    def __init__(
        self, file: str, draws: RandomDraws, classes: frozenset[str], errors: InputErrors
    ) -> None:
        self.trace = Trace()
        self._file = file
        self._draws = draws
        self._classes = classes
        self._errors = errors
        self._shapes: dict[object, int] = {}
        self._lines: dict[int, int] = {}
        """Lines of jobs with a gang or dependencies, which are checked at the end."""

    def add_line_errors(
        self, number: int, text: bytes, kind: type[msgspec.Struct], error: Exception
    ) -> None:
        """Add the errors of a line that is not a valid job or group."""
        try:
            values = msgspec.json.decode(text)
        except msgspec.DecodeError:
            self._errors.add(self._file, number, "", f"is not valid JSON: {error}")
            return
        found = input_errors.find_field_errors(values, kind)
        for field, reason in found or [("", str(error))]:
            self._errors.add(self._file, number, field, reason)

    def add_line(self, number: int, line: Line) -> None:
        """Add the job of a line, or the errors of the line."""
        job_id = str(line.id)
        trace, before = self.trace, self._errors.count
        if job_id in trace.number:
            self._add_error(number, "id", f"{job_id} is used in an earlier line already")
        if line.priority_class not in self._classes:
            names = ", ".join(sorted(self._classes))
            reason = f"{line.priority_class!r} is not a priority class; choose one of {names}"
            self._add_error(number, "priorityClass", reason)
        shape = self._shape(number, line)
        if self._errors.count > before:
            return
        job = trace.add(
            job_id,
            submit_ms=to_ms(line.submit_seconds),
            run_ms=self._run_ms(job_id, line.run_seconds),
            queue=line.queue,
            shape=shape,
            priority_class=line.priority_class,
            priority=line.priority,
            runtime_ms_max=max(1, to_ms(line.max_runtime_seconds or 0))
            if line.max_runtime_seconds
            else NEVER,
        )
        self._add_optional_fields(number, job, line)

    def add_group(self, number: int, line: group_lines.GroupLine) -> None:
        """Add the members of a group, or the errors of the line."""
        found = line.find_errors()
        for field, reason in found:
            self._add_error(number, field, reason)
        before = self._errors.count
        for fields, member in [] if found else group_lines.make_members(line):
            self.add_line(number, Line(**fields))  # type: ignore[arg-type]  # fields of a line
            if self._errors.count > before:
                return  # the other members have the same errors
            self.trace.members[len(self.trace) - 1] = member
            self.trace.groups[member.group] = line.terms()

    def _add_optional_fields(self, number: int, job: int, line: Line) -> None:
        """Add the fields that few jobs have."""
        trace = self.trace
        match line.fail_after_seconds:
            case None:
                pass
            case FailsAtRandom(probability=probability):
                trace.failures[job] = Failure(probability=probability)
            case seconds:
                trace.failures[job] = Failure(after_ms=to_ms(seconds))
        if line.checkpoint_seconds is not None:
            trace.checkpoint_ms[job] = max(1, to_ms(line.checkpoint_seconds))
        if line.stop_seconds:
            trace.stop_ms[job] = to_ms(line.stop_seconds)
        if line.on_preemption == "fail":
            trace.preempted_is_final.add(job)
        if line.retry is not None:
            trace.retry[job] = line.retry.to_policy()
        if line.after:
            trace.after[job] = tuple(dict.fromkeys(str(other) for other in line.after))
            self._lines[job] = number
        if line.gang is not None:
            gang = line.gang
            if gang.min_size is not None and gang.min_size > gang.size:
                self._add_error(
                    number, "gang", f"minSize {gang.min_size} is above size {gang.size}"
                )
            trace.gangs[job] = ev.Gang(
                name=gang.name,
                size=gang.size,
                min_size=gang.min_size,
                uniformity_label=gang.uniformity_label,
                rest=gang.rest,
            )
            self._lines[job] = number

    def _add_error(self, number: int, field: str, reason: str) -> None:
        self._errors.add(self._file, number, field, reason)

    def _run_ms(self, job_id: str, run_time: float | RunTime) -> int:
        if not isinstance(run_time, RunTime):
            return to_ms(run_time)
        tail = (
            self._draws.exponential(run_time.mean_tail, job_id, "run")
            if run_time.mean_tail
            else 0.0
        )
        return to_ms(min(run_time.min + tail, SECONDS_MAX))

    def _shape(self, number: int, line: Line) -> int:
        """The number of the job's shape; equal shapes have the same number."""
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
        named = {"cpu": line.cpu, "memory": line.memory, "gpu": line.gpu}
        amounts = {name: amount for name, amount in named.items() if amount is not None}
        wrong = False
        for field, values in (
            *((name, {name: amount}) for name, amount in amounts.items()),
            ("resources", line.resources),
        ):
            for name, amount in values.items():
                try:
                    quantities.parse_quantity(name, amount, round_up=True)
                except ValueError as error:
                    self._add_error(number, field, str(error))
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

    def check_references(self) -> None:
        """Check dependencies and gangs."""
        trace, all_known = self.trace, not self._errors.count
        for job, others in trace.after.items():
            for other in others:
                if other == trace.ids[job]:
                    self._add_error(self._lines[job], "after", "the job waits for itself")
                elif all_known and other not in trace.number:
                    self._add_error(
                        self._lines[job], "after", f"there is no job {other} in the file"
                    )
        members: dict[tuple[int, str], list[int]] = {}
        for job, gang in trace.gangs.items():
            members.setdefault((trace.queue[job], gang.name), []).append(job)
        for jobs in members.values():
            self._check_gang(jobs)

    def _check_gang(self, jobs: list[int]) -> None:
        """Check that the members of a gang agree with its first member."""
        trace = self.trace
        first = trace.gangs[jobs[0]]
        for job in jobs[1:]:
            if trace.gangs[job] != first:
                reason = f"differs from that of {trace.ids[jobs[0]]} in line {self._lines[jobs[0]]}"
                self._add_error(self._lines[job], "gang", reason)
        if len(jobs) > first.size:
            reason = f"{first.name} has {len(jobs)} members, more than its size {first.size}"
            self._add_error(self._lines[jobs[first.size]], "gang", reason)


def to_ms(seconds: float) -> int:
    """Seconds as whole milliseconds, the unit of virtual time."""
    return round(1000 * seconds)
