"""What a client wrote, so that what it reads afterwards has seen it without being told."""

from typing import Final, TypeVar

from fairlead import steps
from fairlead.steps import Answer, Flow, Step

JOB_SETS_MAX: Final = 1_000

T = TypeVar("T")


class Writes:
    """The position of the last submission to each of the job sets last submitted to."""

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str], str] = {}

    def note(self, wrote: steps.Wrote) -> None:
        """It is the last one now."""
        key = wrote.queue, wrote.job_set
        self._positions.pop(key, None)
        self._positions[key] = wrote.position
        if len(self._positions) > JOB_SETS_MAX:
            del self._positions[next(iter(self._positions))]

    def position(self, of: steps.Written) -> str | None:
        """The position that a read of this job set shall have seen, or of any, if none is named."""
        if of.job_set is None:
            return next(reversed(self._positions.values()), None)
        return self._positions.get(of.job_set)


def remembering(flow: Flow[T], writes: Writes) -> Flow[T]:
    """The same flow, whose steps about what was written are answered here."""

    def remembered(step: Step) -> Flow[Answer]:
        match step:
            case steps.Wrote():
                writes.note(step)
                return None
            case steps.Written():
                return writes.position(step)
            case _:
                return (yield step)

    return steps.through(flow, remembered)
