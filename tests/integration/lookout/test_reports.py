"""Reports, rounds, clusters with what runs there, shares and resource-hours over time."""

import asyncio
import operator
import re
from functools import partial

import asyncpg
import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.records import clusters, configuration, scheduling_reports
from fairlead_common.log import Record
from fairlead_common.log.memory_log import MemoryCore
from fairlead_common.service import clock
from fairlead_lookout.domain.resource_usage import HOUR_MS
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import job_id, leased, submitted
from tests.unit.lookout.builders import running as started
from tests.waiting import until_read


def share(queue: str, actual: float, queued: int = 0) -> Record:
    """A queue's standing."""
    return scheduling_reports.record(
        scheduling_reports.QueueShare(
            pool="default",
            queue=queue,
            weight=1.0,
            fair_share=0.5,
            actual_share=actual,
            queued=queued,
            skipped={"insufficient-resources": queued} if queued else {},
        )
    )


async def test_nodes_have_their_jobs_and_their_cordon(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        nodes = [
            clusters.Node(executor="e", name=f"n{number}", allocatable={"cpu": 4000})
            for number in range(3)
        ]
        avoidance = clusters.Avoidance(3, "no disk", 1_700_000_000_000)
        nodes[2] = msgspec.structs.replace(nodes[2], unschedulable=True, avoided=avoidance)
        cordon = configuration.Cordon(executor="e", node="n1", reason="a bad disk")
        await harness.append(
            [
                *map(clusters.node_record, nodes),
                clusters.heartbeat_record(clusters.Heartbeat(executor="e", backend="simulated")),
                configuration.record(cordon),
            ]
        )
        history = [submitted("a"), submitted("b"), leased("a", node="n0"), leased("b", node="n0")]
        await harness.read("/jobsets", await harness.append_events(*history, started("a")))
        found = await until_read(
            lambda: harness.read("/clusters/e/nodes"),
            lambda found: len(found["nodes"]) == 3 and found["nodes"][1].get("cordoned", False),
        )
        first, second, third = found["nodes"]
        assert (first["node"], first["runs"], first["used"]) == ("n0", 2, {"cpu": 2.0})
        assert set(first["jobs"]) == {job_id("a"), job_id("b")}
        assert (second["reason"], second["runs"]) == ("a bad disk", 0)
        assert third["used"] == {}
        until_time = "2023-11-14T22:13:20.000Z"
        assert third["avoided"] == {"failures": 3, "reason": "no disk", "until": until_time}
        (cluster,) = (await harness.read("/clusters"))["clusters"]
        assert (cluster["runs"], cluster["used"]) == (2, {"cpu": 2.0})
        assert cluster["cordonedNodes"] == 2
        assert cluster["allocatable"] == {"cpu": 12.0}
        other = clusters.Node(executor="f", name="n0", pool="gpu", allocatable={"cpu": 8000})
        await harness.append([clusters.node_record(other)])
        await until_read(
            lambda: harness.read("/clusters"), lambda found: len(found["clusters"]) == 2
        )
        pools = (await harness.client.get("/pools")).text
        assert re.findall(r"data-pool=\"(\w+)\"[^§]*?num\">([\d.]+ of [\d.]+)<", pools) == [
            ("default", "2 of 12"),
            ("gpu", "0 of 8"),
        ]
        page = (await harness.client.get("/pools/default")).text
        assert "2 of 12" in page.partition("<h2>In use</h2>")[2].partition("<h2>")[0]
        assert (await harness.get("/clusters/nowhere/nodes")).status_code == 404


async def test_reports_of_queues_and_pools_and_the_last_rounds(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    now_ms = clock.now_ms()
    async with running(fresh_database, valkey_url, core) as harness:
        queue = configuration.Queue(name="q", weight=2.0, limits={"default": {"cpu": 0.5}})
        why = scheduling_reports.WaitingReport(
            pool="default",
            queue="q",
            code="queue-limit",
            sentence="at its limit",
            shape="x",
            jobs=7,
        )
        rounds = [
            scheduling_reports.RoundReport(pool="default", at_ms=now_ms + n, scheduled=n)
            for n in (1, 2, 3)
        ]
        await harness.append(
            [
                share("q", 0.25, queued=7),
                share("other", 0.5),
                scheduling_reports.record(why),
                configuration.record(queue),
                *map(scheduling_reports.record, rounds),
            ]
        )
        found = await until_read(
            lambda: harness.read("/queues/q/report"),
            lambda found: bool(found["reasons"] and found["limits"]),
        )
        assert found["reasons"] == {"queue-limit": 7}
        assert found["limits"] == {"default": {"cpu": 0.5}}
        assert [each["actualShare"] for each in found["shares"]] == [0.25]
        pool = await harness.read("/pools/default/report")
        assert [each["queue"] for each in pool["shares"]] == ["other", "q"]
        assert pool["round"]["scheduled"] == 3
        assert pool["round"]["time"] == timestamps.rfc3339(now_ms + 3)
        for unknown in ("queues/nobody/report", "pools/nowhere/report", "pools/nowhere/rounds"):
            assert (await harness.get(f"/{unknown}")).status_code == 404, unknown
        await _rounds(harness, [3, 2, 1])
    async with running(fresh_database, valkey_url, core) as harness:
        await _rounds(harness, [3, 2, 1])


async def _rounds(harness: LookoutHarness, want: list[int]) -> None:
    found = await until_read(
        lambda: harness.read("/pools/default/rounds"),
        lambda found: len(found["rounds"]) == len(want),
    )
    assert [each["scheduled"] for each in found["rounds"]] == want
    assert len((await harness.read("/pools/default/rounds", limit=1))["rounds"]) == 1


async def test_shares_and_resource_hours_over_time_are_the_same_after_a_restart(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    began = timestamps.rfc3339(clock.now_ms() - 60_000)
    async with running(fresh_database, valkey_url, core) as harness:
        await harness.append([share("q", 0.25, queued=3)])
        await harness.read("/jobsets", await harness.append_events(submitted("a"), leased("a")))
        found = await until_read(
            lambda: harness.read("/fairness", queue="q", **{"from": began}),
            lambda found: bool(found["points"] and found["used"]),
        )
        assert found["stepSeconds"] == 60
        assert {point["share"] for point in found["points"]} == {0.25}
        assert {point["queued"] for point in found["points"]} == {3.0}
        assert 0 < found["used"]["cpu"] < 0.1
    async with running(fresh_database, valkey_url, core) as harness:
        await harness.append([share("q", 0.75)])
        found = await until_read(
            lambda: harness.read("/fairness", queue="q", **{"from": began}),
            lambda found: found["points"][-1]["share"] > 0.25,
        )
        assert all(0.25 <= point["share"] <= 0.75 for point in found["points"])
        for query in (
            {"from": "x"},
            {"from": "2030-01-01T00:00:00Z"},
            {"to": began, "from": began},
        ):
            answer = await harness.get("/fairness", queue="q", **query)
            assert answer.status_code == 422


async def test_the_page_of_a_queue_shows_its_limits_and_who_used_how_much(
    fresh_database: str, valkey_url: str
) -> None:
    now_ms = clock.now_ms()
    times = [now_ms - 3_600_000]
    async with running(fresh_database, valkey_url, log_now_ms=lambda: times[-1]) as harness:
        queue = configuration.Queue(
            name="q", version=1, limits={"default": {"cpu": 0.5, "memory": "8Gi"}}
        )
        await harness.append([configuration.record(queue)])
        for job_set, names in (("small", ["a"]), ("large", ["b", "c"])):
            jobs = [submitted(name, job_set) for name in names]
            runs = [leased(name, job_set=job_set) for name in names]
            by = "anna" if job_set == "small" else "ben"
            await harness.append_events(*jobs, *runs, job_set=job_set, by=by)
        times.append(now_ms)
        idle = await harness.append_events(submitted("d", "idle"), job_set="idle")
        await harness.read("/jobs", idle)
        text = (await harness.client.get("/queues/q")).text
        limits = text.partition("<h2>Limits</h2>")[2].partition("</table>")[0]
        assert re.findall(r"<td>(\w+)</td><td class=\"num\">([^<]+)</td>", limits) == [
            ("cpu", "50.0 % of each pool"),
            ("memory", "8Gi"),
        ]
        users = text.partition("Who used how much")[2].partition("</table>")[0]
        assert re.findall(r"title\">(\w+)</td><td class=\"num\">(\d\.\d+) h<", users) == [
            ("ben", "2.00"),
            ("anna", "1.00"),
        ]
        found = (await harness.read("/fairness", queue="q"))["users"]
        assert [(each["user"], round(each["used"]["cpu"])) for each in found] == [
            ("ben", 2),
            ("anna", 1),
        ]
        ranked = text.partition("Job sets that used most")[2]
        assert re.findall(r">(\w+)</a></td><td class=\"num\">(\d\.\d+) h<", ranked) == [
            ("large", "2.00"),
            ("small", "1.00"),
        ]


async def test_usage_is_recorded_for_at_most_100_users_of_an_hour(
    fresh_database: str, valkey_url: str
) -> None:
    hour_ms = clock.now_ms() // HOUR_MS * HOUR_MS
    times = [hour_ms - HOUR_MS]
    async with running(fresh_database, valkey_url, log_now_ms=lambda: times[-1]) as harness:
        for number in range(103):
            names = [f"j{number}"]
            jobs = [submitted(name) for name in names], [leased(name) for name in names]
            after = await harness.append_events(*jobs[0], *jobs[1], by=f"user-{number:03}")
        await harness.read("/jobs", after)
        times.append(hour_ms)
        await harness.read("/jobs", await harness.append_events(submitted("k"), leased("k")))
        connection = await asyncpg.connect(fresh_database)
        try:
            rows = await connection.fetch(
                "SELECT submitted_by, used FROM fairlead_lookout.user_usage WHERE queue = 'q'"
            )
        finally:
            await connection.close()
        used = {row["submitted_by"]: row["used"] / HOUR_MS / 1000 for row in rows}
        assert used == {f"user-{number:03}": 1.0 for number in range(100)} | {"": 3.0}
        span = {"from": timestamps.rfc3339(times[0]), "to": timestamps.rfc3339(hour_ms)}
        found = await harness.read("/fairness", queue="q", **span)
        assert round(found["used"]["cpu"]) == 103
        assert len(found["users"]) == 100
        assert "Other users" in (await harness.client.get("/queues/q")).text


async def test_reports_wait_for_a_changed_queue_or_cordon(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        queue = configuration.Queue(name="q", version=7, cordoned=True)
        cordon = configuration.Cordon(executor="e", version=8)
        beat = clusters.heartbeat_record(clusters.Heartbeat(executor="e", backend="simulated"))
        await harness.append([beat])
        await until_read(lambda: harness.read("/clusters"), lambda found: found["clusters"])
        waiting = asyncio.create_task(
            harness.read("/queues/q/report", configuration.position(queue))
        )
        await harness.append([configuration.record(queue), configuration.record(cordon)])
        assert (await waiting)["cordoned"]
        (cluster,) = (await harness.read("/clusters", configuration.position(cordon)))["clusters"]
        assert cluster["cordoned"]
        older = configuration.position(configuration.Queue(name="q", version=6))
        assert (await harness.read("/queues/q/report", older))["cordoned"]


async def test_a_wait_for_a_nonexistent_version_times_out(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        never = configuration.position(configuration.Queue(name="q", version=1))
        answer = await harness.get("/queues/q/report", never, wait="1ms")
        assert answer.status_code == 503
        assert "has not reached that position" in answer.json()["detail"]


async def test_a_job_whose_pool_has_no_nodes_says_so_without_a_report(
    fresh_database: str, valkey_url: str
) -> None:
    """The scheduler reports on the first of the pools that only jobs name."""
    async with running(fresh_database, valkey_url) as harness:
        position = await harness.append_events(submitted("a"))
        await harness.read("/jobsets", position)
        found = await until_read(
            lambda: harness.read(f"/jobs/{job_id('a')}"),
            lambda found: found["why"]["code"] != "scheduling",
        )
        assert found["why"] == {
            "code": "no-matching-node",
            "sentence": (
                "Pool default has no nodes. Start an executor that reports nodes in this pool."
            ),
        }
        (listed,) = (await harness.read("/jobs"))["jobs"]
        assert listed["waitingFor"] == found["waitingFor"] == "no-matching-node"
        page = (await harness.client.get("/jobs")).text
        assert "its pool has no nodes" in page
        node = clusters.Node(executor="e", name="n0", allocatable={"cpu": 4000})
        await harness.append([clusters.node_record(node)])
        found = await until_read(
            lambda: harness.read(f"/jobs/{job_id('a')}"),
            lambda found: found["why"]["code"] == "scheduling",
        )
        (listed,) = (await harness.read("/jobs"))["jobs"]
        assert listed["waitingFor"] == "scheduling"
        moved = msgspec.structs.replace(node, pool="other")
        await harness.append([clusters.node_record(moved)])
        await until_read(
            lambda: harness.read(f"/jobs/{job_id('a')}"),
            lambda found: found["why"]["code"] == "no-matching-node",
        )


async def test_an_executor_is_stale_and_lost_by_the_limits_of_the_scheduler(
    fresh_database: str, valkey_url: str
) -> None:
    node = clusters.Node(executor="e", name="n0", allocatable={"cpu": 4000})
    async with running(fresh_database, valkey_url) as harness:
        beat = clusters.heartbeat_record(clusters.Heartbeat(executor="e", backend="simulated"))
        await harness.append([clusters.node_record(node), beat])

        async def read_statuses() -> list[str]:
            return [each["status"] for each in (await harness.read("/clusters"))["clusters"]]

        for stale_ms, timeout_ms, status, effect in (
            (30_000, 600_000, "REPORTING", None),
            (0, 600_000, "STALE", "Nothing new starts there"),
            (0, 1, "LOST", "Its runs are given up"),
        ):
            leader = clusters.LeaderHeartbeat(
                instance="one", executor_stale_ms=stale_ms, executor_timeout_ms=timeout_ms
            )
            await harness.append([clusters.leader_heartbeat_record(leader)])
            await until_read(read_statuses, partial(operator.eq, [status]))
            for path in ("/about", "/clusters", "/clusters/e", "/clusters/e/nodes/n0"):
                answer = await harness.client.get(path)
                assert answer.status_code == 200
                row = answer.text.partition('data-part="Executor e"')[2]
                text = row.partition("</tr>")[0] or answer.text
                for other in ("stale", "lost"):
                    is_said = re.search(rf">{other}\b", text, re.IGNORECASE) is not None
                    assert is_said == (other.upper() == status), (path, other, status)
                assert effect is None or path == "/clusters" or effect in text
