"""Rules of scheduling on simulated nodes: shares, gangs over nodes, and over executors."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import PreemptionCause
from fairlead_standalone.servers.addresses import free_port
from tests.e2e.scheduling.installation import Installation, ended, idle


def test_a_queue_below_its_share_preempts_and_events_give_the_cause(
    simulated: Installation,
) -> None:
    for queue in ("rich", "poor"):
        simulated.ask("POST", "/queues", {"name": queue})
    mine = [idle(f"rich-{number}", cpu="4") for number in range(4)]
    simulated.submit("rich", "r", *mine)
    for number in range(4):
        simulated.first(f"rich-{number}", ev.JobRunRunning)
    yours = [idle(f"poor-{number}", cpu="4") for number in range(2)]
    simulated.submit("poor", "p", *yours)
    for number in range(2):
        simulated.first(f"poor-{number}", ev.JobRunRunning)
    seen = simulated.facts(lambda seen: sum(isinstance(e, ev.JobRunPreempting) for e in seen) >= 2)
    preempted = [event for event in seen if isinstance(event, ev.JobRunPreempting)]
    assert {event.cause for event in preempted} == {PreemptionCause.FAIR_SHARE}
    takers = {simulated.ids[f"poor-{number}"] for number in range(2)}
    assert {event.for_job for event in preempted} == takers
    said = " ".join(event.reason for event in preempted)
    for share in ("2.00", "1.50"):
        assert f"queue rich was at {share} of its fair share, queue poor is at" in said
    simulated.standalone.wait_for(lambda: shares_of(simulated) >= {"rich", "poor"})
    for queue, names in (("rich", mine), ("poor", yours)):
        ids = [simulated.ids[str(job["clientId"])] for job in names]
        simulated.ask("POST", "/jobs/cancel", {"ids": ids})
        simulated.standalone.wait_for(lambda queue=queue: not live(simulated, queue))  # type: ignore[misc]


def shares_of(installation: Installation) -> set[str]:
    """The queues of which the report of the pool says what they hold."""
    report = installation.ask("GET", "/pools/default/report")
    return {share["queue"] for share in report["shares"]}


def live(installation: Installation, queue: str) -> int:
    """How many jobs of a queue have not ended."""
    sets = installation.ask("GET", f"/jobsets?queue={queue}")
    found = next(value for value in sets.values() if isinstance(value, list))
    return sum(each["live"] for each in found)


def see_reason(simulated: Installation, job_id: str, code: str) -> str:
    """The sentence of why a job waits, once it has this code."""

    def read() -> Any:
        return simulated.ask("GET", f"/jobs/{job_id}")["why"]

    simulated.standalone.wait_for(lambda: read()["code"] == code)
    return str(read()["sentence"])


def test_a_group_lands_in_the_rack_that_it_requires(simulated: Installation) -> None:
    """T2 to T5: three members of two cores fit only in rack b, and the fourth waits."""
    template = {**idle("w", cpu="2", pool="racks")}
    del template["clientId"]
    role = {"name": "w", "min": 3, "max": 4, "template": template}
    found = [
        {"clientId": level, "roles": [role], "topology": {"level": level}}
        for level in ("rack", "block")
    ]
    body = {"queue": "default", "jobSet": "near", "groups": found}
    near, unknown = simulated.ask("POST", "/groups", body)["groups"]

    def read() -> Any:
        return simulated.ask("GET", f"/groups/{near['id']}?wait=5s")

    simulated.standalone.wait_for(lambda: read()["roles"][0].get("hops") is not None)
    group = read()
    nodes = {member.get("node") for member in group["members"] if member.get("node")}
    assert nodes == {"rack-b-0", "rack-b-1", "rack-b-2"}
    assert group["topology"] == {"level": "rack", "mode": "required", "scope": "role"}
    assert group["roles"][0]["hops"] == 2
    waits = {member["id"] for member in near["members"]}
    waits -= {member["id"] for member in group["members"] if member.get("node")}
    see_reason(simulated, waits.pop(), "insufficient-resources")
    sentence = see_reason(simulated, unknown["members"][0]["id"], "topology-level")
    assert "its levels are zone (4 hops), example.com/rack (2 hops)" in sentence
    levels = ["zone", "example.com/rack", "hostname"]
    assert simulated.ask("GET", "/pools/racks/report")["round"]["topology"] == levels


def test_a_returned_member_requeues_its_gang_which_fails_without_nodes(
    simulated: Installation,
) -> None:
    gang = {"name": "g", "size": 2}
    bad = {"fairlead.dev/simulated-failure": "returned"}
    fields: dict[str, Any] = {"gang": gang, "cpu": "2", "pool": "pairs"}
    jobs = [idle("steady", **fields), idle("bad", annotations=bad, **fields)]
    simulated.submit("default", "pairs", *jobs)
    ends = [simulated.first(name, ev.JobFailed).reason for name in ("bad", "steady")]
    assert "every eligible node was tried" in ends[0]
    assert ends[1].endswith(ends[0])
    leased = simulated.of("bad", ev.JobRunLeased, 2)
    assert {event.node for event in leased} == {"pair0", "pair1"}
    again = simulated.of("steady", ev.JobRequeued, 2)
    assert all("returns to the queue" in event.reason for event in again)
    assert not any(event.counted for event in again)


def test_a_job_runs_on_its_preferred_node_or_another_if_that_is_full(
    simulated: Installation,
) -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}
    node_preference = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": term}]
    }
    container = {"name": "main", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    spec = {"containers": [container], "affinity": {"nodeAffinity": node_preference}}
    long = {"fairlead.dev/simulated-seconds": "100000"}
    jobs = [
        {"clientId": name, "pool": "wishes", "podSpec": spec, "annotations": long}
        for name in ("first", "second", "third")
    ]
    simulated.submit("default", "wishes", *jobs)
    nodes = [simulated.first(str(job["clientId"]), ev.JobRunLeased).node for job in jobs]
    assert nodes == ["fast0", "fast0", "small0"]


@pytest.fixture
def second(simulated: Installation) -> Iterator[subprocess.Popen[bytes]]:
    """Another executor, with one node of the pool `lonely`."""
    nodes = [{"name": "far", "resources": {"cpu": 2, "memory": "4Gi"}, "pool": "lonely"}]
    environment = {
        **os.environ,
        "FAIRLEAD_LOG_URL": simulated.log_url,
        "FAIRLEAD_EXECUTOR": "other",
        "FAIRLEAD_BACKEND": "simulated",
        "FAIRLEAD_HEARTBEAT_S": "0.5",
        "FAIRLEAD_SIMULATION": json.dumps({"nodes": nodes}),
        "FAIRLEAD_HTTP_PORT": str(free_port()),
    }
    words = [sys.executable, "-P", "-m", "fairlead_executor"]
    process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    yield process
    ended(process)


def test_a_gang_continues_without_a_dead_executor_and_the_lost_member_rejoins(
    simulated: Installation, second: subprocess.Popen[bytes]
) -> None:
    wide = {"name": "wide", "size": 2}
    fields: dict[str, Any] = {"gang": wide, "cpu": "2", "pool": "lonely"}
    fields["whenInfeasible"] = "wait"  # the other executor may not have reported its node yet
    simulated.submit("default", "wide", *(idle(name, **fields) for name in ("near", "far")))
    leased = {name: simulated.first(name, ev.JobRunRunning) for name in ("near", "far")}
    assert all(event.run == 1 for event in leased.values())
    where = {name: simulated.first(name, ev.JobRunLeased).executor for name in leased}
    assert sorted(where.values()) == ["local", "other"]
    lost = next(name for name, executor in where.items() if executor == "other")
    second.kill()
    given_up = simulated.first(lost, ev.JobRunLost)
    assert given_up.reason == "executor other has stopped reporting"
    requeued = simulated.first(lost, ev.JobRequeued)
    assert not requeued.counted
    (retained,) = set(where) - {lost}
    simulated.ask("POST", "/jobs/cancel", {"ids": [simulated.ids[retained]]})
    again = simulated.of(lost, ev.JobRunLeased, 2)[1]
    assert (again.run, again.executor) == (2, "local")
    simulated.ask("POST", "/jobs/cancel", {"ids": [simulated.ids[lost]]})
