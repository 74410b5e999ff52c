"""Whether a round could decide anything; most rounds of a long trace could not. Pure.

A job is placed by one of the tiers of rule N2, and the first one that a round places meets the
state that the last round left. So a round decides nothing if no queued job fits the free capacity
of a node (tier a), no queue above its fair share could lose enough runs to a queue that would stay
below it (tier b, rules R2 and R13), and no queued job is more urgent than a run (tier c). The rules
that are not checked here only hold back more. Where something else is decided, every round runs:
limits, gangs, dependencies, cordons, jobs not yet examined, and runs that are being stopped.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.priority_classes import Preemption
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings, list_classes
from fairlead_scheduler.simulate.model.backlog import Int64
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.trace import Trace
from fairlead_scheduler.state.pool_rules import Rules

TOLERANCE: Final = 1e-9
"""Shares this close count as possible, so that rounding cannot skip a round."""
GAIN_MIN: Final = 0.5e-9
"""The smallest gain in share / weight that counts: half of what rule R13 requires."""
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
        """Tier (b): whether queues above their fair share could lose enough for a queued job.

        Runs of a queue are taken while its share stays above that of the offer's queue with the
        offer, and then one more. The nodes of the runs are not compared.
        """
        ledger = self._ledger
        shares = ledger.compute_shares()
        entitled = self._protected * np.maximum(shares.fair, shares.weight)
        above = np.flatnonzero(shares.actual > entitled - TOLERANCE)
        if not above.size:
            return False
        floor = (ledger.cost_with(queues, requests) / ledger.weight[queues])[:, None]
        floor = floor * ledger.weight[above]  # [G, A] what the victims' queue keeps
        gain = GAIN_MIN * ledger.weight[above]
        held = ledger.allocated[above] * ledger.cost_factors  # [A, R]
        over = held[None] > floor[:, :, None] + gain[:, None]  # [G, A, R]
        over[queues[:, None] == above] = False
        alone = over.sum(axis=2, keepdims=True) == 1
        most = np.broadcast_to(ledger.allocated[above], over.shape).astype(np.float64)
        remaining = np.divide(
            floor[:, :, None],
            ledger.cost_factors,
            out=np.zeros(over.shape),
            where=over & alone & (ledger.cost_factors > 0),
        )
        largest = ledger.backlog.largest_runs(ledger.requests)[above]
        most = np.where(over & alone, np.minimum(most, most - remaining + largest), most)
        taken = np.where(over.any(axis=2, keepdims=True), most, 0.0).sum(axis=1)
        free = (ledger.node_usage.capacity - ledger.node_usage.used).max(axis=0, initial=0)
        enough = (free + taken) * (1 + TOLERANCE) >= requests
        return bool((enough.all(axis=1) & over.any(axis=(1, 2))).any())


def _is_plain(trace: Trace, settings: SimulationSettings) -> bool:
    """Whether only placing decides when a job starts."""
    rules, plain = settings.scheduler.rules, Rules()
    return (
        all(getattr(rules, name) == getattr(plain, name) for name in _LIMITS)
        and not any(
            item.limits or item.away_node_types for item in list_classes(settings.scheduler)
        )
        and not any(queue.cordoned or queue.limits for queue in settings.queues.values())
        and not (trace.gangs or trace.after or trace.infeasible_waits or trace.retry)
    )
