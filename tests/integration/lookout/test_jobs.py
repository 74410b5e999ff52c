"""One job: waiting for it to change, its place in its queue, the log of its containers."""

import asyncio

import msgspec

from fairlead_common.domain.records import events
from fairlead_common.log.memory_log import MemoryCore, MemoryLog
from fairlead_common.service import clock
from tests.integration.lookout.lookout_harness import running, said_of_the_view
from tests.unit.lookout.builders import cancel, job_id, leased, submitted


async def test_a_long_poll_of_a_job_returns_when_it_changes(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a")))
        path = f"/api/v1/jobs/{job_id('a')}"
        first = await harness.client.get(path)
        seen = {"If-None-Match": first.headers["etag"]}
        same = await harness.client.get(path, headers=seen, params={"wait": "10ms"})
        assert (same.status_code, same.content) == (304, b"")
        waiting = asyncio.create_task(
            harness.client.get(path, headers=seen, params={"wait": "30s"})
        )
        await asyncio.sleep(0)
        await harness.append_events(leased("a"))
        changed = await waiting
        assert changed.status_code == 200
        assert changed.json()["state"] == "LEASED"
        assert changed.headers["etag"] != first.headers["etag"]


async def test_a_job_says_who_submitted_it_and_what_users_requested(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.append_events(submitted("a"), submitted("b"), leased("a"), leased("b"))
        every = events.JobFilter(queue="q", job_set="s")
        first = events.JobReprioritized(job_id=job_id("a"), priority=5, reason="today")
        second = events.JobsPreemptRequested(filter=every, reason="room")
        await harness.append_events(first, by="ben")
        after = await harness.append_events(second, by="<eva>")
        found = await harness.read(f"/jobs/{job_id('a')}", after)
        assert found["submittedBy"] == "anna"
        requests = found["userRequests"]
        assert [(one["action"], one["by"], one["reason"]) for one in requests] == [
            ("reprioritize", "ben", "today"),
            ("preempt", "<eva>", "room"),
        ]
        assert requests[0]["priority"] == 5
        other = await harness.read(f"/jobs/{job_id('b')}")
        assert [one["by"] for one in other["userRequests"]] == ["<eva>"]
        page = (await harness.client.get(f"/jobs/{job_id('a')}")).text
        for text in (
            "Submitted by anna",
            "Priority 5 requested by ben: today",
            "Preemption requested by &lt;eva&gt;: room",
        ):
            assert text in page


async def test_a_queued_job_has_its_queue_position(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        history = [
            submitted("first"),
            submitted("urgent", priority_class="high"),
            submitted("second"),
            submitted("important", priority=5),
            submitted("held", hold=True),
            submitted("elsewhere", pool="other"),
            submitted("third"),
            submitted("gone"),
            cancel("gone"),
        ]
        after = await harness.append_events(*history)
        await harness.read("/jobsets", after)
        order = ["urgent", "important", "first", "second", "third"]
        for place, name in enumerate(order, 1):
            found = await harness.read(f"/jobs/{job_id(name)}")
            assert found["positionInQueue"] == str(place)
        assert "positionInQueue" not in await harness.read(f"/jobs/{job_id('gone')}")
        assert (await harness.read(f"/jobs/{job_id('elsewhere')}"))["positionInQueue"] == "1"


async def test_a_run_has_the_cause_of_its_preemption_before_and_after_it_ended(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        which = job_id("a")
        wanted = events.JobFilter(queue="q")
        asked = events.JobsPreemptRequested(filter=wanted, reason="room")
        path = f"/jobs/{which}"
        await harness.read(
            "/jobsets", await harness.append_events(submitted("a"), leased("a"), asked)
        )
        (run,) = (await harness.read(path))["runs"]
        assert (run["state"], run["preemptionCause"], run["reason"]) == (
            "LEASED",
            "request",
            "room",
        )
        ended = [
            events.JobRunStopped(job_id=which, run=1, reason="asked to"),
            events.JobRequeued(job_id=which, reason="preempted"),
            leased("a", run=2),
        ]
        await harness.read("/jobsets", await harness.append_events(*ended))
        new, old = (await harness.read(path))["runs"]
        assert (old["state"], old["preemptionCause"], old["reason"]) == (
            "STOPPED",
            "request",
            "room",
        )
        assert "preemptionCause" not in new
        assert "reason" not in new


async def test_a_leased_job_names_the_preempted_runs_that_it_waits_for(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        stop = [
            events.JobRunPreempting(
                job_id=job_id(name),
                run=1,
                cause=events.PreemptionCause.FAIR_SHARE,
                reason="makes room",
                for_job=job_id("taker"),
            )
            for name in ("old", "other")
        ]
        asked = events.JobPreemptRequested(job_id=job_id("asked"), reason="by hand")
        there = [*(leased(name) for name in ("old", "stays", "asked")), leased("other", node="n1")]
        names = ("old", "stays", "other", "asked", "taker")
        history = [*(submitted(name) for name in names), *there, asked, *stop, leased("taker")]
        await harness.read("/jobsets", await harness.append_events(*history))
        why = (await harness.read(f"/jobs/{job_id('taker')}"))["why"]
        assert why["code"] == "waiting-for-preempted-runs"
        assert why["sentence"] == (
            f"The job starts on node n0 of cluster e when one preempted run on that node has"
            f" ended: {job_id('old')} of queue q (fair-share)."
        )
        ended = events.JobRunStopped(job_id=job_id("old"), run=1, reason="")
        await harness.read("/jobsets", await harness.append_events(ended))
        assert "why" not in await harness.read(f"/jobs/{job_id('taker')}")


async def test_the_log_of_an_unknown_container_is_refused(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        spec = msgspec.Raw(b'{"containers":[{"name":"main"},{"name":"side"}]}')
        after = await harness.append_events(submitted("a", spec=spec), leased("a"))
        await harness.read("/jobsets", after)
        answer = await harness.get(f"/jobs/{job_id('a')}/logs", container="other")
        assert answer.status_code == 422
        assert "main, side" in answer.json()["errors"][0]["detail"]
        answer = await harness.get(f"/jobs/{job_id('a')}/logs", run=7)
        assert "has no run 7" in answer.json()["detail"]


async def test_a_view_older_than_the_log_needs_a_repair(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    async with running(fresh_database, valkey_url, core) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a")))
    late = MemoryLog(clock.now_ms, core)
    producer = await late.producer("late")
    await producer.append(events.records("q", "s", "anna", [submitted("b")]))
    core.maintain(clock.now_ms() + 90 * 86_400_000)
    async with running(fresh_database, valkey_url, core) as harness:
        said = await said_of_the_view(harness)
        assert "view of lookout is older than the log: in 1 partition" in said
        assert "fairlead repair" in said


async def test_a_view_ahead_of_its_log_needs_a_repair(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a")))
    async with running(fresh_database, valkey_url, MemoryCore()) as harness:
        assert "the log was restored from an older backup" in await said_of_the_view(harness)
