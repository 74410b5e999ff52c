"""Whether a round could decide anything; most rounds of a long trace could not. Pure.

`engine.placement_check` says whether a round could place a queued job. Where something else is
decided, every round runs: limits, gangs, dependencies, cordons, queues with `order: fair`, tasks
of arrays, and runs that are being stopped.
"""

from typing import Final

import numpy as np

from fairlead_common.domain.records.configuration import FAIR
from fairlead_common.domain.scheduling.priority_classes import Preemption
from fairlead_scheduler.engine.compiler.decorators import pack_for_kernels
from fairlead_scheduler.engine.placement_check import (
    CheckedJobs,
    JobGroups,
    PlacementCheck,
    PoolAmounts,
    may_place_by_eviction,
    may_place_without_eviction,
)
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings, list_classes
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.trace import Trace
from fairlead_scheduler.state.pool_rules import Rules

_LIMITS: Final = (
    *("round_limit", "rate", "queue_rate", "preemption_rate", "lookback", "floating"),
    *("class_limits", "ceiling", "gang_assembly_timeout_s"),
)


class RoundFilter:
    """Finds rounds that would decide nothing."""

    def __init__(self, trace: Trace, settings: SimulationSettings, ledger: Ledger) -> None:
        self._ledger = ledger
        self.applies = _is_plain(trace, settings)
        """Whether rounds can be skipped at all."""
        known = {item.name: item for item in list_classes(settings.scheduler)}
        classes = [known.get(name) for name in trace.classes.values]
        kinds = [Preemption.ANY if item is None else item.preemption for item in classes]
        self._value = np.array([0 if item is None else item.value for item in classes], np.int64)
        self._preemptible = np.array([kind is not Preemption.NONE for kind in kinds], np.bool_)
        backlog = ledger.backlog
        self._groups = JobGroups(
            queue=backlog.queue,
            shape=backlog.shape,
            priority_class=backlog.priority_class,
            waiting=backlog.jobs,
            running=backlog.runs,
            examined=np.zeros(backlog.jobs.size, np.bool_),
        )
        kinds = backlog.shape.astype(np.int64) * len(trace.classes.values) + backlog.priority_class
        self._kind = np.unique(kinds, return_inverse=True)[1].reshape(-1)
        """[G] a number for each shape and class."""
        self._check = self._make_check()
        self._jobs = self._make_jobs(0)

    def _make_check(self) -> PlacementCheck:
        ledger, usage = self._ledger, self._ledger.node_usage
        pool = PoolAmounts(
            capacity=usage.capacity,
            used=usage.used,
            request=ledger.requests,
            class_value=self._value,
            preemptible=self._preemptible,
            reachable=np.zeros_like(usage.used),
            compared=np.zeros(len(ledger.requests), np.bool_),
        )
        queues = ledger.queues
        return pack_for_kernels(PlacementCheck(self._groups, pool, queues.amounts, queues.found))

    def _make_jobs(self, runs: int) -> CheckedJobs:
        """The jobs, with memory for this number of runs."""
        ledger = self._ledger
        self._runs_max = runs
        return pack_for_kernels(
            CheckedJobs(
                queue=ledger.job_queue,
                shape=ledger.job_shape,
                node=ledger.run_node,
                run_share=np.zeros(runs),
                run_held=np.zeros((runs, len(ledger.resources)), np.int64),
            )
        )

    def record_round(self) -> None:
        """A round examined all queued jobs. One that still waits is feasible, and so are all jobs
        of its shape and class: in plain settings feasibility does not depend on the queue."""
        groups = self._groups
        fresh = (groups.waiting > 0) & ~groups.examined
        if np.count_nonzero(fresh):
            groups.examined[np.isin(self._kind, self._kind[fresh])] = True

    def record_node_change(self) -> None:
        """The nodes changed: other jobs may be infeasible."""
        self._groups.examined[:] = False
        self._check = self._make_check()

    def may_decide(self, any_stopping: bool) -> bool:
        """Whether a round could place or reject a job. `any_stopping`: a run is being stopped.

        If not, the shares of the queues have been measured.
        """
        ledger = self._ledger
        if not self.applies or any_stopping or ledger.node_usage.any_cordoned:
            return True
        if may_place_without_eviction(self._check):
            return True
        ledger.queues.measure(waiting=True)
        runs = ledger.lists.runs()
        if runs.size > self._runs_max:
            self._jobs = self._make_jobs(2 * runs.size)
        any_order = self._value.size > 1  # class values come before shares
        first = ledger.lists.first_queued
        return may_place_by_eviction(self._check, self._jobs, runs, first, any_order)


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
