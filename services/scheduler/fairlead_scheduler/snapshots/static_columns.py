"""Columns of queues, limits and node flags, which are the same objects until their input changes.

The engine reuses what it derived from a column while the column is the same object
(`engine/preparation/pool/static_pool.py`). So a new array with equal values would cost much more
than the array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.retained import Retained
from fairlead_scheduler.snapshots.tables.class_table import Classes
from fairlead_scheduler.snapshots.tables.node_table import Nodes
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues


class StaticColumns:
    """The retained columns of one pool."""

    def __init__(self) -> None:
        self._queues: Retained[dict[str, Any]] = Retained()
        self._flags: Retained[npt.NDArray[np.uint8]] = Retained()
        self._unlimited: Retained[npt.NDArray[np.float64]] = Retained()

    def of_queues(
        self,
        names: tuple[str, ...],
        resources: tuple[str, ...],
        rules: Rules,
        queues: Queues,
        classes: Classes,
    ) -> dict[str, Any]:
        """The columns of queues and limits, as the engine names them."""
        floating = tuple(sorted(rules.floating))

        def make() -> dict[str, Any]:
            known = [queues.get(name) for name in names]
            every = (*resources, *floating)
            totals = [int(rules.floating[name]) for name in floating]
            fractions, amounts = classes.limits(rules.class_limits, queues, names, every)
            return {
                "resources": resources,
                "floating": floating,
                "floating_total": np.array(totals, np.int64),
                "queue_names": names,
                "queue_weight": np.array([queue.weight for queue in known], np.float64),
                "queue_cordoned": np.array([queue.cordoned for queue in known], np.bool_),
                "queue_limit_fraction": fractions,
                "queue_limit_amount": amounts,
                "class_ceiling": classes.ceiling(rules.ceiling, every),
            }

        return self._queues.get((queues.version, names, resources, len(classes.rows)), make)

    def flags(
        self, nodes: Nodes, stale: frozenset[str], lagging: frozenset[str]
    ) -> npt.NDArray[np.uint8]:
        """[N] `engine.NodeFlag`; `stale`, `lagging`: executors."""

        def make() -> npt.NDArray[np.uint8]:
            flags = np.where(nodes.cordoned, np.uint8(engine.NodeFlag.CORDONED), np.uint8(0))
            flags[nodes.avoided] |= np.uint8(engine.NodeFlag.AVOIDED)
            for flag, executors in (
                (engine.NodeFlag.LOST, stale),
                (engine.NodeFlag.LAGGING, lagging),
            ):
                for executor in executors & nodes.executors.keys():
                    flags[nodes.executors[executor]] |= np.uint8(flag)
            return flags

        return self._flags.get((nodes.version, stale, lagging), make)

    def unlimited_tokens(self, queues: int) -> npt.NDArray[np.float64]:
        """[Q] the tokens of queues without a limit."""
        return self._unlimited.get((queues,), lambda: np.full(queues, engine.UNLIMITED))
