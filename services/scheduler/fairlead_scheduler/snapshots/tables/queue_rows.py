"""The queues of a pool as rows, by name ascending."""

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.state.jobs.job_table import Numbering

Renumbered = npt.NDArray[np.int32]
"""Old row -> new row."""


class QueueRows:
    """Q rows. A queue without jobs has its row until there are too many such queues."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self._numbers: list[int] = []
        self.row_of = np.zeros(0, np.int32)
        """Number in the view -> row, -1."""

    def add(self, queues: Numbering[str], numbers: npt.NDArray[np.int32]) -> Renumbered | None:
        """Add rows for these queues. Returns the new row of each earlier row, None if no queue is
        new."""
        if len(self.row_of) < len(queues):
            more = np.full(len(queues) - len(self.row_of), -1, np.int32)
            self.row_of = np.concatenate([self.row_of, more])
        fresh = np.unique(numbers[self.row_of[numbers] < 0]).tolist()
        if not fresh:
            return None
        before = self._numbers
        self._number(queues, sorted(before + fresh, key=queues.values.__getitem__))
        return self.row_of[before]

    def keep(self, queues: Numbering[str], rows: npt.NDArray[np.intp]) -> None:
        """Remove all rows but these, which are ascending."""
        self._number(queues, [self._numbers[row] for row in rows.tolist()])

    def _number(self, queues: Numbering[str], numbers: list[int]) -> None:
        self._numbers = numbers
        self.row_of[:] = -1
        self.row_of[numbers] = np.arange(len(numbers))
        self.names = tuple(queues.values[number] for number in numbers)
