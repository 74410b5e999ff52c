"""The runs of each queue in the order in which they return, and its first queued job (R3). Pure.

Classes are not compared.
"""

import heapq
from array import array
from bisect import bisect_left

import numpy as np

from fairlead_scheduler.simulate.model.backlog import Int32
from fairlead_scheduler.simulate.model.trace import Trace


class JobLists:
    """Queues and jobs are indexes of the trace."""

    def __init__(self, trace: Trace) -> None:
        jobs, queues = len(trace), len(trace.queues)
        submit, priority = (
            np.frombuffer(column, np.int64) for column in (trace.submit_ms, trace.priority)
        )
        order = np.lexsort((np.arange(jobs), submit, -priority))
        place = np.empty(jobs, np.int32)
        place[order] = np.arange(jobs)
        self._jobs = array("i", order.astype(np.int32).tobytes())
        """Job by its place: greater priority, submission."""
        self._place = array("i", place.tobytes())
        self._trace = trace
        self._queued: list[list[int]] = [[] for _ in range(queues)]
        """Of each queue, a heap of places, also of jobs that are not queued any more."""
        self._is_queued = bytearray(jobs)
        self.first_queued: Int32 = np.full(queues, -1, np.int32)
        """[Q] the first queued job of each queue, -1 for none; always the same array."""
        self._keys: list[list[tuple[int, int, int]]] = [[] for _ in range(queues)]
        """Of each queue, the keys of its runs, ascending."""
        self._runs = [array("i") for _ in range(queues)]
        """Of each queue, its runs in the order of their keys."""
        self._in_order: Int32 | None = None

    def add_queued(self, job: int) -> None:
        """The job is queued."""
        self._is_queued[job] = True
        queue = self._trace.queue[job]
        heapq.heappush(self._queued[queue], self._place[job])
        self._find_first(queue)

    def remove_queued(self, job: int) -> None:
        """The job is not queued any more."""
        self._is_queued[job] = False
        self._find_first(self._trace.queue[job])

    def _find_first(self, queue: int) -> None:
        places = self._queued[queue]
        while places and not self._is_queued[self._jobs[places[0]]]:
            heapq.heappop(places)
        self.first_queued[queue] = self._jobs[places[0]] if places else -1

    def add_run(self, job: int, leased_ms: int) -> None:
        """The job has a run since this time."""
        queue, key = self._trace.queue[job], self._key(job, leased_ms)
        at = bisect_left(self._keys[queue], key)
        self._keys[queue].insert(at, key)
        self._runs[queue].insert(at, job)
        self._in_order = None

    def remove_run(self, job: int, leased_ms: int) -> None:
        """Its run ended."""
        queue = self._trace.queue[job]
        at = bisect_left(self._keys[queue], self._key(job, leased_ms))
        del self._keys[queue][at], self._runs[queue][at]
        self._in_order = None

    def _key(self, job: int, leased_ms: int) -> tuple[int, int, int]:
        return -self._trace.priority[job], leased_ms, self._place[job]

    def runs(self) -> Int32:
        """All runs by queue, and of each queue in their order."""
        if self._in_order is None:
            self._in_order = np.frombuffer(bytearray().join(self._runs), np.int32)
        return self._in_order
