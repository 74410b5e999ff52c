"""Reports as records of `fairlead.jobs`: one message per job set and turn."""

from collections.abc import Iterable, Mapping

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records import events as ev
from fairlead_common.log.protocol import Record
from fairlead_executor.reconcile import Report, Tell, Wanted


def records(executor: str, tells: Iterable[Tell], desired: Mapping[RunId, Wanted]) -> list[Record]:
    """The messages that tell all this, the events of each job set in their order."""
    by_set: dict[tuple[str, str], list[Report]] = {}
    for tell in tells:
        lease = desired[tell.run].lease
        by_set.setdefault((lease.queue, lease.job_set), []).append(tell.event)
    by = f"executor {executor}"
    made: list[Record] = []
    for (queue, job_set), events in by_set.items():
        made += ev.records(queue, job_set, by, events)
    return made
