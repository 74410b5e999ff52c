"""A time series in bounded memory: means over intervals whose length doubles when needed. Pure."""

from typing import Final

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
INTERVALS_MAX: Final = 1_200


class Series:
    """Time-weighted totals of a vector per interval; two intervals are merged when all are used."""

    def __init__(self, width: int, from_ms: int, interval_ms: int = 1_000) -> None:
        self.from_ms = from_ms
        self.interval_ms = interval_ms
        self._until_ms = from_ms
        self._totals = np.zeros((INTERVALS_MAX, width))

    def add(self, values: Float, until_ms: int) -> None:
        """Add the values that held from the last time until `until_ms`."""
        start, end = self._until_ms - self.from_ms, until_ms - self.from_ms
        if end <= start:
            return
        while end > INTERVALS_MAX * self.interval_ms:
            self._halve()
        self._until_ms = until_ms
        width = self.interval_ms
        first, last = start // width, (end - 1) // width
        if first == last:
            self._totals[first] += (end - start) * values
            return
        self._totals[first] += ((first + 1) * width - start) * values
        self._totals[last] += (end - last * width) * values
        self._totals[first + 1 : last] += width * values

    def find_interval(self, at_ms: int, merged: int) -> int:
        """When the interval of this time begins, in ms from the start, if this number of intervals
        were merged."""
        width_ms = merged * self.interval_ms
        return (at_ms - self.from_ms) // width_ms * width_ms

    def count(self, at: int, value: float, now_ms: int) -> None:
        """Add a value at a point in time, without a duration."""
        while now_ms - self.from_ms >= INTERVALS_MAX * self.interval_ms:
            self._halve()
        self._totals[(now_ms - self.from_ms) // self.interval_ms, at] += value

    def _halve(self) -> None:
        pairs = self._totals.reshape(INTERVALS_MAX // 2, 2, -1).sum(axis=1)
        self._totals[: len(pairs)] = pairs
        self._totals[len(pairs) :] = 0
        self.interval_ms *= 2

    def totals(self) -> Float:
        """[intervals, width] values x ms, up to the last time."""
        used = -(-(self._until_ms - self.from_ms) // self.interval_ms)
        return self._totals[: max(1, used)]

    def means(self) -> Float:
        """[intervals, width] means over each interval (the last one may be shorter)."""
        totals = self.totals()
        lasted = np.full(len(totals), float(self.interval_ms))
        lasted[-1] = max(1, self._until_ms - self.from_ms - (len(totals) - 1) * self.interval_ms)
        means: Float = totals / lasted[:, None]
        return means

    def times_s(self) -> Float:
        """[intervals + 1] the bounds of the intervals, in seconds of virtual time."""
        count = len(self.totals())
        bounds = self.from_ms + np.arange(count + 1) * float(self.interval_ms)
        bounds[-1] = max(self._until_ms, self.from_ms + 1)
        times: Float = bounds / 1000
        return times
