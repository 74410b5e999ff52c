"""What queues hold and demand, and their shares (rules S1, S3 and S5). Pure."""

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import pack_for_kernels
from fairlead_scheduler.engine.placement_check import (
    CheckedShares,
    QueueAmounts,
    make_shares,
    measure_shares,
)
from fairlead_scheduler.simulate.model.backlog import Float, Int64


class QueueShares:
    """Queues have their indexes in the trace, resources their indexes in the ledger."""

    def __init__(self, names: list[str], weight: Float, resources: int, protected: float) -> None:
        """`protected`: the part of its share up to which a queue is not evicted (R2)."""
        queues = len(names)
        self.amounts = QueueAmounts(
            held=np.zeros((queues, resources), np.int64),
            demanded=np.zeros((queues, resources), np.int64),
            running=np.zeros(queues, np.int64),
            queued=np.zeros(queues, np.int64),
            weight=weight,
            by_name=np.array(sorted(range(queues), key=names.__getitem__), np.intp),
            factor=np.zeros(resources),
            protected=np.array([protected]),
        )
        self.used = np.zeros(resources, np.int64)
        """What all queues hold together."""
        self.actual = np.zeros(queues)
        """[Q] dominant shares."""
        self.found: CheckedShares = make_shares(queues)
        """The shares of the last `measure`."""
        self._packed = pack_for_kernels(self.amounts), pack_for_kernels(self.found)

    def set_cost_factors(self, factor: Float) -> None:
        """The capacity changed."""
        self.amounts.factor[:] = factor
        self.actual[:] = (self.amounts.held * factor).max(axis=1, initial=0.0)

    def hold(self, queue: int, request: Int64, count: int) -> None:
        """A run begins (1) or ceases (-1) to hold what its job requests."""
        amounts, change = self.amounts, request if count > 0 else -request
        held = amounts.held[queue]
        held += change
        amounts.running[queue] += count
        amounts.demanded[queue] += change
        self.used += change
        self.actual[queue] = max(0.0, *(held * amounts.factor).tolist())

    def demand(self, queue: int, request: Int64, count: int) -> None:
        """A job is queued (1), or no longer queued (-1)."""
        amounts = self.amounts
        amounts.queued[queue] += count
        amounts.demanded[queue] += request if count > 0 else -request

    def measure(self, *, waiting: bool) -> None:
        """Compute the shares; without `waiting` queued jobs are no demand."""
        measure_shares(*self._packed, waiting)
