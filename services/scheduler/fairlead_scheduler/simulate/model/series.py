"""What was so when, in bounded memory: means over stretches of time that grow with it. Pure."""

from typing import Final

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
STRETCHES_MAX: Final = 1_200


class Series:
    """Weighted sums of a vector per stretch of time; two stretches become one when it gets long."""

    def __init__(self, width: int, from_ms: int, stretch_ms: int = 1_000) -> None:
        self.from_ms = from_ms
        self.stretch_ms = stretch_ms
        self._until_ms = from_ms
        self._sums = np.zeros((STRETCHES_MAX, width))

    def add(self, values: Float, until_ms: int) -> None:
        """The values were so from the last time until this one."""
        start, end = self._until_ms - self.from_ms, until_ms - self.from_ms
        if end <= start:
            return
        while end > STRETCHES_MAX * self.stretch_ms:
            self._halve()
        self._until_ms = until_ms
        width = self.stretch_ms
        first, last = start // width, (end - 1) // width
        if first == last:
            self._sums[first] += (end - start) * values
            return
        self._sums[first] += ((first + 1) * width - start) * values
        self._sums[last] += (end - last * width) * values
        self._sums[first + 1 : last] += width * values

    def count(self, at: int, value: float, now_ms: int) -> None:
        """Something happened now: it counts whole, whatever the time it took."""
        while now_ms - self.from_ms >= STRETCHES_MAX * self.stretch_ms:
            self._halve()
        self._sums[(now_ms - self.from_ms) // self.stretch_ms, at] += value

    def _halve(self) -> None:
        pairs = self._sums.reshape(STRETCHES_MAX // 2, 2, -1).sum(axis=1)
        self._sums[: len(pairs)] = pairs
        self._sums[len(pairs) :] = 0
        self.stretch_ms *= 2

    def sums(self) -> Float:
        """[stretches, width] values x ms, up to the last time."""
        used = -(-(self._until_ms - self.from_ms) // self.stretch_ms)
        return self._sums[: max(1, used)]

    def means(self) -> Float:
        """[stretches, width] means over each stretch (the last one may be shorter)."""
        sums = self.sums()
        lasted = np.full(len(sums), float(self.stretch_ms))
        lasted[-1] = max(1, self._until_ms - self.from_ms - (len(sums) - 1) * self.stretch_ms)
        means: Float = sums / lasted[:, None]
        return means

    def times_s(self) -> Float:
        """[stretches + 1] the bounds of the stretches, in seconds of virtual time."""
        count = len(self.sums())
        bounds = self.from_ms + np.arange(count + 1) * float(self.stretch_ms)
        bounds[-1] = max(self._until_ms, self.from_ms + 1)
        times: Float = bounds / 1000
        return times
