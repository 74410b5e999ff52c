"""L9: how many leases each executor has not taken up, kept up with what changed."""

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.lifecycle import RunState
from fairlead_scheduler.state import job_table as c
from fairlead_scheduler.state.arrays import longer
from fairlead_scheduler.state.job_table import View


class Leased:
    """Runs that are leased and not pending yet, by node (as numbered in the view)."""

    def __init__(self) -> None:
        self._node = np.zeros(0, np.int32)
        """Row of the view -> node of its run that was not taken up, -1 for none."""
        self._of_executor: dict[str, int] = {}

    def keep_up(self, view: View, rows: npt.NDArray[np.intp], valid: npt.NDArray[np.bool_]) -> None:
        """Count these rows as they are now; `valid` ones belong to a job."""
        jobs = view.jobs
        self._node = longer(self._node, jobs.used, -1)
        waits = valid & (jobs.run_state[rows] == c.RUN_CODE[RunState.LEASED])
        now = np.where(waits, jobs.node[rows], np.int32(-1))
        before = self._node[rows]
        differ = now != before
        self._node[rows] = now
        self._count(view, before[differ], -1)
        self._count(view, now[differ], 1)

    def _count(self, view: View, nodes: npt.NDArray[np.int32], sign: int) -> None:
        numbers, counts = np.unique(nodes[nodes >= 0], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            executor = view.jobs.nodes.values[number].executor
            total = self._of_executor.get(executor, 0) + sign * count
            if total:
                self._of_executor[executor] = total
            else:
                del self._of_executor[executor]

    def above(self, most: int) -> frozenset[str]:
        """Executors that have not taken up more than `most` leases."""
        return frozenset(name for name, count in self._of_executor.items() if count > most)
