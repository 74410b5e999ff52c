"""The figures of a simulation, for `summary.json` and the output of the command. Pure."""

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.scheduling import quantities
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.simulate.model.ledger import NOT_YET, Ledger, RunEnd
from fairlead_scheduler.simulate.model.simulated_world import World
from fairlead_scheduler.simulate.model.simulation_loop import Loop

SLOWDOWN_MS_MIN: Final = 10_000
"""Bounded slowdown: shorter runs count as this long, or very short jobs would dominate the mean."""
NO_NODES: Final = "The pool has no nodes left."
STUCK_MAX: Final = 50
"""The number of listed reasons of jobs that still wait at the end."""

Int64 = npt.NDArray[np.int64]


class Figures(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Common settings of the structs of a summary."""


class Waits(Figures, frozen=True, kw_only=True):
    """Seconds from submission to the first start, of the jobs that started."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class SizeWaits(Figures, frozen=True, kw_only=True):
    """How long the jobs of one size waited. `size`: at most this many cores, or devices."""

    size: str
    jobs: int
    wait_seconds: Waits


class Longest(Figures, frozen=True, kw_only=True):
    """The job that waited longest, even if it never started."""

    id: str
    queue: str
    seconds: float
    started: bool


class QueueFigures(Figures, frozen=True, kw_only=True):
    """The figures of the jobs of one queue."""

    jobs: int
    states: dict[str, int]
    wait_seconds: Waits
    mean_bounded_slowdown: float
    preemptions: int
    lost_seconds: float


class Stuck(Figures, frozen=True, kw_only=True):
    """Jobs that still wait at the end or were rejected, with the reason."""

    code: str
    reason: str
    jobs: int
    queue: str
    job: str


class Summary(Figures, frozen=True, kw_only=True):
    """Times in seconds, amounts in cores, bytes and devices, fractions of 1."""

    jobs: int
    states: dict[str, int]
    makespan_seconds: float
    utilisation: dict[str, float]
    wait_seconds: Waits
    mean_bounded_slowdown: float
    longest_wait: Longest | None
    preemptions: int
    preemptions_by_cause: dict[str, int]
    lost_resource_seconds: dict[str, float | int]
    lost_to_preemption: dict[str, float | int]
    rounds: int
    waited_job_seconds: dict[str, float]
    stuck: list[Stuck]
    refused: list[Stuck]
    queues: dict[str, QueueFigures]
    sizes: list[SizeWaits]
    seed: int
    cycle_seconds: float


def summarize(world: World, ledger: Ledger, loop: Loop, *, seed: int, cycle_ms: int) -> Summary:
    """The figures of a simulation that has ended."""
    columns = ledger.columns()
    everything = np.arange(len(ledger.trace))
    of_queue = np.frombuffer(ledger.trace.queue, np.int32)
    whole = _compute_figures(ledger, columns, everything)
    elapsed_ms = ledger.now_ms - ledger.first_ms
    lost = [sum(amounts) for amounts in zip(*ledger.lost_by_outcome.values(), strict=True)]
    return Summary(
        jobs=whole.jobs,
        states=whole.states,
        makespan_seconds=elapsed_ms / 1000,
        utilisation={
            name: round(used / there, 6)
            for name, used, there in zip(
                ledger.resources, ledger.used_ms, ledger.available_ms, strict=True
            )
            if there
        },
        wait_seconds=whole.wait_seconds,
        mean_bounded_slowdown=whole.mean_bounded_slowdown,
        longest_wait=_find_longest(ledger, columns),
        preemptions=whole.preemptions,
        preemptions_by_cause={
            cause.value: count for cause, count in ledger.causes.items() if count
        },
        lost_resource_seconds=_amounts(ledger, lost),
        lost_to_preemption=_amounts(ledger, ledger.lost_by_outcome[RunEnd.PREEMPTED]),
        rounds=ledger.rounds,
        waited_job_seconds={
            code: round(waited / 1000, 3) for code, waited in ledger.reasons.waited_ms().items()
        },
        stuck=_list_stuck(world, ledger, loop),
        refused=[
            Stuck(code=code, reason=reason, jobs=count, **_name_job(ledger, first))
            for code, (count, first, reason) in sorted(ledger.refused.items())
        ],
        queues={
            name: _compute_figures(ledger, columns, np.flatnonzero(of_queue == number))
            for name, number in sorted(
                (name, number) for number, name in enumerate(ledger.trace.queues.values)
            )
        },
        sizes=_compare_sizes(ledger, columns),
        seed=seed,
        cycle_seconds=cycle_ms / 1000,
    )


def waits_s(ledger: Ledger) -> npt.NDArray[np.float64]:
    """Seconds from submission to the first start, of the jobs that started."""
    columns = ledger.columns()
    started = columns["start"] != NOT_YET
    waits: npt.NDArray[np.float64] = (columns["start"] - columns["submit"])[started] / 1000
    return waits


def _compute_figures(
    ledger: Ledger, columns: dict[str, Int64], rows: npt.NDArray[np.intp]
) -> QueueFigures:
    """The figures of these jobs."""
    codes = np.frombuffer(ledger.state, np.uint8)[rows]
    names = tuple(JobState)
    counts = np.bincount(codes, minlength=len(names)).tolist()
    submit, start, end = (columns[name][rows] for name in ("submit", "start", "end"))
    started = start != NOT_YET
    wait_s = (start - submit)[started] / 1000
    ran = started & (end != NOT_YET) & (codes != names.index(JobState.QUEUED))
    response, run = (end - submit)[ran], np.maximum((end - start)[ran], SLOWDOWN_MS_MIN)
    slowdown = np.maximum(1.0, response / run)
    return QueueFigures(
        jobs=len(rows),
        states={name.value: count for name, count in zip(names, counts, strict=True) if count},
        wait_seconds=_compute_waits(wait_s),
        mean_bounded_slowdown=round(float(slowdown.mean()), 6) if slowdown.size else 0.0,
        preemptions=int(np.frombuffer(ledger.preemptions, np.int32)[rows].sum()),
        lost_seconds=int(columns["lost"][rows].sum()) / 1000,
    )


def _compare_sizes(ledger: Ledger, columns: dict[str, Int64]) -> list[SizeWaits]:
    """Waits of the jobs that started, by the number of GPUs or else of cores, in powers of two."""
    shape = np.frombuffer(ledger.trace.shape, np.int32)
    amounts = {
        name: ledger.requests[shape, ledger.resources.index(name)]
        if name in ledger.resources
        else np.zeros(len(shape), np.int64)
        for name in (quantities.CPU, quantities.GPU)
    }
    gpus = amounts[quantities.GPU]
    count = np.where(gpus > 0, gpus, -(-amounts[quantities.CPU] // 1000))
    power = np.ceil(np.log2(np.maximum(count, 1))).astype(np.int64)
    started = columns["start"] != NOT_YET
    wait_s = (columns["start"] - columns["submit"]) / 1000
    found: list[SizeWaits] = []
    for of_gpu, noun in ((False, "core"), (True, "GPU")):
        for step in range(int(power.max(initial=0)) + 1):
            rows = np.flatnonzero(started & (power == step) & ((gpus > 0) == of_gpu))
            if not rows.size:
                continue
            low, high = 2**step // 2 + 1, 2**step
            size = f"{high} {noun}{'s' * (high > 1)}" if low >= high else f"{low}-{high} {noun}s"
            waits = _compute_waits(wait_s[rows])
            found.append(SizeWaits(size=size, jobs=len(rows), wait_seconds=waits))
    return found


def _compute_waits(wait_s: npt.NDArray[np.float64]) -> Waits:
    if not wait_s.size:
        return Waits()
    p50, p95 = np.percentile(wait_s, [50, 95]).tolist()
    return Waits(
        mean=round(float(wait_s.mean()), 3),
        p50=round(p50, 3),
        p95=round(p95, 3),
        max=float(wait_s.max()),
    )


def _find_longest(ledger: Ledger, columns: dict[str, Int64]) -> Longest | None:
    """The longest wait until a start; a job that never started waited until its end or now."""
    if not len(ledger.trace):
        return None
    start, end = columns["start"], columns["end"]
    until = np.where(start != NOT_YET, start, np.where(end != NOT_YET, end, ledger.now_ms))
    waited = until - columns["submit"]
    job = int(waited.argmax())
    return Longest(
        id=ledger.trace.name_of(job),
        queue=ledger.trace.queues.values[ledger.trace.queue[job]],
        seconds=int(waited[job]) / 1000,
        started=bool(start[job] != NOT_YET),
    )


def _amounts(ledger: Ledger, amounts_ms: list[int]) -> dict[str, float | int]:
    """Amount x time by resource, without zeros."""
    return {
        name: quantities.to_number(name, amount) / 1000
        for name, amount in zip(ledger.resources, amounts_ms, strict=True)
        if amount
    }


def _name_job(ledger: Ledger, job: int) -> dict[str, str]:
    trace = ledger.trace
    return {"queue": trace.queues.values[trace.queue[job]], "job": trace.name_of(job)}


def _list_stuck(world: World, ledger: Ledger, loop: Loop) -> list[Stuck]:
    """Why jobs still wait: the reasons of the last round, or the jobs on which they depend."""
    if not ledger.waiting:
        return []
    found = _list_blocked(world, ledger)
    decided = loop.last_round
    if decided is None:
        return found
    built, plan = decided.built, decided.plan
    example: dict[tuple[int, int, int], str] = {}
    jobs, gangs = built.snapshot, built.snapshot.job_gang
    waiting = np.flatnonzero(jobs.job_node == -1)
    for at in waiting[np.argsort(jobs.job_submission[waiting])].tolist():
        job_id = world.view.jobs.rows.id_at(at)
        gang = -1 if gangs is None else int(gangs[at])
        queue, shape = int(jobs.job_queue[at]), int(jobs.job_shape[at])
        if job_id:
            example.setdefault((queue, -1, gang) if gang >= 0 else (queue, shape, -1), job_id)
            example.setdefault((queue, shape, -1), job_id)
    reasons = plan.reasons
    for row in np.flatnonzero(reasons.waiting > 0).tolist()[:STUCK_MAX]:
        key = (int(reasons.queue[row]), int(reasons.shape[row]), int(reasons.gang[row]))
        found.append(
            Stuck(
                code=reason_texts.CODE_NAMES[engine.Code(int(reasons.code[row]))],
                reason=reason_texts.describe_reason(built.snapshot, plan, row)
                if built.nodes
                else NO_NODES,
                jobs=int(reasons.waiting[row]),
                queue=jobs.queue_names[key[0]],
                job=example.get(key, ""),
            )
        )
    return found


def _name_dependency(ledger: Ledger, other: str) -> str:
    """What people call a job or an array."""
    arrays = (array for array in ledger.trace.arrays.values() if array.array == other)
    array = next(arrays, None)
    return f"job {other}" if array is None else f"array {array.template.client_id}"


def _list_blocked(world: World, ledger: Ledger) -> list[Stuck]:
    """Jobs that depend on jobs and arrays which never end."""
    waiting: dict[int, tuple[int, int, str]] = {}
    for job in (*ledger.trace.after, *ledger.trace.arrays):
        others = world.waits_for(job) if ledger.state_of(job) is JobState.QUEUED else []
        if others:
            queue = ledger.trace.queue[job]
            count, first, other = waiting.get(queue, (0, job, others[0]))
            waiting[queue] = (count + 1, first, other)
    return [
        Stuck(
            code="after",
            reason=f"waits for {_name_dependency(ledger, other)}, which never ends",
            jobs=count,
            **_name_job(ledger, job),
        )
        for count, job, other in list(waiting.values())[:STUCK_MAX]
    ]
