"""A progress bar on a terminal for long simulations."""

from collections.abc import Callable
from typing import Final, Protocol

from fairlead_scheduler.simulate.output import text_summary

QUIET_S: Final = 1.0
"""Time before the first drawing; most simulations end before."""
EVERY_S: Final = 0.2
STEPS_PER_READING: Final = 64
"""Number of steps between two readings of the clock."""
WIDTH: Final = 30


class Screen(Protocol):
    """The output stream of a bar: standard error."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""

    def write(self, text: str, /) -> int:
        """Write text."""

    def flush(self) -> None:
        """Show the written text."""


class Bar:
    """Draws on a terminal; writes nothing to other streams."""

    def __init__(self, stream: Screen, clock_s: Callable[[], float]) -> None:
        self._stream, self._clock_s = stream, clock_s
        self._began_s = clock_s()
        self._drawn_s: float | None = None
        self._steps = 0
        self._on = stream.isatty()

    def __call__(self, done: int, jobs: int, now_ms: int) -> None:
        """Show that `done` of the jobs have ended at this virtual time."""
        self._steps += 1
        if not self._on or self._steps % STEPS_PER_READING:
            return
        now_s = self._clock_s()
        since_s = self._began_s + QUIET_S if self._drawn_s is None else self._drawn_s + EVERY_S
        if now_s >= since_s:
            self._drawn_s = now_s
            self._draw(done, jobs, now_ms, now_s - self._began_s)

    def _draw(self, done: int, jobs: int, now_ms: int, took_s: float) -> None:
        share = done / max(1, jobs)
        filled = round(WIDTH * share)
        left = (
            f", about {text_summary.format_duration(took_s / share - took_s)} left" if done else ""
        )
        simulated = text_summary.format_duration(now_ms / 1000)
        self._stream.write(
            f"\r\x1b[K{'█' * filled}{'░' * (WIDTH - filled)} {100 * share:3.0f} %  "
            f"{done:,} of {jobs:,} jobs, {simulated} simulated{left}"
        )
        self._stream.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._drawn_s is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn_s = None
