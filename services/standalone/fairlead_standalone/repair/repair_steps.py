"""The steps of `fairlead repair`. A repair that was interrupted is run again from the first step.

1. No scheduler leads: the repair holds the leader's lock and fences its producer.
2. Configuration: tables and log get what is newer on the other side.
3. If the log ends below positions that the views have read, its end moves beyond them, so that no
   event gets such a position. Jobs, groups and arrays that only the log has are appended again.
4. Lookout's view continues where the log does; missing events are noted. Both views are folded.
5. Jobs and groups that differ between the views are corrected by ordinary events, appended to the
   log.
6. Both views fold these events and are compared again. Only if they agree, the checkpoint continues
   where the log does.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from fairlead_common import db
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events
from fairlead_common.domain.repair_events import Choice, KnownGroup
from fairlead_common.log import Producer, Record, end_advance, topics
from fairlead_common.log.coverage import Gap, Mismatch
from fairlead_common.log.opening import open_log
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.topics import JOBS
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_lookout.service.recovery import Recovery as LookoutRecovery
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_scheduler.service import recovery
from fairlead_scheduler.service.recovery import Recovery as SchedulerRecovery
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_standalone.processes.process_output import Say
from fairlead_standalone.repair.comparison import (
    Comparison,
    Difference,
    make_records,
)
from fairlead_standalone.repair.comparison_steps import split_pages
from fairlead_standalone.repair.group_comparison import GroupDifference
from fairlead_standalone.repair.job_records import read_sequences
from fairlead_submit.service import configuration_repair as configuration
from fairlead_submit.service.configuration_repair import Disagreement
from fairlead_submit.store import schema as submit_store

LISTED_MAX: Final = 20
APPEND_BYTES: Final = 16 * 1024 * 1024
APPEND_RECORDS: Final = 10_000


class Findings(msgspec.Struct, frozen=True):
    """The differences that were found. `only_in_log`: jobs that a repair has appended again."""

    scheduler: Gap | None
    lookout: Gap | None
    configuration: Disagreement
    differences: list[Difference]
    groups: list[GroupDifference] = []
    only_in_log: list[JobId] = []

    @property
    def other_log(self) -> bool:
        """Whether a view belongs to another log: possibly only the address of the log is wrong."""
        gaps = (self.scheduler, self.lookout)
        return any(gap is not None and Mismatch.OTHER_LOG in gap.mismatches for gap in gaps)

    def __bool__(self) -> bool:
        gaps = self.scheduler or self.lookout
        return bool(gaps or self.configuration or self.differences or self.groups)

    def lines(self) -> Iterator[str]:
        """What is wrong and what a repair does about it, for people."""
        for gap in (self.scheduler, self.lookout):
            if gap is not None:
                yield gap.describe()
        if self.configuration:
            yield self.configuration.describe()
        for group in self.groups[:LISTED_MAX]:
            yield (
                f"group {group.group} ({group.queue}/{group.job_set}):"
                f" scheduler {_describe(group.scheduler)},"
                f" lookout {_describe(group.lookout)}: {group.action}"
            )
        if len(self.groups) > LISTED_MAX:
            yield f"... and {len(self.groups) - LISTED_MAX} more groups"
        if not self.differences:
            return
        yield f"The scheduler and lookout disagree about {_jobs(len(self.differences))}:"
        for action, count in sorted(Counter(each.action for each in self.differences).items()):
            yield f"  {_jobs(count)}: {action}"
        for each in self.differences[:LISTED_MAX]:
            yield (
                f"    {each.job_id} ({each.queue}/{each.job_set}):"
                f" scheduler {each.scheduler.state or 'does not know it'},"
                f" lookout {each.lookout.state or 'does not know it'}: {each.action}"
            )
        if len(self.differences) > LISTED_MAX:
            yield f"    ... and {len(self.differences) - LISTED_MAX} more"


def _describe(group: KnownGroup | None) -> str:
    return "does not know it" if group is None else str(group.state)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


class NotSettled(WorldError):
    """The views still disagree after a repair."""


class Repair:
    """A log and the views of it in one database."""

    def __init__(
        self,
        log: ValidatingLog,
        pool: db.Pool,
        scheduler: SchedulerSettings,
        lookout: LookoutSettings,
    ) -> None:
        self._log = log
        self._pool = pool
        self._rules = scheduler.rules
        self._settings = lookout

    @classmethod
    @asynccontextmanager
    async def open(
        cls, scheduler: SchedulerSettings, lookout: LookoutSettings
    ) -> AsyncIterator["Repair"]:
        """Connect, and migrate schemas and topics."""
        pool = await db.open_pool(
            scheduler.database_url, connect_s_max=30.0, name="fairlead-repair"
        )
        try:
            log = ValidatingLog(await open_log(scheduler.log_url), Quarantine(end_advance.BY))
            try:
                for topic in (topics.jobs(), topics.clusters(), topics.config(), topics.reports()):
                    await log.create(topic)
                await submit_store.migrate(pool)
                await recovery.migrate_schema(pool)
                yield cls(log, pool, scheduler, lookout)
            finally:
                await log.close()
        finally:
            await pool.close()

    async def examine(self) -> Findings:
        """What is wrong, as far as that can be seen without writing; services can run meanwhile.

        A view that cannot follow its log is compared as it is.
        """
        lookout = await LookoutRecovery.load(self._log, self._pool, self._settings)
        scheduler = await SchedulerRecovery.load(self._log, self._pool, self._rules)
        end = await self._log.end_positions(JOBS)
        scheduler.cap(end)
        if lookout.gap is None:
            await lookout.fold(end)
        await scheduler.fold(end)
        await scheduler.read_leases()
        return Findings(
            scheduler.gap,
            lookout.gap or lookout.unrepaired,
            await configuration.find_disagreement(self._pool, self._log),
            *await Comparison(scheduler, lookout).run(),
        )

    async def run(self, say: Say) -> Findings:
        """Repair everything; returns what was repaired. Raises `SchedulerLeads`, `NotSettled`."""
        async with recovery.hold_leadership(self._pool):
            producer = await self._log.producer(recovery.PRODUCER)
            disagreement = await configuration.find_disagreement(self._pool, self._log)
            await configuration.repair(self._pool, disagreement)
            lookout = await LookoutRecovery.load(self._log, self._pool, self._settings)
            scheduler = await SchedulerRecovery.load(self._log, self._pool, self._rules)
            only_in_log = await self._skip_positions(producer, scheduler, lookout)
            await lookout.relocate()
            await self._fold(scheduler, lookout)
            await scheduler.read_leases()
            comparison = Comparison(scheduler, lookout)
            differences = await comparison.run()
            await _append(producer, make_records(differences))
            await self._fold(scheduler, lookout)
            left = await comparison.run()
            if any(left):
                found = Findings(None, None, Disagreement([], [], 0, 0), *left)
                raise NotSettled("\n".join(["After the repair:", *found.lines()]))
            if scheduler.gap is not None:
                await scheduler.relocate()
            await lookout.settle()
            say("Lookout and the scheduler agree about every job and group.")
            return Findings(
                scheduler.gap,
                lookout.gap or lookout.unrepaired,
                disagreement,
                *differences,
                only_in_log,
            )

    async def _fold(self, scheduler: SchedulerRecovery, lookout: LookoutRecovery) -> None:
        end = await self._log.end_positions(JOBS)
        await lookout.fold(end)
        await scheduler.fold(end)

    async def _skip_positions(
        self, producer: Producer, scheduler: SchedulerRecovery, lookout: LookoutRecovery
    ) -> list[JobId]:
        """Move the end of the log beyond all views, and append again what only the log has; returns
        the jobs of that."""
        end = await self._log.end_positions(JOBS)
        read = [scheduler.start, await lookout.positions()]
        targets = {n: max(at.get(n, 0) for at in read) for n in end}
        short = {n for n, at in targets.items() if at > end[n]}
        if not short:
            return []
        unknown = await self._only_in_log(short, end, scheduler, lookout)
        await end_advance.advance_end(self._log.inner, producer, targets)
        await _append(producer, unknown.records)
        return unknown.ids

    async def _only_in_log(
        self,
        partitions: set[int],
        end: Mapping[int, int],
        scheduler: SchedulerRecovery,
        lookout: LookoutRecovery,
    ) -> "_OnlyInLog":
        """Jobs, groups and arrays submitted below positions that the views have read, and unknown
        to both views."""
        jobs: dict[JobId, None] = {}
        others: dict[JobId, None] = {}
        async for _, sequence in read_sequences(self._log, partitions, end):
            for event in sequence.events:
                match event:
                    case events.JobSubmitted():
                        jobs[event.job_id] = None
                    case events.GroupSubmitted():
                        others[JobId(event.group)] = None
                    case events.ArraySubmitted():
                        others[JobId(event.array)] = None
        ids = [*jobs, *others]
        known: set[JobId] = set()
        for some in split_pages(ids, APPEND_RECORDS):
            known |= await scheduler.find_known(some) | await lookout.find_known(some)
        unknown = set(ids) - known
        records: list[Record] = []
        if not unknown:
            return _OnlyInLog([], [])
        async for entry, sequence in read_sequences(self._log, partitions, end):
            about = [event for event in sequence.events if _find_subject(event) in unknown]
            if about:
                records += events.records(
                    sequence.queue, sequence.job_set, sequence.by, about, partition=entry.partition
                )
        return _OnlyInLog([job_id for job_id in jobs if job_id in unknown], records)


def _find_subject(event: events.AnyEvent) -> JobId | None:
    """The id of the job, group or array that the event is about; None if it is about others."""
    match event:
        case events.JobEvent():
            return event.job_id
        case events.GroupEvent():
            return JobId(event.group)
        case events.ArrayEvent():
            return JobId(event.array)
        case _:
            return None


class _OnlyInLog(msgspec.Struct, frozen=True):
    ids: list[JobId]
    records: list[Record]


async def _append(producer: Producer, records: list[Record]) -> None:
    """Append the records in their order, in appends of limited size."""
    pending: list[Record] = []
    size = 0
    for record in records:
        if len(pending) >= APPEND_RECORDS or size >= APPEND_BYTES:
            await producer.append(pending)
            pending, size = [], 0
        pending.append(record)
        size += len(record.value or b"")
    if pending:
        await producer.append(pending)


def list_closed_jobs(findings: Findings) -> list[Difference]:
    """The jobs that were closed because their real end is unknown."""
    return [each for each in findings.differences if each.choice is Choice.END_UNKNOWN]
