"""The behaviour of a simulated run: how long it takes to start and runs, and how it ends. Pure.

Annotations of the job set it. Everything else is drawn from the seed and the run's id, so that it
does not depend on the order in which runs start.
"""

import hashlib
import math
from typing import Final

import msgspec

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.backends.simulated.settings import Simulation
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End

PREFIX: Final = "fairlead.dev/simulated-"
SECONDS: Final = PREFIX + "seconds"
START_SECONDS: Final = PREFIX + "start-seconds"
EXIT_CODE: Final = PREFIX + "exit-code"
FAILURE: Final = PREFIX + "failure"
"""A failure category, or `returned`: then the run never starts."""
STOP_SECONDS: Final = PREFIX + "stop-seconds"
"""How long the run takes to end after a request to stop; at most its grace."""

ANNOTATIONS: Final = (SECONDS, START_SECONDS, EXIT_CODE, FAILURE, STOP_SECONDS)
BEHAVIOURS_MAX: Final = 1_000
"""Most behaviours that are remembered; all are forgotten when there is one more."""

_RETURNED: Final = "returned"
_CATEGORIES: Final = {category.value: category for category in FailureCategory}
_SCALE: Final = 1 / 2**64


class Behaviour(msgspec.Struct, frozen=True, gc=False):
    """Times in ms of the cluster's clock. `starts`: whether the run ever starts."""

    start_ms: int
    run_ms: int
    stop_ms: int
    end: End
    starts: bool = True


class Behaviours:
    """The behaviours of the runs of one cluster, as `decide_behaviour` decides them.

    If its settings contain no chance, runs with the same annotations have the same behaviour, which
    is decided once.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._draws = bool(
            simulation.mean_tail_s or simulation.failure_rate or simulation.return_rate
        )
        self._decided: dict[tuple[str | None, ...], Behaviour] = {}

    def decide(self, run: RunId, lease: Lease) -> Behaviour:
        """The behaviour of this run."""
        if self._draws:
            return decide_behaviour(run, lease, self._simulation)
        texts = tuple(map(lease.annotations.get, ANNOTATIONS))
        decided = self._decided.get(texts)
        if decided is None:
            if len(self._decided) == BEHAVIOURS_MAX:
                self._decided.clear()
            decided = self._decided[texts] = decide_behaviour(run, lease, self._simulation)
        return decided


def decide_behaviour(run: RunId, lease: Lease, simulation: Simulation) -> Behaviour:
    """The behaviour of this run."""
    annotations = lease.annotations
    per_s = 1000 / simulation.speed
    draws = _Draws(run, simulation.seed)
    end, starts = _decide_end(annotations, simulation, draws)
    run_s = _parse_number(annotations.get(SECONDS))
    if run_s is None:
        run_s = simulation.min_s
        if simulation.mean_tail_s:
            run_s -= simulation.mean_tail_s * math.log(1 - draws.next())
    start_s = _parse_number(annotations.get(START_SECONDS))
    return Behaviour(
        start_ms=round((simulation.start_s if start_s is None else start_s) * per_s),
        run_ms=round(run_s * per_s),
        stop_ms=round((_parse_number(annotations.get(STOP_SECONDS)) or 0.0) * per_s),
        end=end,
        starts=starts,
    )


def _decide_end(
    annotations: dict[str, str], simulation: Simulation, draws: "_Draws"
) -> tuple[End, bool]:
    failure = annotations.get(FAILURE)
    code = _parse_number(annotations.get(EXIT_CODE))
    if failure is None and code is None:
        if simulation.return_rate and draws.next() < simulation.return_rate:
            failure = _RETURNED
        elif simulation.failure_rate and draws.next() < simulation.failure_rate:
            code = 1
    if failure == _RETURNED:
        return pods.returned("this simulated node did not start it"), False
    if failure is not None:
        category = _CATEGORIES.get(failure, FailureCategory.INTERNAL)
        starts = category not in (FailureCategory.START, FailureCategory.IMAGE_PULL)
        return pods.failed(category, f"a simulated failure: {failure}"), starts
    if code:
        reason = f"the command ended with exit code {int(code)}"
        return pods.failed(FailureCategory.EXIT_CODE, reason, int(code)), True
    return pods.SUCCEEDED, True


def _parse_number(text: str | None) -> float | None:
    """The number of an annotation; None if it is missing or is not a valid amount."""
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


class _Draws:
    """Uniform numbers in [0, 1) that a run and a seed determine."""

    def __init__(self, run: RunId, seed: int) -> None:
        self._text = f"{seed}:{run}:"
        self._count = 0

    def next(self) -> float:
        self._count += 1
        text = f"{self._text}{self._count}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") * _SCALE
