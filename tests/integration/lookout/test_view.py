"""The view in Postgres: what it holds, who may write it, and what it survives."""

import asyncio
import gc
from collections.abc import Coroutine

import asyncpg
import pytest

from fairlead_common.domain import ids
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobFilter
from fairlead_common.log.memory_log import MemoryCore
from fairlead_lookout.domain.model import Changes
from fairlead_lookout.store.fold.fold_rows import WrittenKeys
from tests.conftest import Server
from tests.full_disk import full_disk
from tests.integration.lookout.lookout_harness import LookoutHarness, running, said_of_the_view
from tests.unit.lookout.builders import (
    cancel,
    job_id,
    leased,
    pending,
    requeued,
    submitted,
    succeeded,
)
from tests.unit.lookout.builders import running as started
from tests.waiting import until, until_read


async def failure(work: Coroutine[object, object, None]) -> Exception:
    """The one failure that ends this work, out of all task groups around it."""
    with pytest.raises(ExceptionGroup) as caught:
        await work
    error: Exception = caught.value
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    return error


async def folds(harness: LookoutHarness, partitions: int) -> None:
    """Wait until a process folds so many partitions."""

    async def holds() -> bool:
        return len(harness.service.deps.progress.own_partitions) == partitions

    await until_read(holds)


async def states(harness: LookoutHarness, after: str) -> dict[str, int]:
    """Jobs by state of the one job set."""
    found = await harness.read("/jobsets/q/s", after)
    counted: dict[str, int] = found["states"]
    return counted


async def test_a_restarted_lookout_continues_at_the_position_of_the_view(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    async with running(fresh_database, valkey_url, core) as harness:
        after = await harness.append_events(submitted("a"), submitted("b"), leased("a"))
        assert await states(harness, after) == {"LEASED": 1, "QUEUED": 1}
    async with running(fresh_database, valkey_url, core) as harness:
        after = await harness.append_events(
            pending("a"), started("a"), *succeeded("a"), submitted("a")
        )
        assert await states(harness, after) == {"SUCCEEDED": 1, "QUEUED": 1}
        (run,) = (await harness.read(f"/jobs/{job_id('a')}"))["runs"]
        assert run["state"] == "SUCCEEDED"


async def test_a_filter_finds_jobs_that_are_no_longer_in_memory(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    async with running(fresh_database, valkey_url, core) as harness:
        history = [submitted(f"j{number}") for number in range(50)]
        after = await harness.append_events(*history, leased("j7"))
        await states(harness, after)
    async with running(fresh_database, valkey_url, core) as harness:
        wanted = JobFilter(queue="q", states=(JobState.QUEUED,))
        after = await harness.append_events(
            submitted("late"), events.JobsCancelRequested(filter=wanted), submitted("later")
        )
        assert await states(harness, after) == {"CANCELLED": 50, "LEASED": 1, "QUEUED": 1}
        cancelled = [
            event["jobId"]
            for event in await harness.lines("/jobsets/q/s/events")
            if event["type"] == "cancelled"
        ]
        assert len(cancelled) == len(set(cancelled)) == 50


async def test_what_a_batch_changed_is_freed_when_it_is_written(
    fresh_database: str, valkey_url: str
) -> None:
    def retained() -> list[Changes | WrittenKeys]:
        found = [each for each in gc.get_objects() if isinstance(each, (Changes, WrittenKeys))]
        return [each for each in found if job_id("freed") in each.jobs]

    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(submitted("freed"))
        assert await states(harness, after) == {"QUEUED": 1}
        after = await harness.append_events(leased("freed"))
        assert await states(harness, after) == {"LEASED": 1}
        await until(lambda: not retained())


async def test_a_batch_with_new_job_sets_is_folded_while_another_is_written(
    fresh_database: str, valkey_url: str
) -> None:
    connection = await asyncpg.connect(fresh_database)

    async def numbers_drawn() -> int:
        drawn: int = await connection.fetchval(
            "SELECT last_value FROM fairlead_lookout.job_sets_number_seq"
        )
        return drawn

    async def folding_session() -> int:
        pid: int = await connection.fetchval(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'fairlead-lookout-fold'"
        )
        return pid

    async with running(fresh_database, valkey_url, fold_events_max=1) as harness:
        await states(harness, await harness.append_events(submitted("a")))
        session = await folding_session()
        async with connection.transaction():
            # Nobody can write jobs until this transaction ends.
            await connection.execute("LOCK TABLE fairlead_lookout.jobs IN SHARE MODE")
            new = [
                record
                for name in ("s2", "s3")
                for record in events.records("q", name, "anna", [submitted("a", job_set=name)])
            ]
            after = await harness.append(new)
            await until_read(numbers_drawn, lambda drawn: drawn == 3)
            rows = await connection.fetch("SELECT number FROM fairlead_lookout.job_sets")
            assert [row["number"] for row in rows] == [1]
            assert await folding_session() == session, "it ended: the batch was folded again"
        found = await harness.read("/jobsets", after)
        counted = {each["jobSet"]: each["states"] for each in found["jobSets"]}
        assert counted == {name: {"QUEUED": 1} for name in ("s", "s2", "s3")}
    await connection.close()


async def test_requests_for_nothing_create_no_job_set(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.append_events(cancel("unknown"), job_set="empty")
        after = await harness.append_events(submitted("a"))
        await harness.read("/jobsets", after)
    connection = await asyncpg.connect(fresh_database)
    rows = await connection.fetch("SELECT job_set FROM fairlead_lookout.job_sets")
    assert [row["job_set"] for row in rows] == ["s"]
    await connection.close()


async def test_an_older_run_is_found_in_the_table(fresh_database: str, valkey_url: str) -> None:
    core = MemoryCore()
    async with running(fresh_database, valkey_url, core) as harness:
        after = await harness.append_events(
            submitted("a"), leased("a"), requeued("a"), leased("a", run=2)
        )
        await states(harness, after)
    async with running(fresh_database, valkey_url, core) as harness:
        late = events.JobRunReturned(job_id=job_id("a"), run=1, reason="never started")
        after = await harness.append_events(late)
        runs = (await harness.read(f"/jobs/{job_id('a')}", after))["runs"]
        assert [(run["run"], run["state"]) for run in runs] == [(2, "LEASED"), (1, "RETURNED")]


async def test_a_view_refuses_another_log(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url, MemoryCore("one")) as harness:
        await states(harness, await harness.append_events(submitted("a")))

    async with running(fresh_database, valkey_url, MemoryCore("another")) as harness:
        said = await said_of_the_view(harness)
        assert "belongs to the log" in said
        displayed = await harness.read(
            f"/jobs/{job_id('a')}"
        )  # what it holds is shown all the same
        assert displayed["state"] == "QUEUED"


async def test_a_position_moved_by_another_process_ends_the_process(
    fresh_database: str, valkey_url: str
) -> None:
    async def disturbed() -> None:
        async with running(fresh_database, valkey_url) as harness:
            await states(harness, await harness.append_events(submitted("a")))
            connection = await asyncpg.connect(fresh_database)
            await connection.execute("UPDATE fairlead_lookout.progress SET position = position + 1")
            await connection.close()
            await harness.append_events(submitted("b"))
            await asyncio.Event().wait()

    assert isinstance(await failure(disturbed()), ViewConflict)


async def test_a_failed_batch_is_rolled_back(fresh_database: str, valkey_url: str) -> None:
    core = MemoryCore()
    connection = await asyncpg.connect(fresh_database)

    async def disturbed() -> None:
        async with running(fresh_database, valkey_url, core) as harness:
            await states(harness, await harness.append_events(submitted("a")))
            await connection.execute("ALTER TABLE fairlead_lookout.queue_counts RENAME TO gone")
            await harness.append_events(submitted("b"), leased("b"))
            await asyncio.Event().wait()

    assert isinstance(await failure(disturbed()), asyncpg.UndefinedTableError)
    assert await connection.fetchval("SELECT count(*) FROM fairlead_lookout.jobs") == 1
    assert await connection.fetchval("SELECT sum(jobs) FROM fairlead_lookout.counters") == 1
    await connection.execute("ALTER TABLE fairlead_lookout.gone RENAME TO queue_counts")
    await connection.close()
    async with running(fresh_database, valkey_url, core) as harness:
        after = await harness.append_events(submitted("c"))
        assert await states(harness, after) == {"QUEUED": 2, "LEASED": 1}


async def test_a_failed_write_also_discards_the_batch_folded_on_top_of_it(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    connection = await asyncpg.connect(fresh_database)
    history = ([pending("a")], [started("a")], succeeded("a"))
    later = [record for each in history for record in events.records("q", "s", "anna", each)]

    async def disturbed() -> None:
        async with running(fresh_database, valkey_url, core, fold_events_max=1) as harness:
            await states(harness, await harness.append_events(submitted("a"), leased("a")))
            await connection.execute("ALTER TABLE fairlead_lookout.queue_counts RENAME TO gone")
            await harness.append(later)
            await asyncio.Event().wait()

    assert isinstance(await failure(disturbed()), asyncpg.UndefinedTableError)
    assert await connection.fetchval("SELECT state FROM fairlead_lookout.jobs") == "LEASED"
    await connection.execute("ALTER TABLE fairlead_lookout.gone RENAME TO queue_counts")
    await connection.close()
    async with running(fresh_database, valkey_url, core) as harness:
        assert await states(harness, await harness.append_events(submitted("b"))) == {
            "QUEUED": 1,
            "SUCCEEDED": 1,
        }
        types = [event["type"] for event in await harness.lines("/jobsets/q/s/events")]
        once = ["submitted", "leased", "pending", "running", "succeeded", "finished"]
        assert types == [*once, "submitted"]


async def test_a_batch_whose_connection_was_lost_is_folded_again_by_the_same_process(
    fresh_database: str, valkey_url: str
) -> None:
    connection = await asyncpg.connect(fresh_database)
    backend = "FROM pg_stat_activity WHERE application_name = 'fairlead-lookout-fold'"

    async def writes() -> bool:
        found = await connection.fetchval(f"SELECT wait_event_type {backend}")
        return bool(found == "Lock")

    async with running(fresh_database, valkey_url) as harness:
        await states(harness, await harness.append_events(submitted("a"), leased("a")))
        async with connection.transaction():
            await connection.execute("LOCK TABLE fairlead_lookout.queue_counts")
            await harness.append_events(pending("a"), started("a"))
            await until_read(writes)
            assert await connection.fetchval(f"SELECT pg_terminate_backend(pid) {backend}")
        after = await harness.append_events(*succeeded("a"))
        assert await states(harness, after) == {"SUCCEEDED": 1}
        types = [event["type"] for event in await harness.lines("/jobsets/q/s/events")]
        assert types == ["submitted", "leased", "pending", "running", "succeeded", "finished"]
    await connection.close()


async def test_partitions_are_shared_and_taken_over_by_the_last_process(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    async with running(fresh_database, valkey_url, core) as first:
        async with running(fresh_database, valkey_url, core) as second:
            await folds(second, 16)
            sets = [f"s{number}" for number in range(20)]
            for job_set in sets:
                after = await first.append_events(submitted("a", job_set), job_set=job_set)
                for harness in (first, second):
                    found = await harness.read(f"/jobsets/q/{job_set}", after)
                    assert found["states"] == {"QUEUED": 1}
            partitions = {ids.job_set_partition("q", job_set) for job_set in sets}
            for harness in (first, second):
                assert partitions & harness.service.deps.progress.own_partitions
        await folds(first, 32)
        for job_set in sets:
            gone = events.JobCancelRequested(job_id=job_id("a", job_set))
            after = await first.append_events(gone, job_set=job_set)
            found = await first.read(f"/jobsets/q/{job_set}", after)
            assert found["states"] == {"CANCELLED": 1}


async def test_the_fold_continues_after_postgres_was_killed(
    postgres_server: Server, fresh_database: str, valkey_url: str
) -> None:
    _ = postgres_server.pid
    async with running(fresh_database, valkey_url) as harness:
        await states(harness, await harness.append_events(submitted("a"), leased("a")))
        postgres_server.kill()
        after = await harness.append_events(started("a"), submitted("b"), cancel("b"))
        away = await harness.get(f"/jobs/{job_id('a')}")
        assert away.status_code == 503
        assert "Retry-After" in away.headers
        postgres_server.restart()

        async def back() -> bool:
            return (await harness.get("/jobsets/q/s", after)).status_code == 200

        await until_read(back)
        assert await states(harness, after) == {"RUNNING": 1, "CANCELLED": 1}
        answer = await harness.client.get("/readyz")
        assert answer.json()["checks"]["lookout view"] == "ok"


async def test_on_a_full_disk_the_view_stops_and_stays_readable(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url, away_s=0.1) as harness:
        first = await harness.append_events(submitted("a"))
        assert await states(harness, first) == {"QUEUED": 1}
        async with full_disk(fresh_database, "fairlead_lookout.jobs"):
            position = await harness.append_events(submitted("b"))

            async def is_said() -> bool:
                answer = await harness.client.get("/readyz")
                assert answer.status_code == 200, answer.text
                return "disk of Postgres is full" in answer.json()["checks"]["lookout view"]

            await until_read(is_said)
            assert await states(harness, first) == {"QUEUED": 1}
        assert await states(harness, position) == {"QUEUED": 2}
