"""The smallest events and messages that show something, and a view kept in plain dictionaries."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import shapes
from fairlead_lookout.domain import view_fold
from fairlead_lookout.domain.bulk_requests import find_bulk_filters
from fairlead_lookout.domain.model import (
    Changes,
    JobSet,
    JobSetKey,
    Message,
    Run,
    RunKey,
    StoredRecords,
)
from fairlead_lookout.domain.webhooks.webhook_types import EventFilter, Webhook
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.fold.fold_cache import FoldCache

QUEUE = "q"
JOB_SET = "s"
SHAPE = shapes.encode(shapes.Shape({"cpu": 1000}))
SPEC = msgspec.Raw(b'{"containers":[]}')


def make_webhook(**fields: object) -> Webhook:
    """A webhook for all events, without secrets; `fields` are those of `Webhook`."""
    plain = Webhook(
        number=1,
        name="hook",
        version=1,
        url="",
        filter=EventFilter(),
        format="fairlead",
        ordered=False,
        concurrency=1,
        headers={},
        secrets=(),
        enabled=True,
        disabled=None,
        failing_ms=None,
        succeeded_ms=None,
        changed_ms=0,
        by="anna",
    )
    return msgspec.structs.replace(plain, **fields)


def job_id(name: str, job_set: str = JOB_SET, queue: str = QUEUE) -> ids.JobId:
    """The id that a job of this name has."""
    return ids.client_job_id(ids.job_set_partition(queue, job_set), queue, job_set, name)


def submitted(name: str, job_set: str = JOB_SET, **fields: object) -> events.JobSubmitted:
    """A submission that says no more than it must."""
    return msgspec.structs.replace(
        events.JobSubmitted(
            job_id=job_id(name, job_set), shape=SHAPE, spec=SPEC, digest="d", client_id=name
        ),
        **fields,
    )


def leased(name: str, run: int = 1, node: str = "n0", job_set: str = JOB_SET) -> events.AnyEvent:
    """The scheduler gave it a node of the cluster `e`."""
    return events.JobRunLeased(job_id=job_id(name, job_set), run=run, executor="e", node=node)


def pending(name: str, run: int = 1) -> events.AnyEvent:
    """The executor took it up."""
    return events.JobRunPending(job_id=job_id(name), run=run)


def running(name: str, run: int = 1) -> events.AnyEvent:
    """Its command started."""
    return events.JobRunRunning(job_id=job_id(name), run=run)


def failed_run(name: str, run: int = 1) -> events.AnyEvent:
    """Its command ended with exit code 3."""
    return events.JobRunFailed(
        job_id=job_id(name),
        run=run,
        category=events.FailureCategory.EXIT_CODE,
        reason="exit code 3",
        exit_code=3,
    )


def failed(name: str) -> events.AnyEvent:
    """The scheduler decided that it failed."""
    return events.JobFailed(
        job_id=job_id(name),
        category=events.FailureCategory.EXIT_CODE,
        reason="exit code 3",
        exit_code=3,
    )


def resubmitted(old: str, new: str, job_set: str = JOB_SET) -> events.JobSubmitted:
    """A submission of a new job in place of an old one of the job set `s`."""
    return submitted(new, job_set, annotations={events.RESUBMITTED_FROM: job_id(old)})


def succeeded(name: str, run: int = 1) -> list[events.AnyEvent]:
    """Its command ended well, and the scheduler said so."""
    return [
        events.JobRunSucceeded(job_id=job_id(name), run=run),
        events.JobSucceeded(job_id=job_id(name)),
    ]


def requeued(name: str, reason: str = "again") -> events.AnyEvent:
    """The scheduler queued it again."""
    return events.JobRequeued(job_id=job_id(name), reason=reason, counted=True)


def cancel(name: str, reason: str = "enough") -> events.AnyEvent:
    """Somebody wants it gone."""
    return events.JobCancelRequested(job_id=job_id(name), reason=reason)


def message(
    position: int,
    *history: events.AnyEvent,
    job_set: str = JOB_SET,
    queue: str = QUEUE,
    by: str = "anna",
) -> Message:
    """A message at this position, taken by the log at 1,000,000 + position ms."""
    return Message(
        ids.job_set_partition(queue, job_set),
        position,
        1_000_000 + position,
        events.EventSequence(queue=queue, job_set=job_set, by=by, events=list(history)),
    )


def skip_folded(messages: Iterable[Message], positions: Mapping[int, int]) -> list[Message]:
    """The messages that a view at these positions has not folded yet."""
    return [each for each in messages if each.position >= positions.get(each.partition, 0)]


class PlainView:
    """A view without a database: what `apply` said, kept."""

    def __init__(self) -> None:
        self.cache = FoldCache(with_ended=True)
        self.older_runs: dict[RunKey, Run] = {}
        self.positions: dict[int, int] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.published: dict[JobSetKey, list[dict[str, object]]] = {}
        self.counted: Counter[tuple[str, str, str]] = Counter()
        self.used: Counter[tuple[Any, ...]] = Counter()
        self.lost: Counter[tuple[Any, ...]] = Counter()
        self.used_by_user: Counter[tuple[Any, ...]] = Counter()
        self.lost_by_user: Counter[tuple[Any, ...]] = Counter()
        self.arrays: dict[str, str] = {}

    def fold(self, *messages: Message) -> Changes:
        """Fold what was not folded yet, as one batch."""
        new = skip_folded(messages, self.positions)
        known = self.known(new)
        changes = view_fold.fold_messages(known, new)
        for queue, class_, state, change in table_rows.encode_queue_counts(known, changes):
            self.counted[queue, class_, state] += change
        for *place, used, lost in table_rows.encode_usage(changes):
            self.used[tuple(place)] += used
            self.lost[tuple(place)] += lost
        for *place, used, lost in table_rows.encode_user_usage(changes):
            self.used_by_user[tuple(place)] += used
            self.lost_by_user[tuple(place)] += lost
        for key, lines in changes.lines.items():
            self.published.setdefault(key, []).extend(
                msgspec.json.decode(line.json) for line in lines
            )
        for run_key, run in changes.older_runs.items():
            self.older_runs[run_key] = msgspec.structs.replace(run, new=False)
        self.arrays.update({row.array_id: row.submitted_by for row in changes.arrays.new})
        self.labels.update({name: said.labels for name, said in changes.submitted.items()})
        for _ in self.cache.apply(changes):
            pass
        for each in new:
            self.positions[each.partition] = each.position + 1
        return changes

    def known(self, messages: Sequence[Message]) -> StoredRecords:
        """What `apply` is given for these messages."""
        sets = dict(self.cache.job_sets)
        for each in messages:
            key = (each.sequence.queue, each.sequence.job_set)
            sets.setdefault(key, JobSet(len(sets), key, each.partition))
        candidates = {
            (each.partition, each.position): [
                job.id
                for job in self.cache.jobs.values()
                if sets[job.key].partition == each.partition
            ]
            for each, _ in find_bulk_filters(messages)
        }
        return StoredRecords(
            jobs=self.cache.jobs,
            job_sets=sets,
            older_runs=self.older_runs,
            candidates=candidates,
            labels=self.labels,
            requests=self.cache.requests,
            arrays=self.arrays,
        )

    @property
    def runs(self) -> dict[RunKey, Run]:
        """All runs of all jobs."""
        newest = {(job.id, job.run): job.latest for job in self.cache.jobs.values() if job.latest}
        return self.older_runs | newest

    def state(self, name: str) -> str:
        """The state of a job."""
        return self.cache.jobs[job_id(name)].state

    def types(self, job_set: str = JOB_SET) -> list[object]:
        """The types of the public events of a job set."""
        return [event["type"] for event in self.published.get((QUEUE, job_set), [])]

    def counts(self, job_set: str = JOB_SET) -> dict[str, int]:
        """Jobs by state."""
        return self.cache.job_sets[QUEUE, job_set].by_state()
