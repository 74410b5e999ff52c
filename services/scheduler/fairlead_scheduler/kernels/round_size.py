"""Rounds of a scheduler whose kernels are being compiled: only those that Python makes in time.

A round keeps everything else in its process waiting. One of thousands of shapes and nodes takes
Python minutes: the log would be given up as lost, and with the process its compiler would end.
"""

from collections.abc import Callable
from typing import Final

from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot
from fairlead_scheduler.rules.decider import Engine

PAIRS_MAX: Final = 300_000
"""Shapes times nodes: to say why jobs wait, Python takes a second or more for as many."""


class KernelsMissing(Exception):
    """The round must wait until the kernels are compiled."""


class RoundSizeLimit:
    """An `Engine` that leaves large rounds for later, until `over` is set."""

    def __init__(self, engine: Engine) -> None:
        self.over = False
        self._engine = engine

    def __call__(
        self,
        snapshot: Snapshot,
        settings: EngineSettings,
        *,
        expired: Callable[[], bool],
        clock_s: Callable[[], float],
    ) -> Plan:
        """See `Engine`. Raises `KernelsMissing`: the pool waits, and its reports say why."""
        shapes, nodes = len(snapshot.shape_class), len(snapshot.node_number)
        if not self.over and shapes * nodes > PAIRS_MAX:
            raise KernelsMissing(
                f"the engine's kernels are not compiled yet, and a round of {shapes} job shapes and"
                f" {nodes} nodes takes too long without them; compiling takes a minute or two, once"
                " per version"
            )
        return self._engine(snapshot, settings, expired=expired, clock_s=clock_s)
