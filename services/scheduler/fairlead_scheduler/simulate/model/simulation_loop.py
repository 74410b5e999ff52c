"""Virtual time: from one thing that happens to the next, with rounds in between. Pure.

A round is made every `cycle_ms`, and at once when something changed and the last one is `GAP_MS`
ago. What a round could not do anything about is left out: while nothing waits that may start, only
the shares are looked at, and when nothing has changed since a round that decided nothing, there is
no other.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from fairlead_scheduler.rules.decider import Round
from fairlead_scheduler.simulate.input.node_file import Step
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.simulated_world import World
from fairlead_scheduler.simulate.model.trace import Trace
from fairlead_scheduler.state.pool_rules import Rules

GAP_MS: Final = 1_000
"""Rounds follow each other at this distance at least."""
PATIENCE_MS_MAX: Final = 7 * 86_400_000
"""However slowly a bucket fills."""


class Loop:
    """Moves the time of a world until nothing can happen any more."""

    def __init__(
        self, world: World, ledger: Ledger, steps: Sequence[Step], rules: Rules, cycle_ms: int
    ) -> None:
        """`steps` are what becomes of nodes, in order of time."""
        self._steps = deque(steps)
        self._world, self._ledger, self._cycle_ms = world, ledger, cycle_ms
        self._trace: Trace = world.trace
        patience = patience_ms(rules)
        self._patience_ms = patience + cycle_ms if patience else 0
        self._last_ms: int | None = None
        """When the last round was."""
        self._acted_ms = 0
        """When something last happened."""
        self._changed = False
        """Whether something has happened that no round has looked at yet."""
        self._goes_on = False
        """Whether something waits about which a later round may decide without a change."""
        self.last: Round | None = None

    def run(self, tick: Callable[[], None]) -> None:
        """Until nothing can happen any more. `tick` is called after each step, for progress."""
        order = self._trace.in_order().tolist()
        submit_ms = self._trace.submit_ms
        at, count = 0, len(order)
        while True:
            submit = submit_ms[order[at]] if at < count else None
            if submit is None and not self._ledger.waiting and not self._ledger.running:
                break  # one more round would only make longer what the figures are of
            times = (submit, self._world.next_end_ms, self._round_ms(), self._step_ms())
            known = [time for time in times if time is not None]
            if not known:
                break
            now_ms = min(known)
            self._ledger.until(now_ms)
            if self._step_ms() == now_ms:
                self._world.nodes_change(now_ms, self._due_steps(now_ms))
                self._happened(now_ms)
            if self._world.next_end_ms == now_ms:
                self._world.end_due(now_ms)
                self._happened(now_ms)
            if submit == now_ms:
                first = at
                while at < count and submit_ms[order[at]] == now_ms:
                    at += 1
                self._world.submit(now_ms, order[first:at])
                self._happened(now_ms)
            if self._round_ms() == now_ms:
                self._round(now_ms)
            tick()
        self._world.settle(self._ledger.now_ms)
        self._ledger.finish()

    def _step_ms(self) -> int | None:
        """When something next becomes of a node, while that still matters to anybody."""
        if not self._steps or self._ledger.done == len(self._trace):
            return None
        return max(self._ledger.now_ms, self._steps[0].at_ms)

    def _due_steps(self, now_ms: int) -> list[Step]:
        due = []
        while self._steps and self._steps[0].at_ms <= now_ms:
            due.append(self._steps.popleft())
        return due

    def _happened(self, now_ms: int) -> None:
        self._changed, self._acted_ms = True, now_ms

    def _round_ms(self) -> int | None:
        """When the next round is to be made, as things stand."""
        now_ms, last_ms = self._ledger.now_ms, self._last_ms
        if self._changed:
            if last_ms is None:
                return now_ms
            gap_ms = GAP_MS if self._world.can_start_any() else self._cycle_ms
            return max(now_ms, last_ms + gap_ms)
        if self._goes_on and last_ms is not None:
            next_ms = last_ms + self._cycle_ms
            return next_ms if next_ms <= self._acted_ms + self._patience_ms else None
        return None

    def _round(self, now_ms: int) -> None:
        self._last_ms, self._changed = now_ms, False
        self._world.settle(now_ms)
        if not self._world.can_start_any():
            self._goes_on = False
            self._ledger.looked_at()
            return
        decided = self._world.cycle(now_ms)
        if decided is None:
            return
        self.last = decided
        self._ledger.round_done(decided)
        plan = decided.plan
        acted = any(
            map(len, (plan.placed_job, plan.preempted_job, plan.rejected_job, plan.failed_job))
        )
        self._goes_on = self._ledger.waiting > 0
        if acted:
            self._happened(now_ms)


def patience_ms(rules: Rules) -> int:
    """How long, with nothing else happening, time alone may still change what a round decides:
    until all buckets are full and all gangs are as old as they may get."""
    rates = (rules.rate, rules.queue_rate, rules.preemption_rate)
    full_s = [rate.burst / rate.per_second for rate in rates if rate is not None]
    return min(PATIENCE_MS_MAX, round(1000 * max([*full_s, rules.gang_assembly_timeout_s, 0])))
