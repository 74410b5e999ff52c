"""The runs of a job over time as an SVG, computed here so that pages need no script."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

import msgspec

from fairlead_common.domain import timestamps
from fairlead_lookout.http.responses.job_responses import JobDetailResponse, RunResponse

RUNS_MAX: Final = 12
"""The newest runs are drawn."""
NOW_STEP_MS: Final = 10_000
"""A live job is drawn up to a multiple of this, so that its picture changes no more often."""
PERCENT: Final = 100.0


class TimelineSegment(msgspec.Struct, frozen=True):
    """A part of a run in one state: x and width in percent, duration in ms."""

    state: str
    x: float
    width: float
    duration_ms: float


class RunLane(msgspec.Struct, frozen=True):
    """The segments of one run, in order."""

    run: int
    segments: list[TimelineSegment]


class Timeline(msgspec.Struct, frozen=True):
    """The newest runs of a job, the oldest of them first. `earlier`: runs that are not drawn.

    `begin` and `end`: the times at its edges.
    """

    lanes: list[RunLane]
    duration_ms: float
    earlier: int
    begin: str
    end: str

    @property
    def states(self) -> list[str]:
        """The states that are drawn, in the order in which they first occur."""
        return list(dict.fromkeys(part.state for lane in self.lanes for part in lane.segments))


def draw_timeline(job: JobDetailResponse, now_ms: int) -> Timeline:
    """The runs of a job from its submission to its end, or to now."""
    runs = sorted(job.runs, key=lambda run: run.run)
    drawn = runs[-RUNS_MAX:]
    earlier = runs[: -len(drawn)] if drawn else []
    begin_ms = _to_ms(earlier[-1].ended) if earlier and earlier[-1].ended else _to_ms(job.submitted)
    now_ms = -(-now_ms // NOW_STEP_MS) * NOW_STEP_MS
    end_ms = max(_to_ms(job.ended) if job.ended else now_ms, begin_ms + 1)
    lanes = []
    waited_from_ms = begin_ms
    for run in drawn:
        points = _list_changes(run, waited_from_ms, end_ms)
        lanes.append(RunLane(run.run, _draw_segments(points, begin_ms, end_ms)))
        waited_from_ms = points[-1][1]
    times = (timestamps.rfc3339(round(begin_ms)), timestamps.rfc3339(round(end_ms)))
    return Timeline(lanes, end_ms - begin_ms, len(earlier), *times)


def _list_changes(
    run: RunResponse, waited_from_ms: float, end_ms: float
) -> Sequence[tuple[str, float]]:
    """(State, time at which it ended) in order, from the time at which the job began to wait."""
    times = [
        ("queued", run.leased),
        ("leased", run.pending),
        ("pending", run.running),
    ]
    changes = [(state, _to_ms(time)) for state, time in times if time is not None]
    last = run.state.lower()
    ended_ms = _to_ms(run.ended) if run.ended else end_ms
    if run.running is None and run.ended is not None:
        last = "pending" if run.pending else "leased"  # it ended before its command began
    return [("", waited_from_ms), *changes, (last, ended_ms)]


def _draw_segments(
    changes: Sequence[tuple[str, float]], begin_ms: float, end_ms: float
) -> list[TimelineSegment]:
    scale = PERCENT / (end_ms - begin_ms)
    segments = []
    for (_, from_ms), (state, to_ms) in pairwise(changes):
        if to_ms > from_ms:
            segments.append(
                TimelineSegment(
                    state=state,
                    x=round((from_ms - begin_ms) * scale, 3),
                    width=round((to_ms - from_ms) * scale, 3),
                    duration_ms=to_ms - from_ms,
                )
            )
    return segments


def _to_ms(time: str) -> float:
    return 1000 * datetime.fromisoformat(time).timestamp()
