"""Submitting again: an action that is written down at once, and worked off in steps.

Which jobs it concerns is fixed in the transaction that makes the action. Any process may take the
next step: it holds the lock on the action's row, appends a batch, and notes how far it came; one
that dies in between leaves a batch that the next one appends again, under the same ids.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common import db
from fairlead_common.db.connection_pool import AWAY, REFUSES
from fairlead_common.domain import ids, position_tokens, timestamps
from fairlead_common.domain.errors import FieldError, WorldError
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobSubmitted
from fairlead_common.service.disk import Disk, Space
from fairlead_common.web.auth.queue_permissions import QueuePermissions
from fairlead_submit.domain import job_actions, name_rules, resubmission, validation
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.decoding import Decoder, invalid
from fairlead_submit.domain.request_types import Resubmission
from fairlead_submit.domain.resubmission import Around, Target
from fairlead_submit.service import metrics
from fairlead_submit.service.log_writer import Writer
from fairlead_submit.service.quotas import QuotaKeeper
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.service.validation_thread import Validator
from fairlead_submit.store import job_views as known
from fairlead_submit.store.configuration_store import Queues
from fairlead_submit.store.job_views import Known
from fairlead_submit.store.schema import SQL
from fairlead_submit.store.secret_store import Secrets

KIND: Final = "resubmit"
FAILED: Final = JOB_ENDED - {JobState.SUCCEEDED}
"""States of jobs that `failed` is about; of those that are CANCELLED only some."""
STEP_JOBS: Final = 1_000
STEP_BYTES: Final = 8 * 2**20
POLL_S: Final = 1.0
REFUSED_SHOWN: Final = 100
START_S_MAX: Final = 30.0
VIEW_S_MAX: Final = 10.0
"""How long the view is waited for: of jobs that it does not know yet none is submitted again."""
_event_decoder: Final = msgspec.json.Decoder(JobSubmitted)
_logger = logging.getLogger("fairlead.submit.resubmitting")


class Started(msgspec.Struct, frozen=True):
    """The answer to a resubmission: the action's id, and how many jobs it concerns."""

    action: str
    total: int


class Refused(msgspec.Struct, frozen=True):
    """A job that was not submitted again, and why."""

    id: str
    reason: str


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """How far an action is: `done` of `total` were dealt with, `made` of them submitted again.

    `position` is that of what was written until now; `refused` names the first that were not.
    """

    action: str
    kind: str
    queue: str
    job_set: str
    by: str
    state: str
    total: int
    done: int
    made: int
    refused: list[Refused]
    position: str
    created_at: str
    changed_at: str


class Resubmitting:
    """What the routes call, and the task that works."""

    def __init__(
        self,
        settings: SubmitSettings,
        pool: db.Pool,
        writer: Writer,
        queues: Queues,
        known: Known,
        rights: QueuePermissions,
        disk: Disk,
        validator: Validator,
        quotas: QuotaKeeper,
        queue_secrets: Secrets,
    ) -> None:
        self._quotas = quotas
        self._validator = validator
        self._limits = settings.limits
        self._classes = frozenset(item.name for item in settings.priority_classes)
        self._allow = settings.allow
        self._pool = pool
        self._writer = writer
        self._queues = queues
        self._known = known
        self._rights = rights
        self._disk = disk
        self._secrets = queue_secrets
        self._decoder = Decoder(Resubmission)
        self._came = asyncio.Event()

    async def start(self, body: bytes, context: RequestContext) -> Started:
        """Write the action down. Raises a `Problem` or `WorldError`."""
        request, found = await self._validator.decode(self._decoder, body)
        found = [*found, *validation.further(self._check(request), found)]
        queue = await self._target_queue(request, context, found)
        if found:
            raise invalid(found)
        if request.failed and request.filter is not None:
            request = msgspec.structs.replace(request, job_set=request.filter.job_set)
        assert queue is not None
        self._disk.check(Space.LOW)
        target = await self._queues.seen(queue, context.caller)
        if target is None:
            raise invalid([FieldError("/queue", f"{validation.shown(queue)} is no queue")])
        require_verb(context.caller, Verb.SUBMIT, target)
        try:
            with db.translate_errors():
                started = await self._write_down(request, queue, context)
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
            raise _no_view() from None
        self._came.set()
        return started

    async def progress(self, action: str, context: RequestContext) -> Progress:
        """How far the action is. Raises a 404 `Problem` where there is none for the caller."""
        with db.translate_errors():
            row = await self._pool.fetchrow(SQL["get_action"], action) if action.isalnum() else None
        if row is None or not await self._rights.is_permitted(context.caller, row["queue"]):
            raise Problem("not-found", f"There is no action {action[:80]!r}.")
        return Progress(
            action=action,
            kind=row["kind"],
            queue=row["queue"],
            job_set=row["job_set"],
            by=row["by_name"],
            state="DONE" if row["ended"] else "RUNNING",
            total=row["total"],
            done=row["done"],
            made=row["made"],
            refused=msgspec.json.decode(row["refused"], type=list[Refused]),
            position=position_tokens.encode(_positions(row)),
            created_at=timestamps.rfc3339(int(row["created_at"].timestamp() * 1000)),
            changed_at=timestamps.rfc3339(int(row["changed_at"].timestamp() * 1000)),
        )

    async def run(self) -> None:
        """Work off actions until cancelled, whoever started them."""
        while True:
            try:
                while await self.step():
                    pass
            except (*AWAY, *REFUSES, WorldError, asyncpg.UndefinedTableError) as error:
                _logger.warning("what is submitted again waits: %s", error)
            except Problem as error:
                if error.slug != "unavailable":
                    raise
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._came.wait()
            self._came.clear()

    def _check(self, request: Resubmission) -> list[FieldError]:
        found = job_actions.check_target(request.ids, request.filter, self._limits.ids_max)
        if request.failed:
            return found + _check_failed(request)
        if request.job_set is None:
            found.append(FieldError("/jobSet", "is missing"))
        elif detail := name_rules.job_set(request.job_set):
            found.append(FieldError("/jobSet", detail))
        if request.queue is not None and (detail := name_rules.queue(request.queue)):
            found.append(FieldError("/queue", detail))
        if request.client_id is not None and (detail := name_rules.printable(request.client_id)):
            found.append(FieldError("/clientId", detail))
        return found

    async def _target_queue(
        self, request: Resubmission, context: RequestContext, found: list[FieldError]
    ) -> str | None:
        """Where the new jobs belong; whoever asks sees the jobs that are to be submitted again."""
        if found:
            return None
        if request.filter is not None:
            source = await self._queues.seen(request.filter.queue, context.caller)
            if source is None:
                shown = validation.shown(request.filter.queue)
                found.append(FieldError("/filter/queue", f"{shown} is no queue"))
                return None
            chosen = job_actions.job_filter(request.filter)
            if not await self._known.has_caught_up(VIEW_S_MAX, chosen):
                raise _no_view()
            return request.queue or source.name
        assert request.ids is not None
        reach = await self._rights.find_scope(context.caller)
        named = [ids.job_id_of(text) for text in request.ids]
        jobs, is_certain = await self._known.settled_now(named)
        if not is_certain:
            raise _no_view()
        missing = [
            FieldError(f"/ids/{index}", f"there is no job {text}")
            for index, (text, job_id) in enumerate(zip(request.ids, named, strict=True))
            if job_id not in jobs or jobs[job_id].queue not in reach
        ]
        if missing:
            raise Problem(
                "not-found", "Some of these jobs do not exist; nothing was done.", missing
            )
        sources = {job.queue for job in jobs.values()}
        if request.queue is None and len(sources) > 1:
            found.append(FieldError("/queue", "is missing: the jobs are of several queues"))
            return None
        return request.queue or sources.pop()

    async def _write_down(
        self, request: Resubmission, queue: str, context: RequestContext
    ) -> Started:
        assert request.job_set is not None
        action = secrets.token_hex(16)
        if request.client_id is not None:
            action = resubmission.action_id(queue, request.job_set, request.client_id)
        digest = _digest(request)
        async with self._pool.acquire() as connection, connection.transaction():
            is_new = await connection.fetchval(
                SQL["insert_action"],
                action,
                KIND,
                queue,
                request.job_set,
                context.caller.name,
                context.request,
                context.traceparent,
                digest,
                bool(request.failed),
            )
            if not is_new:
                row = await connection.fetchrow(SQL["get_action"], action)
                if row["digest"] != digest:
                    detail = f"{validation.shown(request.client_id)} names another action: {action}"
                    raise Problem(
                        "conflict",
                        "A clientId is taken; nothing was done.",
                        [FieldError("/clientId", detail)],
                    )
                return Started(action, row["total"])
            total = await self._fix(connection, action, request)
            await self._quotas.check(queue, total, 0)
            await connection.execute(SQL["set_total"], action, total)
        return Started(action, total)

    async def _fix(self, connection: db.Connection, action: str, request: Resubmission) -> int:
        """Write down which jobs are concerned, and return how many."""
        if request.filter is None:
            named = list({ids.job_id_of(text) for text in request.ids or ()})
            done = await connection.execute(SQL["fix_named"], action, named)
            return _rows(done)
        states = FAILED if request.failed else frozenset(JobState)
        wanted = known.arguments(job_actions.job_filter(request.filter), states)
        most = self._limits.resubmitted_max
        done = await connection.execute(
            SQL["fix_found"],
            *wanted,
            most + 1,
            action,
            bool(request.failed),
            timeout=START_S_MAX,
        )
        if _rows(done) > most:
            detail = f"finds more than {most} jobs, which is as many as are allowed"
            raise invalid([FieldError("/filter", detail)])
        return _rows(done)

    async def step(self) -> bool:
        """Deal with the next jobs of an action; whether there was something to do."""
        async with self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(SQL["next_action"])
            if row is None:
                return False
            self._disk.check(Space.LOW)
            await self._advance(connection, row)
            return True

    async def _advance(self, connection: db.Connection, row: Mapping[str, Any]) -> None:
        """`Any`: a row of Postgres."""
        action: str = row["id"]
        target = Target(
            action,
            row["queue"],
            row["job_set"],
            ids.job_set_partition(row["queue"], row["job_set"]),
            self._allow.get(row["queue"]),
            row["keeps_client_ids"],
            await self._secrets.of(row["queue"]),
        )
        items = await connection.fetch(SQL["next_items"], action, row["done"], STEP_JOBS)
        step = _Step(target, self._classes)
        step.read(items)
        step.learn(
            await connection.fetch(SQL["gang_sizes"], action, step.gangs(), row["done"]),
            await connection.fetch(SQL["items_of"], action, step.awaited()),
            await self._known.jobs(step.awaited()),
        )
        made = step.made()
        reached = _positions(row)
        if made:
            records = events.records(
                target.queue,
                target.job_set,
                row["by_name"],
                made,
                request=row["request"],
                traceparent=row["traceparent"],
            )
            reached = position_tokens.merge(reached, await self._writer.append(records))
            metrics.JOBS.inc(len(made))
        if step.refused:
            await connection.execute(SQL["refuse_items"], action, list(step.refused))
        refused = msgspec.json.decode(row["refused"], type=list[Refused])
        refused = [*refused, *step.refused.values()][:REFUSED_SHOWN]
        await connection.execute(
            SQL["move_action"],
            action,
            step.last,
            len(made),
            msgspec.json.encode(reached).decode(),
            msgspec.json.encode(refused).decode(),
        )
        if step.last >= row["total"]:
            await connection.execute(SQL["forget_items"], action)


class _Step:
    """Some jobs of an action, on their way. `last` is the number of the last one dealt with."""

    def __init__(self, target: Target, classes: frozenset[str]) -> None:
        self._target = target
        self._classes = classes
        self._old: list[tuple[int, str | None, JobSubmitted]] = []
        self._members: dict[str, int] = {}
        self._before: Counter[str] = Counter()
        self._items: dict[str, bool] = {}
        self._ids: dict[str, ids.JobId] = {}
        self._succeeded: set[str] = set()
        self.refused: dict[int, Refused] = {}
        self.last = 0

    def read(self, rows: list[Mapping[str, Any]]) -> None:
        """Take as many as fit a step. `Any`: rows of Postgres."""
        size = 0
        for row in rows:
            text = row["submitted"]
            if size and size + len(text or b"") > STEP_BYTES:
                break
            self.last = row["number"]
            if text is None:
                self.refused[row["number"]] = Refused(row["job_id"], "what it was is forgotten")
                continue
            size += len(text)
            self._old.append((row["number"], row["gang"], _event_decoder.decode(text)))

    def gangs(self) -> list[str]:
        return list({gang for _, gang, _ in self._old if gang is not None})

    def awaited(self) -> list[str]:
        return list({job_id for _, _, old in self._old for job_id in old.after})

    def learn(
        self,
        sizes: list[Mapping[str, Any]],
        items: list[Mapping[str, Any]],
        jobs: Mapping[str, known.KnownJob],
    ) -> None:
        self._members = {row["gang"]: row["members"] for row in sizes}
        self._before = Counter({row["gang"]: row["before"] for row in sizes})
        self._items = {row["job_id"]: row["refused"] for row in items}
        self._ids = {row["job_id"]: self._new_id(row) for row in items}
        self._succeeded = {name for name, job in jobs.items() if job.state == JobState.SUCCEEDED}

    def _new_id(self, row: Mapping[str, Any]) -> ids.JobId:
        """The id of the job in the place of one that is waited for."""
        annotations = msgspec.json.decode(row["annotations"] or "{}", type=dict[str, str])
        client_id = resubmission.next_client_id(row["client_id"], annotations)
        return resubmission.new_id(self._target, row["job_id"], client_id)

    def made(self) -> list[JobSubmitted]:
        """The new jobs. One that waits for a refused one is refused as well."""
        made: list[JobSubmitted] = []
        for number, gang, old in self._old:
            name = gang or ""
            around = Around(
                self._members.get(name, 1),
                self._before[name],
                self._items,
                self._succeeded,
                self._ids,
            )
            self._before[name] += 1
            new = resubmission.again(old, self._target, around, self._classes)
            if isinstance(new, str):
                self.refused[number] = Refused(old.job_id, new)
                if old.job_id in self._items:
                    self._items[old.job_id] = True
            else:
                made.append(new)
        return made


def _check_failed(request: Resubmission) -> list[FieldError]:
    """What is wrong with a request for what failed in a job set."""
    chosen = request.filter
    if chosen is None:
        return [FieldError("/failed", "stands beside `ids`; it goes with a filter")]
    found = []
    if chosen.job_set is None:
        found.append(FieldError("/filter/jobSet", "is missing: `failed` is about one job set"))
    if chosen.states:
        found.append(FieldError("/filter/states", "stands beside `failed`; say one or the other"))
    if request.job_set not in (None, chosen.job_set):
        found.append(
            FieldError("/jobSet", "is not the filter's; `failed` keeps jobs in their job set")
        )
    if request.queue not in (None, chosen.queue):
        found.append(
            FieldError("/queue", "is not the filter's; `failed` keeps jobs in their queue")
        )
    if request.client_id is not None and (detail := name_rules.printable(request.client_id)):
        found.append(FieldError("/clientId", detail))
    return found


def _digest(request: Resubmission) -> str:
    text = msgspec.json.encode(request, order="deterministic")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _positions(row: Mapping[str, Any]) -> dict[int, int]:
    return msgspec.json.decode(row["positions"], type=dict[int, int])


def _rows(done: str) -> int:
    """How many rows a command inserted: the last word of what Postgres says."""
    return int(done.rpartition(" ")[2])


def _no_view() -> Problem:
    return Problem(
        "unavailable",
        "What there is to submit again cannot be told while the view of lookout lags or is away.",
        retry_after_s=5,
    )
