"""Resubmission: an action that is stored at once, and carried out in steps.

The transaction that creates the action also stores which jobs it is about. Any process can take the
next step: it locks the row of the action, appends a batch, and stores its progress. If the process
is killed in between, the next one appends the same batch again, with the same ids.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

import asyncpg
import msgspec

from fairlead_common import db
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, REFUSAL_ERRORS
from fairlead_common.domain import ids, position_tokens, timestamps
from fairlead_common.domain.errors import FieldError, WorldError
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobSubmitted
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.log.append_limits import count_value_bytes
from fairlead_common.service.disk import Disk, Space
from fairlead_common.web.auth.queue_permissions import QueuePermissions
from fairlead_submit.domain import name_rules
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.jobs import job_actions, resubmission
from fairlead_submit.domain.request_types import Resubmission
from fairlead_submit.service import metrics
from fairlead_submit.service.fair_validation import FairValidation
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.service.writers.log_writer import LogWriter
from fairlead_submit.service.writers.quotas import QuotaTracker
from fairlead_submit.service.writers.view_window import ViewWindow
from fairlead_submit.store import job_views, resubmission_store
from fairlead_submit.store.configuration_store import QueueStore
from fairlead_submit.store.job_views import JobViews
from fairlead_submit.store.resubmission_store import (
    Action,
    Dependency,
    GangSize,
    Item,
    NewAction,
    RefusedJob,
)
from fairlead_submit.store.secret_store import SecretStore

KIND: Final = "resubmit"
FAILED: Final = JOB_ENDED - {JobState.SUCCEEDED}
"""The states that `failed` selects; of CANCELLED jobs only some."""
DRY_RUN_JOB_SET: Final = "dry-run"
STEP_JOBS: Final = 1_000
STEP_BYTES: Final = 8 * 2**20
POLL_S: Final = 1.0
REFUSED_LISTED_MAX: Final = 100
VIEW_S_MAX: Final = 10.0
"""The longest wait for the view: jobs that it does not have yet are not resubmitted."""
_event_decoder: Final = msgspec.json.Decoder(JobSubmitted)
_logger = logging.getLogger("fairlead.submit.resubmitting")


class _Undone(Exception):
    """Undoes the transaction of a dry run, which selected this many jobs."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self.total = total


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """The progress of an action: `done` of `total` jobs were processed, `made` of them resubmitted.

    `position`: of everything written so far; `refused`: the first jobs that were not resubmitted.
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
    refused: list[RefusedJob]
    position: str
    created_at: str
    changed_at: str


class ResubmissionService:
    """Starts actions, reports their progress, and carries them out in a loop (`run`)."""

    def __init__(
        self,
        settings: SubmitSettings,
        pool: db.Pool,
        writer: LogWriter,
        queues: QueueStore,
        views: JobViews,
        permissions: QueuePermissions,
        disk: Disk,
        validation: FairValidation,
        quotas: QuotaTracker,
        window: ViewWindow,
        queue_secrets: SecretStore,
    ) -> None:
        self._quotas = quotas
        self._window = window
        self._validation = validation
        self._limits = settings.limits
        self._classes = frozenset(item.name for item in settings.priority_classes)
        self._allow = settings.allow
        self._pool = pool
        self._writer = writer
        self._queues = queues
        self._job_views = views
        self._permissions = permissions
        self._disk = disk
        self._secrets = queue_secrets
        self._decoder = Decoder(Resubmission)
        self._new_action = asyncio.Event()

    async def start(
        self, body: bytes, context: RequestContext, *, dry_run: bool = False
    ) -> resubmission.ResubmissionResponse | resubmission.ResubmissionDryRun:
        """Store the action. Raises a `Problem` or `WorldError`.

        A dry run does the same and undoes it, so it counts exactly the jobs that would be selected.
        It needs no name of the new job set.
        """
        request, found = await self._validation.decode(self._decoder, body)
        if dry_run and request.job_set is None and not request.failed:
            request = msgspec.structs.replace(request, job_set=DRY_RUN_JOB_SET)
        found = [*found, *validation.without_implied(self._check(request), found)]
        queue = await self._target_queue(request, context, found)
        if found:
            raise validation_problem(found)
        if request.failed and request.filter is not None:
            request = msgspec.structs.replace(request, job_set=request.filter.job_set)
        assert queue is not None
        self._disk.check(Space.LOW)
        target = await self._queues.get_visible(queue, context.caller)
        if target is None:
            raise validation_problem(
                [FieldError("/queue", f"{validation.quote(queue)} does not exist")]
            )
        require_verb(context.caller, Verb.SUBMIT, target)
        try:
            with db.translate_errors():
                started = await self._store_action(request, queue, context, dry_run=dry_run)
        except _Undone as undone:
            return resubmission.ResubmissionDryRun(undone.total)
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
            raise _view_unavailable() from None
        self._new_action.set()
        return started

    async def progress(self, action: str, context: RequestContext) -> Progress:
        """The progress of an action. Raises a 404 `Problem` if none is visible to the caller."""
        with db.translate_errors():
            found = None
            if action.isalnum():
                found = await resubmission_store.find_action(self._pool, action)
        if found is None or not await self._permissions.can_view(context.caller, found.queue):
            raise Problem("not-found", f"Action {action[:80]!r} does not exist.")
        return Progress(
            action=action,
            kind=found.kind,
            queue=found.queue,
            job_set=found.job_set,
            by=found.by,
            state="DONE" if found.ended else "RUNNING",
            total=found.total,
            done=found.done,
            made=found.made,
            refused=found.refused,
            position=position_tokens.encode(found.positions),
            created_at=timestamps.rfc3339(found.created_ms),
            changed_at=timestamps.rfc3339(found.changed_ms),
        )

    async def run(self) -> None:
        """Carry out actions, of any process, until cancelled."""
        while True:
            try:
                while await self.step():
                    pass
            except (
                *CONNECTION_ERRORS,
                *REFUSAL_ERRORS,
                WorldError,
                asyncpg.UndefinedTableError,
                asyncpg.UndefinedColumnError,
            ) as error:
                _logger.warning("resubmission is waiting: %s", error)
            except Problem as error:
                if error.slug != "unavailable":
                    raise
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._new_action.wait()
            self._new_action.clear()

    def _check(self, request: Resubmission) -> list[FieldError]:
        found = job_actions.check_target(request.ids, request.filter, self._limits.ids_max)
        if request.failed:
            return found + _check_failed_only(request)
        if request.job_set is None:
            found.append(FieldError("/jobSet", "is missing"))
        elif detail := name_rules.check_job_set_name(request.job_set):
            found.append(FieldError("/jobSet", detail))
        if request.queue is not None and (detail := name_rules.check_name(request.queue)):
            found.append(FieldError("/queue", detail))
        if request.client_id is not None and (
            detail := name_rules.check_printable(request.client_id)
        ):
            found.append(FieldError("/clientId", detail))
        return found

    async def _target_queue(
        self, request: Resubmission, context: RequestContext, found: list[FieldError]
    ) -> str | None:
        """The queue of the new jobs, if the caller is permitted to view the old ones."""
        if found:
            return None
        if request.filter is not None:
            source = await self._queues.get_visible(request.filter.queue, context.caller)
            if source is None:
                name = validation.quote(request.filter.queue)
                found.append(FieldError("/filter/queue", f"{name} does not exist"))
                return None
            chosen = job_actions.make_job_filter(request.filter)
            if not await self._job_views.wait_until_current(VIEW_S_MAX, chosen):
                raise _view_unavailable()
            return request.queue or source.name
        assert request.ids is not None
        scope = await self._permissions.find_scope(context.caller)
        named = await self._job_views.choose_ids(request.ids)
        jobs, is_certain = await self._job_views.wait_for_current_jobs(named)
        if not is_certain:
            raise _view_unavailable()
        missing = [
            FieldError(f"/ids/{index}", f"job {text} does not exist")
            for index, (text, job_id) in enumerate(zip(request.ids, named, strict=True))
            if job_id not in jobs or jobs[job_id].queue not in scope
        ]
        if missing:
            raise Problem(
                "not-found",
                "Some of these jobs do not exist, as listed in `errors`. Nothing was changed.",
                missing,
            )
        sources = {job.queue for job in jobs.values()}
        if request.queue is None and len(sources) > 1:
            found.append(
                FieldError(
                    "/queue", "is missing; it is required because the jobs are of several queues"
                )
            )
            return None
        return request.queue or sources.pop()

    async def _store_action(
        self, request: Resubmission, queue: str, context: RequestContext, *, dry_run: bool
    ) -> resubmission.ResubmissionResponse:
        assert request.job_set is not None
        action = secrets.token_hex(16)
        if request.client_id is not None:
            action = resubmission.make_action_id(queue, request.job_set, request.client_id)
        digest = _make_digest(request)
        async with self._pool.acquire() as connection, connection.transaction():
            new_action = NewAction(
                id=action,
                kind=KIND,
                queue=queue,
                job_set=request.job_set,
                by=context.caller.name,
                request=context.request,
                traceparent=context.traceparent,
                digest=digest,
                keeps_client_ids=bool(request.failed),
                memory_factor=request.memory_factor or 1.0,
            )
            if not await resubmission_store.insert_action(connection, new_action):
                earlier = await resubmission_store.find_action(connection, action)
                assert earlier is not None
                if earlier.digest != digest:
                    client_id = validation.quote(request.client_id)
                    detail = f"{client_id} is the clientId of another action, {action}"
                    raise Problem(
                        "conflict",
                        "The clientId is used by another action. Nothing was changed.",
                        [FieldError("/clientId", detail)],
                    )
                return resubmission.ResubmissionResponse(action, earlier.total)
            total = await self._store_items(connection, action, request)
            await self._quotas.check(queue, total, 0)
            if dry_run:
                raise _Undone(total)
            await resubmission_store.set_total(connection, action, total)
        return resubmission.ResubmissionResponse(action, total)

    async def _store_items(
        self, connection: db.Connection, action: str, request: Resubmission
    ) -> int:
        """Store the jobs of the action, and return their number."""
        if request.filter is None:
            named = set(await self._job_views.choose_ids(request.ids or ()))
            return await resubmission_store.insert_named_items(connection, action, named)
        states = FAILED if request.failed else frozenset(JobState)
        wanted = job_views.make_arguments(job_actions.make_job_filter(request.filter), states)
        most = self._limits.resubmitted_max
        count = await resubmission_store.insert_found_items(
            connection, action, wanted, most + 1, failed_only=bool(request.failed)
        )
        if count > most:
            detail = f"selects more than {most} jobs, the maximum of one action"
            raise validation_problem([FieldError("/filter", detail)])
        return count

    async def step(self) -> bool:
        """Process the next jobs of an action, and return whether there was an action."""
        async with self._pool.acquire() as connection, connection.transaction():
            action = await resubmission_store.lock_next_action(connection)
            if action is None:
                return False
            self._disk.check(Space.LOW)
            await self._advance(connection, action)
            return True

    async def _advance(self, connection: db.Connection, action: Action) -> None:
        """Resubmit the next jobs of an action, and store its progress."""
        target = resubmission.Target(
            action.id,
            action.queue,
            action.job_set,
            ids.job_set_partition(action.queue, action.job_set),
            self._allow.get(action.queue),
            action.keeps_client_ids,
            await self._secrets.get_queue_secrets(action.queue),
            action.memory_factor,
        )
        items = await resubmission_store.read_items(connection, action.id, action.done, STEP_JOBS)
        step = _Step(target, self._classes)
        step.read(items)
        needed = step.dependencies()
        step.add_context(
            await resubmission_store.read_gang_sizes(
                connection, action.id, step.gangs(), action.done
            ),
            await resubmission_store.read_dependencies(connection, action.id, needed),
            await self._job_views.find_succeeded(needed),
        )
        made = step.make_jobs()
        reached = action.positions
        if made:
            records = events.records(
                target.queue,
                target.job_set,
                action.by,
                made,
                request=action.request,
                traceparent=action.traceparent,
            )
            size = count_value_bytes(records)
            async with self._window.admit(target.queue, len(made), size) as admission:
                admission.positions = await self._writer.append(records)
            reached = position_tokens.merge(reached, admission.positions)
            metrics.JOBS.inc(len(made))
        if step.refused:
            await resubmission_store.refuse_items(connection, action.id, step.refused)
        refused = [*action.refused, *step.refused.values()][:REFUSED_LISTED_MAX]
        await resubmission_store.advance_action(
            connection, action, step.last, len(made), reached, refused
        )


class _Step:
    """The jobs of one step of an action. `last`: the number of the last one."""

    def __init__(self, target: resubmission.Target, classes: frozenset[str]) -> None:
        self._target = target
        self._classes = classes
        self._old: list[tuple[int, str | None, JobSubmitted]] = []
        self._members: dict[str, int] = {}
        self._before: Counter[str] = Counter()
        self._items: dict[str, bool] = {}
        self._ids: dict[str, ids.JobId] = {}
        self._succeeded: Collection[str] = ()
        self.refused: dict[int, RefusedJob] = {}
        self.last = 0

    def read(self, items: list[Item]) -> None:
        """Read as many items as fit in one step."""
        size = 0
        for item in items:
            if size and size + len(item.submitted or b"") > STEP_BYTES:
                break
            self.last = item.number
            if item.submitted is None:
                self.refused[item.number] = RefusedJob(item.job_id, "its details have been deleted")
                continue
            size += len(item.submitted)
            self._old.append((item.number, item.gang, _event_decoder.decode(item.submitted)))

    def gangs(self) -> list[str]:
        return list({gang for _, gang, _ in self._old if gang is not None})

    def dependencies(self) -> list[str]:
        return list({job_id for _, _, old in self._old for job_id in old.after})

    def add_context(
        self,
        gangs: Mapping[str, GangSize],
        items: list[Dependency],
        succeeded: Collection[str],
    ) -> None:
        self._members = {name: gang.members for name, gang in gangs.items()}
        self._before = Counter({name: gang.before for name, gang in gangs.items()})
        self._items = {item.job_id: item.is_refused for item in items}
        self._ids = {item.job_id: self._new_id(item) for item in items}
        self._succeeded = succeeded

    def _new_id(self, item: Dependency) -> ids.JobId:
        """The id of the job that replaces a dependency."""
        client_id = resubmission.make_next_client_id(item.client_id, item.annotations)
        return resubmission.make_new_id(self._target, item.job_id, client_id)

    def make_jobs(self) -> list[JobSubmitted]:
        """The new jobs. A job that waits for a refused one is refused as well."""
        made: list[JobSubmitted] = []
        for number, gang, old in self._old:
            name = gang or ""
            around = resubmission.JobContext(
                self._members.get(name, 1),
                self._before[name],
                self._items,
                self._succeeded,
                self._ids,
            )
            self._before[name] += 1
            new = resubmission.make_new_job(old, self._target, around, self._classes)
            if isinstance(new, str):
                self.refused[number] = RefusedJob(old.job_id, new)
                if old.job_id in self._items:
                    self._items[old.job_id] = True
            else:
                made.append(new)
        return made


def _check_failed_only(request: Resubmission) -> list[FieldError]:
    """The errors of a request with `failed`."""
    chosen = request.filter
    if chosen is None:
        return [FieldError("/failed", "cannot be combined with `ids`; use a filter")]
    found = []
    if chosen.job_set is None:
        found.append(FieldError("/filter/jobSet", "is missing; `failed` requires one job set"))
    if chosen.states:
        found.append(
            FieldError("/filter/states", "cannot be combined with `failed`; remove one of them")
        )
    if request.job_set not in (None, chosen.job_set):
        found.append(
            FieldError(
                "/jobSet", "differs from the filter; with `failed`, jobs stay in their job set"
            )
        )
    if request.queue not in (None, chosen.queue):
        found.append(
            FieldError("/queue", "differs from the filter; with `failed`, jobs stay in their queue")
        )
    if request.client_id is not None and (detail := name_rules.check_printable(request.client_id)):
        found.append(FieldError("/clientId", detail))
    return found


def _make_digest(request: Resubmission) -> str:
    text = msgspec.json.encode(request, order="deterministic")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _view_unavailable() -> Problem:
    return Problem(
        "unavailable",
        "The view of lookout lags or is unavailable, so it is not known which jobs to resubmit."
        " Try again.",
        retry_after_s=5,
    )
