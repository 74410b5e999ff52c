"""Whether a round could decide anything; most rounds of a long trace could not. Pure.

A job is placed by one of the tiers of rule N2, and the first one that a round places meets the
state that the last round left. So a round decides nothing if no queued job fits the free capacity
of a node (tier a), on no node queues above their fair share could lose enough runs to a queue that
would stay below them (tier b, rules R2 and R13), and no queued job is more urgent than a run (tier
c). The rules that are not checked here only hold back more. Where something else is decided, every
round runs: limits, gangs, dependencies, cordons, queues with `order: fair`, jobs not yet examined,
tasks of arrays, and runs that are being stopped.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.priority_classes import Preemption
from fairlead_common.domain.records.configuration import FAIR
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings, list_classes
from fairlead_scheduler.simulate.model.backlog import Float, Int64
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.trace import Trace
from fairlead_scheduler.state.pool_rules import Rules

TOLERANCE: Final = 1e-9
"""Shares this close count as possible, so that rounding cannot skip a round."""
GAIN_MIN: Final = 0.5e-9
"""The smallest gain in share / weight that counts: half of what rule R13 requires."""
ABOVE_MIN: Final = 0.5e-9
"""How far above its share rule R2 evicts the runs of a queue: half of what it requires."""
MARGIN: Final = 4 * TOLERANCE
"""By how much shares / weight must differ to say which offer is examined first."""
_LIMITS: Final = (
    *("round_limit", "rate", "queue_rate", "preemption_rate", "lookback", "floating"),
    *("class_limits", "ceiling", "gang_assembly_timeout_s"),
)


class RoundFilter:
    """Finds rounds that would decide nothing."""

    def __init__(self, trace: Trace, settings: SimulationSettings, ledger: Ledger) -> None:
        self._ledger = ledger
        self._applies = _is_plain(trace, settings)
        known = {item.name: item for item in list_classes(settings.scheduler)}
        classes = [known.get(name) for name in trace.classes.values]
        kinds = [Preemption.ANY if item is None else item.preemption for item in classes]
        self._value = np.array([0 if item is None else item.value for item in classes], np.int64)
        self._preemptible = np.array([kind is not Preemption.NONE for kind in kinds], np.bool_)
        self._protected = settings.scheduler.rules.protected_fraction_of_fair_share
        self._examined = np.zeros(len(ledger.backlog.jobs), np.bool_)

    def record_round(self) -> None:
        """A round examined all queued jobs."""
        self._examined[self._ledger.backlog.waiting_groups()] = True

    def record_node_change(self) -> None:
        """The nodes changed: other jobs may be infeasible."""
        self._examined[:] = False

    def may_decide(self, any_stopping: bool) -> bool:
        """Whether a round could place or reject a job. `any_stopping`: a run is being stopped."""
        ledger = self._ledger
        if not self._applies or any_stopping:
            return True
        groups = ledger.backlog.waiting_groups()
        usage = ledger.node_usage
        if usage.any_cordoned or usage.any_overfull or not self._examined[groups].all():
            return True
        queues = ledger.backlog.queue[groups]
        requests = ledger.requests[ledger.backlog.shape[groups]]
        return (
            usage.fits_any(requests)
            or self._any_more_urgent(groups)
            or self._any_below(queues, requests)
        )

    def _any_more_urgent(self, groups: npt.NDArray[np.intp]) -> bool:
        """Tier (c): whether a queued job has a greater value than a preemptible run."""
        backlog = self._ledger.backlog
        classes = np.unique(backlog.priority_class[np.flatnonzero(backlog.runs)])
        running = self._value[classes[self._preemptible[classes]]]
        waiting = self._value[backlog.priority_class[groups]]
        return bool(running.size and waiting.max() > running.min())

    def _any_below(self, queues: npt.NDArray[np.int32], requests: Int64) -> bool:
        """Tier (b): whether evicted runs of other queues make a node free enough for a queued job.

        `queues`, `requests`: of each group of queued jobs. A group is offered only after the runs
        with which their queue has less than the group's queue with the job have returned (R4), if
        the job is over its budget or comes after such a job.
        """
        ledger = self._ledger
        shares = ledger.compute_shares()
        entitled = self._protected * np.maximum(shares.fair, shares.weight)
        above = shares.actual > entitled + ABOVE_MIN
        held, budget = shares.actual / ledger.weight, shares.fair / ledger.weight
        proposed = ledger.cost_with(queues, requests) / ledger.weight[queues]
        likely = held[above].max(initial=0.0) > proposed + GAIN_MIN
        if not likely.any():
            return False
        queues, requests, proposed = queues[likely], requests[likely], proposed[likely]
        returned = np.zeros_like(proposed)
        if self._value.size == 1:  # class values come before shares
            first = self._first_shares()
            over_budget = proposed > budget[queues] + MARGIN
            after_first = np.where(first[queues] > budget[queues] + MARGIN, first[queues], 0.0)
            returned = np.where(over_budget, np.maximum(proposed, after_first) - MARGIN, 0.0)
        runs = ledger.order_runs()
        runs = runs.select(above[runs.queue])
        free = (ledger.node_usage.capacity - ledger.node_usage.used).astype(np.float64)
        held = held[runs.queue]

        def add_taken(share: float, least: float, queue: int) -> Float:
            taken = (runs.queue != queue) & (runs.share >= least)
            taken &= held > share + GAIN_MIN  # R13
            reachable = free.copy()
            np.add.at(reachable, runs.node[taken], runs.amounts[taken])
            return reachable * (1 + TOLERANCE)

        most = add_taken(proposed.min(), returned.min(), -1)  # no group reaches more than this
        enough = np.asarray((most[None] >= requests[:, None]).all(axis=2))
        fits = np.flatnonzero(enough.any(axis=1))
        groups = zip(proposed[fits], returned[fits], queues[fits], strict=True)
        return any(
            bool(np.all(add_taken(*group) >= request, axis=1).any())
            for group, request in zip(groups, requests[fits], strict=True)
        )

    def _first_shares(self) -> Float:
        """[Q] the share / weight of each queue with its first queued job; 0 without one."""
        ledger = self._ledger
        first = ledger.first_queued()
        result = np.zeros(ledger.weight.size)
        queues = ledger.job_queue[first]
        costs = ledger.cost_with(queues, ledger.requests[ledger.job_shape[first]])
        result[queues] = costs / ledger.weight[queues]
        return result


def _is_plain(trace: Trace, settings: SimulationSettings) -> bool:
    """Whether only placing decides when a job starts."""
    rules, plain = settings.scheduler.rules, Rules()
    return (
        all(getattr(rules, name) == getattr(plain, name) for name in _LIMITS)
        and not any(
            item.limits or item.away_node_types for item in list_classes(settings.scheduler)
        )
        and not any(
            queue.cordoned or queue.limits or queue.order == FAIR
            for queue in settings.queues.values()
        )
        and not (
            trace.gangs
            or trace.members
            or trace.arrays
            or trace.after
            or trace.infeasible_waits
            or trace.retry
        )
    )
