"""Simulations that start with the nodes, queues and jobs of a running Fairlead."""

from pathlib import Path
from typing import Any

from fairlead_common.domain.lifecycle import JobState
from fairlead_scheduler.simulate import simulation
from fairlead_scheduler.simulate.input import live_cluster
from fairlead_scheduler.simulate.input.live_cluster import Cluster
from tests.unit.simulate.simulations import ignore_progress

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
    return live_cluster.decode_cluster(
        {
            "queues": [{"name": "a", "weight": 2.0, "limits": {}}],
            "priorityClasses": [{"name": "default", "value": 0, "preemption": "any"}],
            "clusters": [{"executor": "here", "runs": runs, "nodes": [node]}],
            "jobs": list(jobs),
        }
    )


def read(state: Cluster, **changes: Value) -> simulation.Input:
    """The input of a simulation in which each job runs for an hour."""
    options = simulation.SimulationOptions(jobs=None, run_s=3600.0)._replace(**changes)
    return simulation.read_input(options, state, now_ms=NOW_MS)


def ends(state: Cluster) -> dict[str, float]:
    """When each job that succeeded ended, in hours from now."""
    options = simulation.SimulationOptions(jobs=None, run_s=3600.0)
    found = simulation.read_input(options, state, now_ms=NOW_MS)
    ledger = simulation.run_simulation(options, found, None, ignore_progress).ledger
    return {
        name: ledger.end_ms[number] / 3_600_000
        for name, number in found.trace.number.items()
        if ledger.state_of(number) is JobState.SUCCEEDED
    }


def test_running_jobs_end_after_their_remaining_time() -> None:
    state = cluster(
        running("old", "2026-01-01T00:15:00Z"), running("new", NOW), job("waits"), job("last")
    )
    assert ends(state) == {"old": 0.25, "new": 1.0, "waits": 1.25, "last": 2.0}


def test_a_run_beyond_its_run_time_ends_immediately() -> None:
    assert ends(cluster(running("old", "2025-12-31T00:00:00Z"))) == {"old": 0.0}


def test_a_maximum_run_time_counts_from_the_start_of_the_run() -> None:
    limit = {"maxRuntimeSeconds": 1800}
    state = cluster(running("old", "2026-01-01T00:45:00Z", submission=limit))
    options = simulation.SimulationOptions(jobs=None, run_s=3600.0)
    ledger = simulation.run_simulation(
        options, simulation.read_input(options, state, now_ms=NOW_MS), None, ignore_progress
    ).ledger
    assert (ledger.state_of(0), ledger.end_ms[0]) == (JobState.FAILED, 900_000)


def test_a_cordoned_node_finishes_its_runs_and_gets_no_jobs() -> None:
    state = cluster(running("old", NOW), job("waits"), cordoned=True)
    assert ends(state) == {"old": 1.0}


def test_a_job_waits_for_its_start_time() -> None:
    assert ends(cluster(job("later", submission={"startAfter": "2026-01-01T02:00:00Z"}))) == {
        "later": 2.0
    }


def test_held_jobs_their_dependents_and_jobs_of_other_pools_are_skipped() -> None:
    state = cluster(
        job("held", submission={"hold": True}),
        job("after", submission={"after": ["held"]}),
        job("other", pool="gpu"),
        job("ended-before", submission={"after": ["ended"]}),
    )
    found = read(state)
    assert found.trace.ids == ["ended-before"]
    assert found.notes == ["2 jobs left out: held, or waiting for jobs that are left out"]


def test_runs_of_invisible_jobs_are_reported_in_a_note() -> None:
    assert read(cluster(running("mine", NOW), runs=3)).notes == [
        "the runs of 2 jobs that this token is not permitted to view count as free resources"
    ]


def test_settings_override_queues_and_classes_of_the_server(
    tmp_path: Path,
) -> None:
    assert read(cluster(job("a"))).settings.queues["a"].weight == 2.0
    settings = tmp_path / "settings.yaml"
    settings.write_text("queues: {a: {weight: 5}}")
    found = read(cluster(job("a")), settings=settings).settings
    assert found.queues["a"].weight == 5.0
    assert [one.name for one in found.scheduler.priority_classes] == ["default"]


def test_jobs_of_a_submit_file_are_added_to_the_live_jobs(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("{queue: a, jobSet: s, jobs: [{clientId: mine, command: [x], cpu: 1}]}")
    assert read(cluster(job("theirs")), jobs=file).trace.ids == ["theirs", "mine"]
