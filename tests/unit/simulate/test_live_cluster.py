"""A simulation that begins with what a running Fairlead has."""

from pathlib import Path
from typing import Any

from fairlead_common.domain.lifecycle import JobState
from fairlead_scheduler.simulate import simulation
from fairlead_scheduler.simulate.input import live_cluster
from fairlead_scheduler.simulate.input.live_cluster import Cluster
from tests.unit.simulate.simulations import nothing

NOW = "2026-01-01T01:00:00Z"
NOW_MS = 1_767_229_200_000
Value = Any  # JSON


def job(name: str, **changes: Value) -> dict[str, Value]:
    """A queued job of two cores."""
    submission = {
        "shape": {"requests": {"cpu": 2000}},
        "whenInfeasible": "reject",
        "onPreemption": "requeue",
        **changes.pop("submission", {}),
    }
    queued = {
        "id": name,
        "queue": "a",
        "jobSet": "s",
        "state": "QUEUED",
        "priority": 0,
        "priorityClass": "default",
        "pool": "default",
    }
    return {**queued, **changes, "submission": submission}


def running(name: str, started: str, **changes: Value) -> dict[str, Value]:
    """A job that runs on the node."""
    return job(name, state="RUNNING", cluster="here", node="n", started=started, **changes)


def cluster(*jobs: dict[str, Value], runs: int = 0, cordoned: bool = False) -> Cluster:
    """One node of four cores."""
    node = {"node": "n", "pool": "default", "allocatable": {"cpu": 4.0}, "cordoned": cordoned}
    return live_cluster.decode(
        {
            "queues": [{"name": "a", "weight": 2.0, "limits": {}}],
            "priorityClasses": [{"name": "default", "value": 0, "preemption": "any"}],
            "clusters": [{"executor": "here", "runs": runs, "nodes": [node]}],
            "jobs": list(jobs),
        }
    )


def read(given: Cluster, **changes: Value) -> simulation.Input:
    """The input of a simulation in which each job runs for an hour."""
    order = simulation.Order(jobs=None, run_s=3600.0)._replace(**changes)
    return simulation.read(order, given, now_ms=NOW_MS)


def ends(given: Cluster) -> dict[str, float]:
    """When each job that succeeded ended, in hours from now."""
    order = simulation.Order(jobs=None, run_s=3600.0)
    found = simulation.read(order, given, now_ms=NOW_MS)
    ledger = simulation.run(order, found, None, nothing).ledger
    return {
        name: ledger.end_ms[number] / 3_600_000
        for name, number in found.trace.number.items()
        if ledger.state_of(number) is JobState.SUCCEEDED
    }


def test_jobs_that_run_end_when_the_rest_of_their_time_is_over_and_others_follow() -> None:
    given = cluster(
        running("old", "2026-01-01T00:15:00Z"), running("new", NOW), job("waits"), job("last")
    )
    assert ends(given) == {"old": 0.25, "new": 1.0, "waits": 1.25, "last": 2.0}


def test_a_run_that_takes_longer_than_said_ends_at_once() -> None:
    assert ends(cluster(running("old", "2025-12-31T00:00:00Z"))) == {"old": 0.0}


def test_a_maximum_run_time_counts_from_the_start_of_the_run() -> None:
    limit = {"maxRuntimeSeconds": 1800}
    given = cluster(running("old", "2026-01-01T00:45:00Z", submission=limit))
    order = simulation.Order(jobs=None, run_s=3600.0)
    ledger = simulation.run(
        order, simulation.read(order, given, now_ms=NOW_MS), None, nothing
    ).ledger
    assert (ledger.state_of(0), ledger.end_ms[0]) == (JobState.FAILED, 900_000)


def test_a_cordoned_node_finishes_its_runs_and_takes_no_more() -> None:
    given = cluster(running("old", NOW), job("waits"), cordoned=True)
    assert ends(given) == {"old": 1.0}


def test_a_job_with_a_start_time_waits_for_it() -> None:
    assert ends(cluster(job("later", submission={"startAfter": "2026-01-01T02:00:00Z"}))) == {
        "later": 2.0
    }


def test_held_jobs_and_those_that_wait_for_them_are_left_out_and_others_pools_too() -> None:
    given = cluster(
        job("held", submission={"hold": True}),
        job("after", submission={"after": ["held"]}),
        job("other", pool="gpu"),
        job("ended-before", submission={"after": ["long-gone"]}),
    )
    found = read(given)
    assert found.trace.ids == ["ended-before"]
    assert found.notes == ["2 jobs left out: held, or waiting for jobs that are left out"]


def test_runs_of_jobs_that_the_token_does_not_show_are_noted() -> None:
    assert read(cluster(running("mine", NOW), runs=3)).notes == [
        "the runs of 2 jobs that this token is not permitted to view count as free resources"
    ]


def test_queues_and_classes_are_those_of_the_server_unless_the_settings_have_them(
    tmp_path: Path,
) -> None:
    assert read(cluster(job("a"))).given.queues["a"].weight == 2.0
    settings = tmp_path / "settings.yaml"
    settings.write_text("queues: {a: {weight: 5}}")
    found = read(cluster(job("a")), settings=settings).given
    assert found.queues["a"].weight == 5.0
    assert [one.name for one in found.settings.priority_classes] == ["default"]


def test_a_file_for_submit_is_added_to_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("{queue: a, jobSet: s, jobs: [{clientId: mine, command: [x], cpu: 1}]}")
    assert read(cluster(job("theirs")), jobs=file).trace.ids == ["theirs", "mine"]
