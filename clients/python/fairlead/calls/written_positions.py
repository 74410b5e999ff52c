"""The positions of a client's submissions, so that its later reads include them."""

from typing import Final, TypeVar

from fairlead.calls import call_effects
from fairlead.calls.call_effects import Answer, Flow, Step

JOB_SETS_MAX: Final = 1_000

T = TypeVar("T")


class Writes:
    """The positions of the last submissions, by job set; of the `JOB_SETS_MAX` latest job sets."""

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str], str] = {}

    def record(self, wrote: call_effects.Wrote) -> None:
        """Record the position of a submission."""
        key = wrote.queue, wrote.job_set
        self._positions.pop(key, None)
        self._positions[key] = wrote.position
        if len(self._positions) > JOB_SETS_MAX:
            del self._positions[next(iter(self._positions))]

    def position(self, of: call_effects.Written) -> str | None:
        """The position that a read of this job set, or of any, has to include."""
        if of.job_set is None:
            return next(reversed(self._positions.values()), None)
        return self._positions.get(of.job_set)


def remembering(flow: Flow[T], writes: Writes) -> Flow[T]:
    """The same flow, whose `Wrote` and `Written` steps `writes` answers."""

    def remembered(step: Step) -> Flow[Answer]:
        match step:
            case call_effects.Wrote():
                writes.record(step)
                return None
            case call_effects.Written():
                return writes.position(step)
            case _:
                return (yield step)

    return call_effects.through(flow, remembered)
