"""How long jobs waited, by reason. Pure.

A round is explained once in each interval of the time series: reasons cost more than the rest of
a round. After a round that was not explained, and while rounds are skipped, the queued jobs of a
queue are divided among its reasons as in the last explained round.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.simulate.model.backlog import Int64

_CODES: Final = len(engine.Code)
_NO_CAPACITY: Final = engine.Code.INSUFFICIENT_RESOURCES


class WaitingReasons:
    """Queues are indexes of the trace."""

    def __init__(self, queues: int) -> None:
        self._parts = np.zeros((queues, _CODES))
        """[Q, codes] the part of its queued jobs that each queue had with each reason in the last
        explained round."""
        self._parts[:, _NO_CAPACITY] = 1.0
        self._jobs = np.zeros(_CODES)
        """Jobs that wait now, by reason."""
        self._waited_ms = np.zeros(_CODES)

    def set_explained(self, rows: npt.NDArray[np.intp], waiting: Int64) -> None:
        """A round was explained; `waiting`: [rows, codes] jobs of the queues in `rows`."""
        self._jobs = waiting.sum(axis=0).astype(np.float64)
        total = waiting.sum(axis=1)
        some = total > 0
        self._parts[:] = 0.0
        self._parts[:, _NO_CAPACITY] = 1.0
        self._parts[rows[some]] = waiting[some] / total[some, None]

    def divide(self, queued: Int64) -> None:
        """Divide these queued jobs ([Q]) as in the last explained round."""
        self._jobs = queued @ self._parts

    def set_none(self) -> None:
        """No job waits that is able to start."""
        self._jobs = np.zeros(_CODES)

    def advance(self, elapsed_ms: int) -> None:
        """The jobs waited for this time."""
        self._waited_ms += self._jobs * elapsed_ms

    def waited_ms(self) -> dict[str, float]:
        """Reason code -> job-milliseconds of waiting, ascending."""
        named = {
            reason_texts.CODE_NAMES[engine.Code(code)]: waited
            for code, waited in enumerate(self._waited_ms.tolist())
            if waited
        }
        return dict(sorted(named.items()))
