"""Advances virtual time from change to change, with rounds in between. Pure.

A round runs every `cycle_ms`, and after a change if the last round was at least `GAP_MS` ago.
Rounds without effect are skipped: while no queued job is able to start, or none could be placed
(`round_filter`), only the shares are computed, and after a round that decided nothing there is no
other round before a change.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from fairlead_scheduler.rules.decider import DecidedRound
from fairlead_scheduler.simulate.input.node_file import NodeChange
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.round_filter import RoundFilter
from fairlead_scheduler.simulate.model.simulated_world import World
from fairlead_scheduler.simulate.model.trace import Trace
from fairlead_scheduler.state.pool_rules import Rules

GAP_MS: Final = 1_000
"""The minimum time between two rounds."""
PATIENCE_MS_MAX: Final = 7 * 86_400_000
"""The maximum time to wait for token buckets to fill."""


class Loop:
    """Advances the time of a world until its state is final."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        changes: Sequence[NodeChange],
        rules: Rules,
        cycle_ms: int,
        round_filter: RoundFilter | None,
    ) -> None:
        """`changes` are the changes of nodes, in order of time. Without a filter every round
        runs."""
        self._changes = deque(changes)
        self._world, self._ledger, self._cycle_ms = world, ledger, cycle_ms
        self._trace: Trace = world.trace
        freezes_s = [group.freeze_s for group in world.trace.groups.values()]
        freeze_s = min(max(freezes_s, default=0), rules.group_freeze_s_max)
        patience = max(patience_ms(rules), 1000 * freeze_s)
        self._patience_ms = patience + cycle_ms if patience else 0
        self._filter = round_filter
        self._unexplained = False
        """Whether a round was skipped, or ran without an explanation, since the last explained
        one."""
        self._last_ms: int | None = None
        """The time of the last round."""
        self._acted_ms = 0
        """The time of the last change."""
        self._changed = False
        """Whether there was a change since the last round."""
        self._may_decide_later = False
        """Whether a later round can decide something although nothing changes."""
        self.last_round: DecidedRound | None = None

    def run(self, tick: Callable[[], None]) -> None:
        """Run until the state is final. `tick` is called after each advance of the time."""
        order = self._trace.order_by_submission().tolist()
        submit_ms = self._trace.submit_ms
        at, count = 0, len(order)
        while True:
            submit = submit_ms[order[at]] if at < count else None
            if submit is None and not self._ledger.waiting and not self._ledger.running:
                break  # one more round would extend the makespan
            end_ms, change_ms = self._world.next_end_ms, self._change_ms()
            times = (submit, end_ms, self._round_ms(), change_ms)
            known = [time for time in times if time is not None]
            if not known:
                break
            now_ms = min(known)
            self._ledger.advance(now_ms)
            if change_ms == now_ms:
                self._world.change_nodes(now_ms, self._due_changes(now_ms))
                if self._filter is not None:
                    self._filter.record_node_change()
                self._mark_changed(now_ms)
                end_ms = self._world.next_end_ms
            if end_ms == now_ms:
                self._world.end_due(now_ms)
                self._mark_changed(now_ms)
            if submit == now_ms:
                first = at
                while at < count and submit_ms[order[at]] == now_ms:
                    at += 1
                self._world.submit(now_ms, order[first:at])
                self._mark_changed(now_ms)
            if self._round_ms() == now_ms:
                self._round(now_ms)
            tick()
        if self._unexplained and self._ledger.waiting:
            self._run_round(self._ledger.now_ms, explain=True)
        self._world.run_housekeeping(self._ledger.now_ms)
        self._ledger.finish()

    def _change_ms(self) -> int | None:
        """The time of the next change of a node; None if all jobs have ended."""
        if not self._changes or self._ledger.done == len(self._trace):
            return None
        return max(self._ledger.now_ms, self._changes[0].at_ms)

    def _due_changes(self, now_ms: int) -> list[NodeChange]:
        due = []
        while self._changes and self._changes[0].at_ms <= now_ms:
            due.append(self._changes.popleft())
        return due

    def _mark_changed(self, now_ms: int) -> None:
        self._changed, self._acted_ms = True, now_ms

    def _round_ms(self) -> int | None:
        """The time of the next round; None if no round is needed."""
        now_ms, last_ms = self._ledger.now_ms, self._last_ms
        if self._changed:
            if last_ms is None:
                return now_ms
            gap_ms = GAP_MS if self._world.can_start_any() else self._cycle_ms
            return max(now_ms, last_ms + gap_ms)
        if self._may_decide_later and last_ms is not None:
            next_ms = last_ms + self._cycle_ms
            return next_ms if next_ms <= self._acted_ms + self._patience_ms else None
        return None

    def _round(self, now_ms: int) -> None:
        self._last_ms, self._changed = now_ms, False
        if not self._world.can_start_any():
            self._may_decide_later = False
            self._ledger.skip_round()
            return
        if self._filter is not None and not self._filter.may_decide(self._world.any_stopping):
            self._unexplained, self._may_decide_later = True, False
            self._ledger.skip_full_round()
            return
        explain = (
            self._filter is None or not self._filter.applies or self._ledger.is_explanation_due()
        )
        self._run_round(now_ms, explain=explain)

    def _run_round(self, now_ms: int, *, explain: bool) -> None:
        decided = self._world.run_round(now_ms, explain=explain)
        if decided is None:
            return
        self._unexplained = not explain
        self.last_round = decided
        self._ledger.record_round(decided)
        if self._filter is not None:
            self._filter.record_round()
        plan = decided.plan
        acted = any(
            map(len, (plan.placed_job, plan.preempted_job, plan.rejected_job, plan.failed_job))
        )
        self._may_decide_later = self._ledger.waiting > 0
        if acted:
            self._mark_changed(now_ms)


def patience_ms(rules: Rules) -> int:
    """The time until all token buckets are full and all gangs have reached their assembly timeout.

    After that time without changes, rounds decide nothing new.
    """
    rates = (rules.rate, rules.queue_rate, rules.preemption_rate)
    full_s = [rate.burst / rate.per_second for rate in rates if rate is not None]
    return min(PATIENCE_MS_MAX, round(1000 * max([*full_s, rules.gang_assembly_timeout_s, 0])))
