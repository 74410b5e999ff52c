"""`fairlead repair`: every way in which a view and the log can lose each other (decision 0032)."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import msgspec
import pytest

from fairlead_common.domain.ids import (
    ArrayId,
    JobId,
    client_array_id,
    job_set_partition,
    run_id,
    task_id,
)
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.repair_events import Knowledge
from fairlead_common.log import topics
from fairlead_common.log.coverage import Mismatch
from fairlead_common.log.kafka import kafka_clients
from fairlead_common.log.kafka.event_log import KafkaLog
from fairlead_common.service.health import Degraded
from fairlead_scheduler.service.recovery import SchedulerLeads
from tests.conftest import Server, run_kafka_broker
from tests.integration.scheduler.world import EXECUTOR, JOB_SET, QUEUE, job_id, submitted
from tests.integration.standalone.repair_harness import Installation

DROP_CHECKPOINT = "DROP SCHEMA fairlead_scheduler CASCADE"
DROP_LOOKOUT = "DROP SCHEMA fairlead_lookout CASCADE"


@pytest.fixture
async def in_postgres(fresh_database: str, valkey_url: str) -> AsyncIterator[Installation]:
    """The log is in the same database."""
    async with Installation.open(fresh_database, fresh_database, valkey_url) as made:
        yield made


@pytest.fixture(scope="module")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Kafka broker of this module alone."""
    yield from run_kafka_broker(tmp_path_factory.mktemp("kafka"))


@pytest.fixture
async def in_kafka(
    kafka_broker: Server, fresh_database: str, valkey_url: str
) -> AsyncIterator[Installation]:
    """The log is on a broker whose topics were deleted before."""
    log = await KafkaLog.open(kafka_broker.url(), timeout_s=30)
    try:
        async with kafka_clients.open_admin_client(log.address, log.timeout_s) as admin:
            ours = [name for name in await admin.list_topics() if name.startswith("fairlead.")]
            await admin.delete_topics(ours)
    finally:
        await log.close()
    async with Installation.open(kafka_broker.url(), fresh_database, valkey_url) as made:
        yield made


@pytest.fixture(params=["in_postgres", pytest.param("in_kafka", marks=pytest.mark.kafka)])
def installation(request: pytest.FixtureRequest) -> Installation:
    """With each of the logs."""
    made: Installation = request.getfixturevalue(request.param)
    return made


def running(name: str, run: int = 1) -> list[ev.AnyEvent]:
    """What an executor reports of a run that starts."""
    started = job_id(name)
    return [ev.JobRunPending(job_id=started, run=run), ev.JobRunRunning(job_id=started, run=run)]


def succeeded(name: str, run: int = 1) -> ev.AnyEvent:
    return ev.JobRunSucceeded(job_id=job_id(name), run=run)


async def fill(installation: Installation) -> None:
    """`runs` runs on the only core, `waits` waits for it; everybody has folded that."""
    world = installation.world
    await world.report_nodes(cores=1)
    await world.tell(submitted("runs"), submitted("waits"))
    async with installation.scheduler():
        await world.first(ev.JobRunLeased, "runs")
        await world.tell(*running("runs"))
    await installation.fold_lookout()


async def finish_running(installation: Installation, *, run: int = 1) -> None:
    """As `finish`, while a scheduler runs."""
    world = installation.world
    await world.tell(succeeded("runs", run))
    await world.first(ev.JobSucceeded, "runs")
    await world.first(ev.JobRunLeased, "waits")
    await world.tell(*running("waits"), succeeded("waits"))
    await world.first(ev.JobSucceeded, "waits")


async def finish(installation: Installation, *, run: int = 1) -> None:
    """The run of `runs` succeeds, then `waits` is started and succeeds; lookout shows it all."""
    async with installation.scheduler():
        await finish_running(installation, run=run)
    assert await installation.states("runs", "waits") == dict.fromkeys(
        ("runs", "waits"), "SUCCEEDED"
    )
    assert not await installation.examine()


async def test_live_jobs_outlive_the_retention_a_restart_and_a_standby(
    installation: Installation,
) -> None:
    await fill(installation)
    await installation.expire()
    async with AsyncExitStack() as leading:
        await leading.enter_async_context(installation.scheduler())
        await installation.world.tell(submitted("late"))
        async with installation.scheduler(saves=False) as standby:
            end = await installation.world.log.end_positions(topics.JOBS)
            await standby.state.wait_until_folded(topics.JOBS, end)  # folded from memory
            await leading.aclose()
            await installation.fold_lookout()
            await installation.expire()
            await finish_running(installation)
            await installation.world.first(ev.JobRunLeased, "late")
    states = await installation.states("runs", "waits", "late")
    assert states == {"runs": "SUCCEEDED", "waits": "SUCCEEDED", "late": "LEASED"}


async def test_an_old_checkpoint_waits_for_a_repair_from_lookout(
    installation: Installation,
) -> None:
    await fill(installation)
    await installation.world.tell(succeeded("runs"), submitted("late"))
    await installation.fold_lookout()
    await installation.expire()
    async with installation.scheduler() as service:
        said = await service.checks()["scheduler view"]()
        assert isinstance(said, Degraded)
        assert "scheduler's checkpoint is older than the log" in said
        assert "fairlead repair" in said
        found = await installation.examine()
        assert found.scheduler is not None
        assert found.scheduler.mismatches == (Mismatch.EXPIRED,)
        await installation.repair()
        await installation.world.first(ev.JobSucceeded, "runs")  # the same process goes on
        await installation.world.first(ev.JobRunLeased, "waits")
        await installation.world.tell(*running("waits"), succeeded("waits"))
        await installation.world.first(ev.JobRunLeased, "late")
    states = await installation.states("runs", "waits", "late")
    assert states == {"runs": "SUCCEEDED", "waits": "SUCCEEDED", "late": "LEASED"}
    assert not await installation.examine()


async def test_jobs_older_than_the_log_are_restored_after_a_dropped_checkpoint(
    installation: Installation,
) -> None:
    await fill(installation)
    await installation.expire()
    await installation.execute(DROP_CHECKPOINT)
    found = await installation.examine()
    assert found.scheduler is not None
    assert found.scheduler.mismatches == (Mismatch.MISSING,)
    assert {each.job_id for each in found.differences} == {job_id("runs"), job_id("waits")}
    await installation.repair()
    async with installation.scheduler():
        live = await installation.world.live_leases(bool)
        assert list(live) == [run_id(job_id("runs"), 1)]
    await finish(installation)


async def test_a_dropped_view_of_lookout_is_restored(
    installation: Installation,
) -> None:
    await fill(installation)
    await installation.expire()
    await installation.execute(DROP_LOOKOUT)
    found = await installation.examine()
    assert found.lookout is not None
    assert found.lookout.mismatches == (Mismatch.MISSING,)
    await installation.repair()
    job_states = await installation.shown("runs", "waits")
    assert {name: known.state for name, known in job_states.items()} == {
        "runs": "RUNNING",
        "waits": "QUEUED",
    }
    assert (job_states["runs"].run, job_states["runs"].executor) == (1, EXECUTOR)
    await finish(installation)


async def test_an_old_view_of_lookout_is_updated_from_the_scheduler(
    installation: Installation,
) -> None:
    await fill(installation)
    world = installation.world
    async with installation.scheduler():
        await world.tell(succeeded("runs"), submitted("late"))
        await world.first(ev.JobSucceeded, "runs")
        await world.first(ev.JobRunLeased, "waits")
        await world.tell(*running("waits"))
    await installation.expire()
    found = await installation.examine()
    assert found.lookout is not None
    assert found.lookout.mismatches == (Mismatch.EXPIRED,)
    await installation.repair()
    states = await installation.states("runs", "waits", "late")
    assert states == {"runs": "SUCCEEDED", "waits": "RUNNING", "late": "QUEUED"}
    assert not await installation.examine()


async def test_a_job_with_an_unknown_outcome_is_closed(
    in_postgres: Installation,
) -> None:
    """Both views are behind, and the lease that would say that the run lives is gone."""
    await fill(in_postgres)
    await in_postgres.world.tell(submitted("lost"))
    await in_postgres.expire()
    await in_postgres.execute(
        "DELETE FROM fairlead_log.batches WHERE part IN (SELECT part FROM fairlead_log.parts"
        f" WHERE topic = 'fairlead.leases.{EXECUTOR}')"
    )
    done = await in_postgres.repair()
    assert [each.job_id for each in done.differences] == [job_id("runs")]
    job_states = await in_postgres.shown("runs", "waits")
    assert (job_states["runs"].state, job_states["waits"].state) == ("FAILED", "QUEUED")
    assert "Closed by `fairlead repair`" in job_states["runs"].reason
    async with in_postgres.scheduler():
        await in_postgres.world.first(ev.JobRunLeased, "waits")


async def test_a_run_with_a_lease_continues_if_both_views_are_old(
    installation: Installation,
) -> None:
    await fill(installation)
    await installation.world.tell(submitted("lost"))
    await installation.expire()
    await installation.repair()
    await finish(installation)


async def test_views_continue_in_a_new_log_and_runs_without_leases_restart(
    in_postgres: Installation,
) -> None:
    await fill(in_postgres)
    await in_postgres.execute("DROP SCHEMA fairlead_log CASCADE")
    async with Installation.open(in_postgres.url, in_postgres.url, "redis://127.0.0.1:9") as anew:
        await anew.world.report_nodes(cores=4)
        await anew.world.tell(submitted("early"))  # accepted before anybody noticed
        async with anew.scheduler() as service:
            said = await service.checks()["scheduler view"]()
            assert said is not None
            assert "the log was lost and created again" in said
        found = await anew.examine()
        assert found.other_log
        done = await anew.repair()
        assert done.only_in_log == [job_id("early")]
        async with anew.scheduler():
            lost = await anew.world.first(ev.JobRunLost, "runs")
            assert "its lease is not in the log any more" in lost.reason
            await anew.world.first(ev.JobRequeued, "runs")
            seen = await anew.world.first(ev.JobRunLeased, "runs")
            assert seen.run == 2
            await anew.world.first(ev.JobRunLeased, "waits")
            await anew.world.first(ev.JobRunLeased, "early")
            await anew.world.tell(succeeded("runs", 2), succeeded("waits"), succeeded("early"))
            for name in ("runs", "waits", "early"):
                await anew.world.first(ev.JobSucceeded, name)
        states = await anew.states("runs", "waits", "early")
        assert states == dict.fromkeys(("runs", "waits", "early"), "SUCCEEDED")
        assert not await anew.examine()


async def test_runs_restart_without_a_repair_if_their_lease_topic_was_emptied(
    in_postgres: Installation,
) -> None:
    await fill(in_postgres)
    await in_postgres.execute(
        "DELETE FROM fairlead_log.batches USING fairlead_log.parts"
        f" WHERE parts.part = batches.part AND topic = '{topics.leases(EXECUTOR).name}'"
    )
    world = in_postgres.world
    async with in_postgres.scheduler():
        lost = await world.first(ev.JobRunLost, "runs")
        assert "its lease is not in the log any more" in lost.reason
        # The core is free until the job is queued again.
        await world.first(ev.JobRunLeased, "waits")
        await world.tell(*running("waits"), succeeded("waits"))
        again = run_id(job_id("runs"), 2)
        await world.live_leases(lambda live: again in live)
        await world.tell(*running("runs", 2), succeeded("runs", 2))
        await world.first(ev.JobSucceeded, "runs")
    states = await in_postgres.states("runs", "waits")
    assert states == dict.fromkeys(("runs", "waits"), "SUCCEEDED")
    assert not await in_postgres.examine()


async def test_a_log_restored_from_a_backup_reuses_no_position(
    in_postgres: Installation,
) -> None:
    await in_postgres.world.report_nodes(cores=1)
    await in_postgres.world.tell(submitted("old", hold=True))
    await fill(in_postgres)
    await in_postgres.restore_log()
    await in_postgres.world.tell(submitted("early"))
    async with in_postgres.scheduler() as service:
        said = await service.checks()["scheduler view"]()
        assert said is not None
        assert "the log was restored from an older backup" in said
    found = await in_postgres.examine()
    assert found.scheduler is not None
    assert found.lookout is not None
    assert found.scheduler.mismatches == found.lookout.mismatches == (Mismatch.AHEAD,)
    done = await in_postgres.repair()
    assert done.only_in_log == [job_id("early")]
    states = await in_postgres.states("old", "runs", "waits", "early")
    assert states["early"] == "QUEUED"
    assert sorted(states.values()) == ["QUEUED", "QUEUED", "QUEUED", "RUNNING"]
    assert not await in_postgres.examine()


async def test_jobs_live_only_in_lookout_are_found_and_ended(
    installation: Installation,
) -> None:
    await fill(installation)
    world = installation.world
    async with installation.scheduler():
        await world.tell(succeeded("runs"))
        await world.first(ev.JobSucceeded, "runs")
    await installation.fold_lookout()
    await installation.execute(
        "UPDATE fairlead_lookout.jobs SET state = 'RUNNING', ended_ms = NULL"
        f" WHERE id = '{job_id('runs')}'"
    )
    async with installation.scheduler(saves=False):
        found = await installation.examine()  # beside a scheduler that leads
        assert [(each.job_id, each.action) for each in found.differences] == [
            (job_id("runs"), "end as SUCCEEDED")
        ]
        with pytest.raises(SchedulerLeads, match="Stop all schedulers"):
            await installation.repair()
    await installation.repair()
    assert (await installation.states("runs"))["runs"] == "SUCCEEDED"


async def test_an_intact_installation_needs_no_repair(installation: Installation) -> None:
    await fill(installation)
    assert not await installation.examine()
    done = await installation.repair()
    assert not done.differences
    await finish(installation)


def array_id(name: str) -> ArrayId:
    return client_array_id(job_set_partition(QUEUE, JOB_SET), QUEUE, JOB_SET, name)


def array_of_one(
    name: str, end: type[ev.JobSucceeded | ev.JobCancelled] | None
) -> list[ev.AnyEvent]:
    """An array of one task, which is not released, or has ended."""
    array = array_id(name)
    task = task_id(array, 0)
    template = msgspec.structs.replace(submitted(name), job_id=JobId(array))
    made: list[ev.AnyEvent] = [
        ev.ArraySubmitted(array=array, template=template, count=1, indexes="0")
    ]
    if end is None:
        return made
    released = msgspec.structs.replace(
        template, job_id=task, client_id=None, array=ev.ArrayTask(array, 0, 1, 0)
    )
    ended = (
        ev.JobSucceeded(job_id=task)
        if end is ev.JobSucceeded
        else ev.JobCancelled(job_id=task, reason="")
    )
    lease = ev.JobRunLeased(job_id=task, run=1, executor=EXECUTOR, node="n0")
    over = ev.JobRunSucceeded(job_id=task, run=1)
    return [*made, released, lease, over, ended, ev.ArrayEnded(array=array)]


async def test_jobs_that_wait_for_arrays_are_restored_with_what_lookout_knows_of_these(
    in_postgres: Installation,
) -> None:
    """The arrays themselves are not restored."""
    world = in_postgres.world
    await world.report_nodes(cores=1)
    for name, end in {"done": ev.JobSucceeded, "failed": ev.JobCancelled, "open": None}.items():
        merge = msgspec.structs.replace(submitted(f"after-{name}"), after=(JobId(array_id(name)),))
        await world.tell(*array_of_one(name, end), merge)
    await in_postgres.fold_lookout()
    await in_postgres.expire()
    await in_postgres.repair()
    known = await in_postgres.shown("after-done", "after-failed", "after-open")
    assert {name: (str(each.state), each.reason) for name, each in known.items()} == {
        "after-done": ("QUEUED", Knowledge().reason),
        "after-failed": (
            "CANCELLED",
            f"array {array_id('failed')}, which it waits for, ended FAILED",
        ),
        "after-open": (
            "CANCELLED",
            f"array {array_id('open')}, which it waits for, is no longer known",
        ),
    }
    async with in_postgres.scheduler():
        await world.first(ev.JobRunLeased, "after-done")


async def test_restored_tables_of_submit_get_the_newer_queues_of_the_log(
    installation: Installation,
) -> None:
    await installation.repair()  # makes the tables
    await installation.world.configure(Queue(name="research", version=9, weight=4.0))
    found = await installation.examine()
    assert [item.version for item in found.configuration.newer_in_log] == [9]
    assert "older in submit's tables than in the log" in "\n".join(found.lines())
    await installation.repair()
    assert not await installation.examine()
    await installation.execute(
        "DO $$ BEGIN ASSERT nextval('fairlead_submit.versions') = 10;"
        " ASSERT (SELECT version FROM fairlead_submit.queues WHERE name = 'research') = 9; END $$"
    )
