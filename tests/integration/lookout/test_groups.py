"""What the API says of groups: their states, the counts of their roles, lists and their filters."""

import asyncio
import json
import re
from typing import Any

import msgspec

from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.records import events, scheduling_reports
from fairlead_common.domain.records.group_terms import Topology, TopologyScope
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_permissions import prepare_tokens
from tests.unit.lookout import builders
from tests.unit.lookout.builders import job_id, leased, submitted
from tests.waiting import until_read

TERMS = events.Group(roles=(events.GroupRole("ps", 1, 1), events.GroupRole("worker", 1, 2)))


def group_id(name: str) -> GroupId:
    return GroupId(job_id(name))


def announced(name: str) -> list[events.AnyEvent]:
    """A group with its three members."""
    made: list[events.AnyEvent] = [
        events.GroupSubmitted(group=group_id(name), terms=TERMS, digest="d", client_id=name)
    ]
    for role, index in (("ps", 0), ("worker", 0), ("worker", 1)):
        member = events.GroupMember(group_id(name), role, index)
        made.append(submitted(f"{name}/{role}-{index}", group=member))
    return made


async def ids(harness: LookoutHarness, after: str, **query: Any) -> list[str]:
    return [each["clientId"] for each in (await harness.read("/groups", after, **query))["groups"]]


async def test_a_group_starts_when_each_role_has_its_minimum_of_runs(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(*announced("g"))
        path = f"/groups/{group_id('g')}"
        found = await harness.read(path, after)
        assert (found["state"], found["lastChange"]) == ("QUEUED", "groupSubmitted")
        assert found["roles"][1] == {
            "name": "worker", "min": 1, "max": 2, "queued": 2, "pending": 0, "running": 0,
            "succeeded": 0, "failed": 0, "stopped": 0,
        }  # fmt: skip
        after = await harness.append_events(leased("g/ps-0"))
        assert (await harness.read(path, after))["state"] == "QUEUED"
        after = await harness.append_events(leased("g/worker-0"))
        assert (await harness.read(path, after))["state"] == "STARTING"
        restart = events.GroupRestarting(group=group_id("g"), reason="x", counted=True)
        after = await harness.append_events(events.GroupRunning(group=group_id("g")))
        assert (await harness.read(path, after))["state"] == "RUNNING"
        after = await harness.append_events(restart, by="scheduler")
        found = await harness.read(path, after)
        assert (found["reason"], found["restarts"], found["changedBy"]) == ("x", 1, "scheduler")
        names = [(member["role"], member["index"]) for member in found["members"]]
        assert names == [("ps", 0), ("worker", 0), ("worker", 1)]
        assert found["members"][1]["node"] == "n0"


async def test_the_page_of_a_member_links_to_that_of_its_group(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(*announced("g"))
        await harness.read("/groups", after)
        job = (await harness.client.get(f"/jobs/{job_id('g/worker-1')}")).text
        assert f'<a href="/groups/{group_id("g")}">worker-1</a>' in job
        group = (await harness.client.get(f"/groups/{group_id('g')}")).text
        assert f'<a href="/jobs/{job_id("g/worker-1")}">worker-1</a>' in group
        assert (await harness.client.get("/groups/none")).status_code == 404


async def test_a_group_with_a_topology_shows_how_far_its_members_are_apart(
    fresh_database: str, valkey_url: str
) -> None:
    """T5."""
    topology = Topology(max_hops=2, scope=TopologyScope.GROUP)
    terms = msgspec.structs.replace(TERMS, topology=topology)
    first, *members = announced("g")
    async with running(fresh_database, valkey_url) as harness:
        known = msgspec.structs.replace(first, terms=terms)
        await harness.read("/groups", await harness.append_events(known, *members))
        report = scheduling_reports.GroupNearness(
            pool="default", queue="q", job_set="s", group=group_id("g"), hops={"worker": 2}
        )
        levels = scheduling_reports.RoundReport(pool="default", at_ms=1, topology=("zone", "rack"))
        await harness.append([scheduling_reports.record(each) for each in (report, levels)])
        path = f"/groups/{group_id('g')}"
        found = await until_read(
            lambda: harness.read(path), lambda found: found["roles"][1].get("hops") == 2
        )
        assert "hops" not in found["roles"][0]
        assert found["topology"] == {"maxHops": 2, "mode": "required", "scope": "group"}
        listed = (await harness.read("/groups"))["groups"]
        assert listed[0]["roles"][1]["hops"] == 2
        page = (await harness.client.get(path)).text
        assert "at most 2 hops" in page
        assert ">Hops</th>" in page
        assert "zone › rack" in (await harness.client.get("/pools")).text
        assert "Topology: zone › rack." in (await harness.client.get("/pools/default")).text


async def test_lists_have_pages_and_filters(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        for name in ("a", "b", "c"):
            await harness.append_events(*announced(name))
        after = await harness.append_events(
            events.GroupFailed(group=group_id("b"), reason="boom"), leased("c/ps-0"),
            leased("c/worker-1"),
        )  # fmt: skip
        assert set(await ids(harness, after)) == {"a", "b", "c"}
        assert await ids(harness, after, state="FAILED") == ["b"]
        assert await ids(harness, after, state="starting") == ["c"]
        assert await ids(harness, after, state="QUEUED") == ["a"]
        assert await ids(harness, after, queue="q", jobSet="s", clientId="a") == ["a"]
        assert await ids(harness, after, queue="other") == []
        first = await harness.read("/groups", after, limit=2)
        rest = await harness.read("/groups", after, limit=2, cursor=first["next"])
        assert len({each["id"] for each in (*first["groups"], *rest["groups"])}) == 3
        refused = await harness.get("/groups", state="HAPPY")
        assert refused.status_code == 422
        assert "is not the state of a group" in refused.text


async def test_groups_of_a_queue_that_a_caller_may_not_view_do_not_exist(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(*announced("g"))
        await harness.read("/groups", after)
        tokens = await prepare_tokens(fresh_database)  # the queue q is for bob alone
        statuses, seen = {}, {}
        for name, token in tokens.items():
            headers = {"Authorization": f"Bearer {token}"}
            path = f"/api/v1/groups/{group_id('g')}"
            statuses[name] = (await harness.client.get(path, headers=headers)).status_code
            page = await harness.client.get("/api/v1/groups", headers=headers)
            seen[name] = [group["clientId"] for group in page.json()["groups"]]
        assert statuses == {"anna": 404, "bob": 200}
        assert seen == {"anna": [], "bob": ["g"]}


async def test_the_events_of_a_group_are_a_stream_of_its_own_until_it_has_ended(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.append_events(*announced("g"), *announced("other"))
        after = await harness.append_events(events.GroupRunning(group=group_id("g")))
        path = f"/api/v1/groups/{group_id('g')}/events"
        found = (await harness.client.get(path, params={"after": after})).text
        lines = [json.loads(line) for line in found.splitlines()]
        assert [line["type"] for line in lines] == ["groupSubmitted", "groupRunning"]
        ends = asyncio.create_task(
            harness.client.get(
                path, params={"until": "finished", "lastEventId": lines[0]["id"]},
                headers={"accept": "text/event-stream"},
            )
        )  # fmt: skip
        await harness.append_events(events.GroupSucceeded(group=group_id("g")))
        text = (await ends).text
        types = [json.loads(line[6:])["type"] for line in text.splitlines() if line[:5] == "data:"]
        assert types == ["groupRunning", "groupSucceeded"]
        assert f"id: {lines[1]['id']}\n" in text
        assert (await harness.client.get("/api/v1/groups/none/events")).status_code == 404
        bad = await harness.client.get(path, params={"lastEventId": "x"})
        assert bad.status_code == 400


async def test_a_recreated_group_counts_and_shows_its_new_members_only(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.append_events(*announced("g"), leased("g/ps-0"), builders.running("g/ps-0"))
        terms = msgspec.structs.replace(TERMS, generation=2)
        changed = events.GroupChanged(
            group=group_id("g"), terms=terms, kind=events.GroupChangeKind.RECREATED, reason="image"
        )
        member = events.GroupMember(group_id("g"), "ps", 0, 2)
        after = await harness.append_events(changed, submitted("g/ps-0~2", group=member))
        found = await harness.read(f"/groups/{group_id('g')}", after)
        assert (found["state"], found["generation"], found["reason"]) == ("QUEUED", 2, "image")
        assert (found["roles"][0]["queued"], found["roles"][0]["running"]) == (1, 0)
        assert [member["id"] for member in found["members"]] == [job_id("g/ps-0~2")]
        assert (found["members"][0]["generation"], found["earlierMembers"]) == (2, 3)
        page = (await harness.client.get(f"/groups/{group_id('g')}")).text
        assert f'<a href="/jobs/{job_id("g/ps-0~2")}">ps-0</a>' in page
        assert f'<a href="/jobs/{job_id("g/ps-0")}">' not in page
        assert "re-created with new templates" in page
        assert "3 earlier members were scaled away or re-created" in page
        assert "<td>groupRecreated<" in page
        assert page.count('<svg class="members"') == 2


async def test_only_the_newest_member_of_an_index_is_listed(
    fresh_database: str, valkey_url: str
) -> None:
    """However often a group was scaled."""
    async with running(fresh_database, valkey_url) as harness:
        await harness.append_events(*announced("g"))
        for number in range(2, 5):
            before = "g/worker-1" if number == 2 else f"g/worker-1~{number - 1}"
            member = events.GroupMember(group_id("g"), "worker", 1)
            after = await harness.append_events(
                events.JobCancelRequested(job_id=job_id(before)),
                submitted(f"g/worker-1~{number}", group=member),
            )
        found = await harness.read(f"/groups/{group_id('g')}", after)
        names = [(member["role"], member["index"]) for member in found["members"]]
        assert names == [("ps", 0), ("worker", 0), ("worker", 1)]
        assert found["members"][2]["id"] == job_id("g/worker-1~4")
        assert found["earlierMembers"] == 3
        page = (await harness.client.get(f"/groups/{group_id('g')}")).text
        assert "3 earlier members were scaled away" in page
        (link,) = re.findall(r'href="([^"]+)">all jobs of this group<', page)
        jobs = (await harness.client.get(link.replace("&amp;", "&"))).text
        assert jobs.count("g/worker-1") >= 4


async def test_what_the_scheduler_scales_and_restarts_leaves_a_trace(
    fresh_database: str, valkey_url: str
) -> None:
    """Derived from the runs of the members."""
    path, reason = f"/groups/{group_id('g')}", "its capacity goes to job x"
    async with running(fresh_database, valkey_url) as harness:
        names = ("g/ps-0", "g/worker-0")
        start = [*map(leased, names), *map(builders.running, names), leased("g/worker-1")]
        after = await harness.append_events(*announced("g"), *start, builders.running("g/worker-1"))
        _, worker = (await harness.read(path, after))["roles"]
        assert worker["lastScaling"]["change"] == "started"
        assert worker["lastScaling"]["reason"] == "free capacity"
        surplus = job_id("g/worker-1")
        taken = events.JobRunPreempting(
            job_id=surplus, run=1, cause=events.PreemptionCause.SURPLUS, reason=reason
        )
        stopped = events.JobRunStopped(job_id=surplus, run=1, reason="terminated")
        await harness.append_events(taken, stopped, builders.requeued("g/worker-1"))
        again = [builders.failed_run("g/ps-0"), builders.requeued("g/ps-0"), leased("g/ps-0", 2)]
        after = await harness.append_events(*again)
        ps, worker = (await harness.read(path, after))["roles"]
        assert "lastScaling" not in ps
        last = worker["lastScaling"]
        assert (last["change"], last["members"], last["by"], last["reason"]) == (
            "stopped", 1, "scheduler", reason,
        )  # fmt: skip
        page = (await harness.client.get(path)).text
        assert re.search(r'class="mark restart".*<title>ps-0 restarted \(exit code 3\) at', page)
        assert page.count('class="mark scaled"') == 2
        for event, why in (("worker-1 stopped", reason), ("ps-0 restarted", "exit code 3")):
            (line,) = [line for line in page.splitlines() if f"<td>{event}<" in line]
            assert line.endswith(f'>scheduler</td><td class="wide-only">{why}</td></tr>')
        terms = msgspec.structs.replace(
            TERMS, roles=(TERMS.roles[0], events.GroupRole("worker", 1, 3))
        )
        changed = events.GroupChanged(
            group=group_id("g"), terms=terms, kind=events.GroupChangeKind.SCALED
        )
        _, worker = (await harness.read(path, await harness.append_events(changed)))["roles"]
        assert (worker["lastScaling"]["change"], worker["lastScaling"]["by"]) == ("changed", "anna")


async def test_a_member_that_waits_again_is_on_no_node(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        requeued = [leased("g/ps-0"), builders.failed_run("g/ps-0"), builders.requeued("g/ps-0")]
        after = await harness.append_events(*announced("g"), *requeued)
        member = (await harness.read(f"/groups/{group_id('g')}", after))["members"][0]
        assert (member["state"], member["run"]) == ("QUEUED", 1)
        assert "node" not in member
