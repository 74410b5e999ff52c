"""What the API and the pages say of jobs and arrays that wait for arrays."""

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_arrays import array, array_id, released
from tests.unit.lookout.builders import job_id, submitted, succeeded

SCAN = array_id("scan")


async def read_state(harness: LookoutHarness, after: str) -> str | None:
    """The state of the array as the job that waits for it shows it; None if it has succeeded."""
    why = (await harness.read(f"/jobs/{job_id('merge')}", after))["why"]
    if why["code"] != "dependencies":
        return None
    state: str = why["dependencies"][SCAN]
    return state


async def test_a_job_shows_the_array_for_which_it_waits(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        merge = submitted("merge", after=(ids.JobId(SCAN), job_id("prepare")))
        after = await harness.append_events(submitted("prepare"), array("scan", 2), merge)
        path = f"/jobs/{job_id('merge')}"
        why = (await harness.read(path, after))["why"]
        assert why["sentence"] == (
            "The job waits for 2 of 2 jobs and arrays to succeed: array scan, prepare."
        )
        assert why["clientIds"] == {SCAN: "scan", job_id("prepare"): "prepare"}
        page = (await harness.client.get(path)).text
        assert f'array <a class="id" href="/arrays/{SCAN}">scan</a> queued' in page
        assert f'<a class="id" href="/jobs/{job_id("prepare")}">prepare</a> queued' in page
        (listed,) = (await harness.read("/jobs", q="merge"))["jobs"]
        assert listed["waitingFor"] == "dependencies"
        story = (await harness.read(path))["after"]
        assert story == [SCAN, job_id("prepare")]


async def test_an_array_has_succeeded_when_it_has_ended_and_all_its_tasks_have(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        merge = submitted("merge", after=(ids.JobId(SCAN),))
        assert await read_state(harness, await harness.append_events(merge)) == "UNKNOWN"
        after = await harness.append_events(array("scan", 2))
        assert await read_state(harness, after) == "QUEUED"
        for index in range(2):
            task = ids.task_id(SCAN, index)
            lease = events.JobRunLeased(job_id=task, run=1, executor="e", node="n0")
            over = events.JobRunSucceeded(job_id=task, run=1)
            end = events.JobSucceeded(job_id=task)
            after = await harness.append_events(released("scan", index), lease, over, end)
            assert await read_state(harness, after) == "RUNNING"
        after = await harness.append_events(events.ArrayEnded(array=SCAN))
        assert await read_state(harness, after) is None
        (listed,) = (await harness.read("/jobs", q="merge"))["jobs"]
        assert listed["waitingFor"] != "dependencies"


async def test_an_array_has_failed_as_soon_as_a_task_has_not_succeeded(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        why = f"array {SCAN}, which it waits for, cannot succeed: 1 of its tasks were cancelled"
        merge = submitted("merge", after=(ids.JobId(SCAN),))
        cancelled = events.ArrayTasksCancelled(array=SCAN, indexes="5", tasks=1)
        after = await harness.append_events(array("scan", 10), merge, cancelled)
        assert await read_state(harness, after) == "FAILED"
        after = await harness.append_events(events.JobCancelled(job_id=job_id("merge"), reason=why))
        found = await harness.read(f"/jobs/{job_id('merge')}", after)
        assert found["reason"] == why.replace(SCAN, "scan")
        (listed,) = (await harness.read("/jobs", q="merge"))["jobs"]
        assert listed["reason"] == found["reason"]


async def test_an_array_shows_for_what_it_waits_until_that_has_succeeded(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        waiting = array("merge", 3)
        template = submitted(
            "merge", job_id=ids.JobId(waiting.array), after=(job_id("prepare"), ids.JobId(SCAN))
        )
        waiting = events.ArraySubmitted(
            array=waiting.array, template=template, count=3, indexes="0-2"
        )
        after = await harness.append_events(submitted("prepare"), array("scan", 2), waiting)
        found = await harness.read(f"/arrays/{waiting.array}", after)
        assert found["after"] == [job_id("prepare"), SCAN]
        assert found["why"]["sentence"] == (
            "The array waits for 2 of 2 jobs and arrays to succeed: prepare, array scan."
        )
        listed = (await harness.read("/arrays", clientId="merge"))["arrays"]
        assert listed == [found]
        page = (await harness.client.get(f"/arrays/{waiting.array}")).text
        assert f'array <a class="id" href="/arrays/{SCAN}">scan</a> queued' in page
        lease = events.JobRunLeased(job_id=job_id("prepare"), run=1, executor="e", node="n0")
        after = await harness.append_events(lease, *succeeded("prepare"))
        found = await harness.read(f"/arrays/{waiting.array}", after)
        assert found["why"]["dependencies"] == {SCAN: "QUEUED"}
        assert found["why"]["clientIds"] == {SCAN: "scan"}
