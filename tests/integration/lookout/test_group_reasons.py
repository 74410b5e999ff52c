"""Why a group waits, as the API and its page say it."""

from typing import Any

import msgspec

from fairlead_common.domain.records import clusters, events, scheduling_reports
from fairlead_common.domain.records.scheduling_reports import WaitingReport
from fairlead_common.domain.scheduling import shapes
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_groups import announced, group_id
from tests.unit.lookout.builders import SHAPE, job_id, leased, succeeded
from tests.waiting import until_read

PATH = f"/groups/{group_id('g')}"
MISFIT = WaitingReport(
    pool="default",
    queue="q",
    code="gang-does-not-fit",
    sentence="The group does not fit: role worker: 1 of 1 needed, 0 fit.",
    job_set="s",
    gang=group_id("g"),
    jobs=3,
    nodes={"busy": 2},
)
NODE = clusters.Node(executor="e", name="n0", allocatable={"cpu": 4000})


async def report(harness: LookoutHarness, *reports: WaitingReport) -> None:
    await harness.append([scheduling_reports.record(each) for each in reports])


async def read_why(harness: LookoutHarness, code: str) -> Any:
    """The reason, as soon as it has this code."""
    found = await until_read(
        lambda: harness.read(PATH), lambda found: found.get("why", {}).get("code") == code
    )
    return found["why"]


async def test_a_waiting_group_says_what_the_scheduler_reported_about_it(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(*announced("g"))
        found = await harness.read(PATH, after)
        assert found["why"]["sentence"].startswith("Pool default has no nodes.")
        await harness.append([clusters.node_record(NODE)])
        why = await read_why(harness, "scheduling")
        assert why["sentence"] == "The scheduler has not examined the group yet."
        await report(harness, MISFIT)
        why = await read_why(harness, MISFIT.code)
        assert (why["sentence"], why["nodes"]) == (MISFIT.sentence, {"busy": 2})
        page = (await harness.client.get(PATH)).text
        assert MISFIT.sentence in page
        assert "<h2>Waiting: gang does not fit</h2>" in page
        assert "2 nodes: busy" in page


async def test_a_running_group_says_what_its_surplus_waits_for(
    fresh_database: str, valkey_url: str
) -> None:
    """G11."""
    sentence = "Waits for free capacity; the group runs with 1 of at most 2 members of role worker."
    surplus = msgspec.structs.replace(MISFIT, code="insufficient-resources", sentence=sentence)
    async with running(fresh_database, valkey_url) as harness:
        await report(harness, surplus)
        started = [leased("g/ps-0"), leased("g/worker-0"), events.GroupRunning(group=group_id("g"))]
        await harness.read(PATH, await harness.append_events(*announced("g"), *started))
        assert (await read_why(harness, surplus.code))["sentence"] == sentence
        page = (await harness.client.get(PATH)).text
        assert "<h2>Members wait: insufficient resources</h2>" in page
        found = await harness.read(PATH, await harness.append_events(leased("g/worker-1")))
        assert "why" not in found


async def test_a_held_member_is_named_first_only_if_the_group_needs_it(
    fresh_database: str, valkey_url: str
) -> None:
    first, *members = announced("g")
    held = [msgspec.structs.replace(each, hold=True) for each in members]
    async with running(fresh_database, valkey_url) as harness:
        await report(harness, MISFIT)
        await until_read(
            lambda: harness.read("/pools/default/report"), lambda found: found["waiting"]
        )
        after = await harness.append_events(first, members[0], held[1], held[2])
        why = (await harness.read(PATH, after))["why"]
        assert why["sentence"] == "Member worker-0 is held until it is released."
        after = await harness.append_events(events.JobReleased(job_id=job_id("g/worker-0")))
        assert (await harness.read(PATH, after))["why"]["code"] == MISFIT.code


async def test_a_held_surplus_member_is_named_if_nothing_else_waits(
    fresh_database: str, valkey_url: str
) -> None:
    first, *members = announced("g")
    members[2] = msgspec.structs.replace(members[2], hold=True)
    async with running(fresh_database, valkey_url) as harness:
        started = [leased("g/ps-0"), leased("g/worker-0")]
        found = await harness.read(PATH, await harness.append_events(first, *members, *started))
        assert found["why"]["sentence"] == "Member worker-1 is held until it is released."
        await report(harness, MISFIT)
        assert (await read_why(harness, MISFIT.code))["sentence"] == MISFIT.sentence


async def test_members_that_start_one_by_one_wait_like_jobs_of_their_shape(
    fresh_database: str, valkey_url: str
) -> None:
    of_shape = WaitingReport(
        pool="default", queue="q", code="queue-limit", sentence="Queue q has reached its limit.",
        shape=shapes.key(bytes(SHAPE), "default"), jobs=1,
    )  # fmt: skip
    async with running(fresh_database, valkey_url) as harness:
        done = [leased("g/ps-0"), *succeeded("g/ps-0")]
        await harness.read(PATH, await harness.append_events(*announced("g"), *done))
        await report(harness, of_shape)
        why = await read_why(harness, "queue-limit")
        assert why["sentence"] == "Member worker-0: Queue q has reached its limit."


async def test_a_group_that_has_ended_does_not_wait(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        ended = events.GroupFailed(group=group_id("g"), reason="boom")
        found = await harness.read(PATH, await harness.append_events(*announced("g"), ended))
        assert "why" not in found
