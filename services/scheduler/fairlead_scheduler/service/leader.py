"""Standby and leader: one process leads at a time, the others follow the log and are ready.

The leader holds a Postgres advisory lock, in a session that Postgres ends when its holder falls
silent, and that is confirmed before each append. The producer fencing of the log makes a deposed
leader harmless: its next append fails. Any failure while leading ends the process, and the next
leader starts from the log.
"""

import asyncio
import logging
from functools import partial

from fairlead_common.db import Pool
from fairlead_common.db.lock_session import LockSession, holding
from fairlead_common.db.locks import SCHEDULER_LEADER
from fairlead_common.domain.errors import TopicMismatch
from fairlead_common.log import EventLog, Producer, compacted_view
from fairlead_common.log.guarded_producer import GuardedProducer
from fairlead_common.log.topics import CLUSTERS, CONFIG, JOB_PARTITIONS, JOBS, REPORTS, leases
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_common.service import clock
from fairlead_common.service.json_logging import runs_fields
from fairlead_scheduler.rules import lease_changes, member_records
from fairlead_scheduler.rules.append_batches import AppendBatch, group_into_appends
from fairlead_scheduler.rules.decider import Decider, Engine
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.service import metrics
from fairlead_scheduler.service.checkpoint_saver import CheckpointSaver
from fairlead_scheduler.service.cycle import Cycle
from fairlead_scheduler.service.follower import State, trim_caches_safely
from fairlead_scheduler.service.full_disk import FullDisk
from fairlead_scheduler.service.leader_heartbeat import LeaderHeartbeats, LogClock
from fairlead_scheduler.service.recovery import PRODUCER
from fairlead_scheduler.service.reporter import Reporter
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedNames
from fairlead_scheduler.state.view import forget_names
from fairlead_scheduler.store import checkpoint

APPLICATION = "fairlead-scheduler"
"""What the sessions of a scheduler's pool are called in Postgres."""
PRUNE_SAVED_S = 3_600.0
"""How often the leader deletes old ended jobs from the checkpoint."""
PRUNE_S = 2.0
"""The least time between two times that a standby drops what the leader has saved."""
_DAY_MS = 86_400_000
_logger = logging.getLogger("fairlead.scheduler")


async def stand_by_and_lead(
    settings: SchedulerSettings,
    log: EventLog,
    pool: Pool,
    state: State,
    engine: Engine,
    full_disk: FullDisk,
) -> None:
    """Follow until this process holds the lock, then lead until something fails."""
    log_id = await log.identity()
    pruned_s = 0.0

    async def prune() -> None:
        """Drop what the leader has saved."""
        nonlocal pruned_s
        state.settled.set()
        if clock.monotonic_s() - pruned_s <= PRUNE_S:
            return
        pruned_s = clock.monotonic_s()
        saved = await checkpoint.read_positions(pool, log_id, JOB_PARTITIONS)
        if saved is not None:
            checkpoint.forget_saved(state.view, saved)
        await trim_caches_safely(state)
        async with state.fold_lock:
            forget_names(state.view)
        state.view.orphaned_runs.clear()  # a new leader compares all leases anyway
        state.view.group_records_due.clear()

    lock = holding(
        settings.database_url,
        SCHEDULER_LEADER,
        name=f"{APPLICATION}-lock",
        poll_s=settings.standby_poll_s,
        waiting=prune,
    )
    async with lock as session, asyncio.TaskGroup() as tasks:
        tasks.create_task(session.renew(), name="lock")
        await lead(settings, log, pool, session, state, engine, full_disk)


async def lead(
    settings: SchedulerSettings,
    log: EventLog,
    pool: Pool,
    session: LockSession,
    state: State,
    engine: Engine,
    full_disk: FullDisk,
) -> None:
    """Take over from the previous leader, then run cycles until something fails."""
    await session.end_silent_transactions(APPLICATION)
    producer = GuardedProducer(await log.producer(PRODUCER), session.confirm)
    heartbeats = LeaderHeartbeats.of(settings, producer, since_ms=clock.now_ms())
    state.clusters.start_leading(heartbeats.instance, step_s_max=heartbeats.step_s_max)
    await full_disk.retry_until_space(heartbeats.append)
    for topic in (JOBS, CLUSTERS, CONFIG):
        await state.wait_until_folded(topic, await log.end_positions(topic))
    log_clock = LogClock(state.clusters, heartbeats.step_s_max)
    live_leases = await _read_leases(log, state)
    await _give_up_runs_without_lease(log, producer, state, live_leases)
    live_leases.assume_wanted(state.view)
    reporter = Reporter((item.name for item in settings.priority_classes), is_ready=False)
    saved = await _read_or_create_positions(log, pool)
    # after the positions: if a deposed leader saves in between, the first save here fails
    names = SavedNames(await checkpoint.read_names(pool))
    state.clusters.restore_numbers(await checkpoint.read_nodes(pool))
    state.view.orphaned_runs.update(lease_changes.find_unwanted_leases(state.view, live_leases))
    state.view.group_records_due |= member_records.list_all(state.view, live_leases.groups)
    decider = Decider(
        settings,
        state.view,
        state.clusters,
        state.queues,
        live_leases,
        began_ms=log_clock.now_ms(),
        engine=engine,
    )
    cycle = Cycle(
        decider,
        state,
        producer,
        pool,
        reporter,
        fold_configuration=partial(_fold_configuration, log, state),
        full_disk=full_disk,
        now_ms=log_clock.now_ms,
    )
    _logger.info(
        "leading, with %d live jobs and %d leases",
        len(state.view.jobs.rows),
        len(live_leases.by_run),
    )
    metrics.LEADING.set(1)
    async with asyncio.TaskGroup() as tasks:
        saver = CheckpointSaver(settings, pool, state, saved, names, full_disk)
        tasks.create_task(saver.run(), name="checkpoint")
        tasks.create_task(heartbeats.run(), name="heartbeat")
        tasks.create_task(_run_cycles(settings, log, state, cycle, reporter), name="cycle")
        tasks.create_task(_prune_regularly(settings, pool, state, full_disk), name="prune")


async def _fold_configuration(log: EventLog, state: State) -> None:
    await state.wait_until_folded(CONFIG, await log.end_positions(CONFIG))


async def _read_leases(log: EventLog, state: State) -> Leases:
    live_leases = Leases()
    for executor in sorted(
        state.clusters.heard.keys() | lease_changes.find_executors_in_use(state.view)
    ):
        try:
            newest, _ = await compacted_view.read_newest(log, leases(executor).name)
        except TopicMismatch:  # an executor creates its topic before its first heartbeat
            await log.create(leases(executor))
            continue
        live_leases.read_back(executor, newest)
    return live_leases


async def _give_up_runs_without_lease(
    log: EventLog, producer: Producer, state: State, live_leases: Leases
) -> None:
    """Give up live runs without any record in the lease topics, not even an undecodable one. The
    log was restored or created again; executors end runs without a lease."""
    missing = lease_changes.find_runs_without_lease(state.view, live_leases)
    if not missing:
        return
    there = await _read_lease_keys(log, state)
    runs = [run for run in missing if run not in there]
    lost = [AppendBatch((missing[run],)) for run in runs]
    if lost:
        _logger.warning(
            "giving up %d runs: %s", len(lost), lease_changes.NO_LEASE, extra=runs_fields(runs)
        )
    for append in group_into_appends(lost):
        appended = await producer.append(append.records)
        await state.wait_until_folded(
            JOBS, {partition: at for (_, partition), at in appended.items()}
        )


async def _read_lease_keys(log: EventLog, state: State) -> set[str]:
    """The keys of all records of the lease topics with a value, also undecodable ones."""
    log = log.inner if isinstance(log, ValidatingLog) else log
    keys: set[str] = set()
    for executor in state.clusters.heard.keys() | lease_changes.find_executors_in_use(state.view):
        await log.create(leases(executor))
        keys |= (await compacted_view.read_newest(log, leases(executor).name))[0].keys()
    return keys


async def _read_or_create_positions(log: EventLog, pool: Pool) -> list[int]:
    log_id = await log.identity()
    saved = await checkpoint.read_positions(pool, log_id, JOB_PARTITIONS)
    if saved is None:
        start = await log.start_positions(JOBS)
        await checkpoint.create_checkpoint(pool, log_id, start, JOB_PARTITIONS)
        saved = [start[partition] for partition in range(JOB_PARTITIONS)]
    return saved


async def _run_cycles(
    settings: SchedulerSettings, log: EventLog, state: State, cycle: Cycle, reporter: Reporter
) -> None:
    """Run a cycle when something has changed, at most every `cycle_s_min`, and at least every
    `cycle_s`."""
    while True:
        began_s = clock.monotonic_s()
        metrics.show_silence(state.clusters.silence_s)
        state.changed.clear()
        await cycle.run_once()
        state.settled.set()
        if not reporter.is_ready:  # only now, so that the first leases do not wait for it
            reporter.restore((await compacted_view.read_newest(log, REPORTS))[0])
        await asyncio.sleep(max(0.0, began_s + settings.cycle_s_min - clock.monotonic_s()))
        remaining_s = began_s + settings.cycle_s - clock.monotonic_s()
        if remaining_s > 0 and not state.changed.is_set():
            try:
                async with asyncio.timeout(remaining_s):
                    await state.changed.wait()
            except TimeoutError:
                continue


async def _prune_regularly(
    settings: SchedulerSettings, pool: Pool, state: State, full_disk: FullDisk
) -> None:
    """Regularly delete jobs that ended long ago, whose ids can then be used again, and unused
    numbers of nodes from the checkpoint."""
    while True:
        before_ms = clock.now_ms() - settings.ended_kept_days * _DAY_MS
        for name in await full_disk.retry_until_space(
            partial(checkpoint.prune_ended, pool, before_ms)
        ):
            _logger.info("dropped %s: all its jobs ended long ago", name)
        async with state.fold_lock:
            numbers = state.clusters.release_numbers()
        await full_disk.retry_until_space(partial(checkpoint.prune_nodes, pool, numbers))
        await asyncio.sleep(PRUNE_SAVED_S)
