"""Whether a log still has what comes next for a view: compared when the view opens. Pure.

A view stores the identity of its log and, for each partition, the position to read next. That
position must lie between the start and the end of the partition, else events are missing or the
log is not the one that the view was folded from.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.log.protocol import EventLog

PARTITIONS_LISTED_MAX: Final = 5
WHAT_TO_DO: Final = (
    "Run `fairlead repair --dry-run` to see what is affected, then `fairlead repair`;"
    " see docs/operating.md, section 'A view is older than the log'."
)


class Mismatch(StrEnum):
    """How a view and the log disagree."""

    EXPIRED = "expired"
    """Events that the view has not folded are no longer in the log."""
    MISSING = "missing"
    """There is no view, and the log no longer begins with its first event."""
    AHEAD = "ahead"
    """The view has folded events that the log does not have: the log is older than the view."""
    OTHER_LOG = "other-log"
    """The view was folded from a log with another identity."""


class Span(msgspec.Struct, frozen=True):
    """One partition: the position that the view reads next, and what the log has."""

    position: int
    start: int
    end: int


class Gap(msgspec.Struct, frozen=True):
    """Why a view cannot follow its log. `partitions`: only the affected ones."""

    view: str
    mismatches: tuple[Mismatch, ...]
    partitions: dict[int, Span]
    view_log: str = ""
    log: str = ""

    @property
    def missing(self) -> dict[int, Span]:
        """The partitions whose next events for the view are not in the log any more."""
        if Mismatch.OTHER_LOG in self.mismatches:
            return {}
        return {n: span for n, span in self.partitions.items() if span.position < span.start}

    def describe(self) -> str:
        """What happened, to which view and partitions, and what is missing: sentences."""
        sentences = []
        for mismatch in self.mismatches:
            match mismatch:
                case Mismatch.OTHER_LOG:
                    sentences.append(
                        f"The {self.view} belongs to the log {self.view_log}, but the configured"
                        f" log is {self.log}. Either FAIRLEAD_LOG_URL names the wrong log, or the"
                        " log was lost and created again."
                    )
                case Mismatch.EXPIRED:
                    sentences.append(
                        f"The {self.view} is older than the log: in {self._where(mismatch)} the log"
                        " no longer has the events that the view reads next. They were removed by"
                        " the log's retention, because the view was not updated for longer than"
                        " that or was restored from an old backup."
                    )
                case Mismatch.MISSING:
                    sentences.append(
                        f"The {self.view} is empty, but the log no longer begins with its first"
                        f" event in {self._where(mismatch)}. Jobs that were submitted before the"
                        " start of the log are unknown to it."
                    )
                case Mismatch.AHEAD:
                    sentences.append(
                        f"The {self.view} has folded more than the log has in"
                        f" {self._where(mismatch)}: the log was restored from an older backup, or"
                        " its records were deleted."
                    )
        return " ".join(sentences)

    def _where(self, mismatch: Mismatch) -> str:
        ahead = mismatch is Mismatch.AHEAD
        found = [
            (number, span)
            for number, span in sorted(self.partitions.items())
            if (span.position > span.end) == ahead
        ]
        listed = "; ".join(
            f"partition {number}: the view reads {span.position} next, the log has {span.start} to"
            f" {span.end}"
            for number, span in found[:PARTITIONS_LISTED_MAX]
        )
        rest = len(found) - PARTITIONS_LISTED_MAX
        count = "1 partition" if len(found) == 1 else f"{len(found)} partitions"
        return f"{count} ({listed}{f'; and {rest} more' if rest > 0 else ''})"


class ViewUnusable(WorldError):
    """A view cannot follow its log. Nothing is lost by waiting; a person has to run the repair."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(f"{gap.describe()} {WHAT_TO_DO}")
        self.gap = gap


class LogState(msgspec.Struct, frozen=True):
    """A log's identity, and where each partition of a topic starts and ends."""

    identity: str
    start: Mapping[int, int]
    end: Mapping[int, int]


async def read_log_state(log: EventLog, topic: str) -> LogState:
    """The state of a topic now. Raises `LogUnavailable`."""
    return LogState(
        await log.identity(), await log.start_positions(topic), await log.end_positions(topic)
    )


def compare(view: str, saved: tuple[str, Mapping[int, int]] | None, state: LogState) -> Gap | None:
    """None if the view can follow the log. `saved`: the view's log and positions, if it has any."""
    identity, positions = (state.identity, {}) if saved is None else saved
    spans = {
        number: Span(positions.get(number, 0), state.start[number], end)
        for number, end in state.end.items()
    }
    if identity != state.identity:
        return Gap(view, (Mismatch.OTHER_LOG,), spans, identity, state.identity)
    affected = {n: s for n, s in spans.items() if not s.start <= s.position <= s.end}
    mismatches: list[Mismatch] = []
    if any(span.position < span.start for span in affected.values()):
        mismatches.append(Mismatch.EXPIRED if positions else Mismatch.MISSING)
    if any(span.position > span.end for span in affected.values()):
        mismatches.append(Mismatch.AHEAD)
    return Gap(view, tuple(mismatches), affected, identity, state.identity) if mismatches else None
