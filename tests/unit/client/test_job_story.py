"""What `fairlead why` tells of a job."""

import datetime
from typing import Any

import msgspec

from fairlead.cli.output import job_story
from fairlead.models.job_models import JobDetail, Run, WaitingReason

NOW = datetime.datetime(2026, 1, 1, 0, 10, tzinfo=datetime.UTC)


def at(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00.000Z"


def job(state: str, **more: Any) -> JobDetail:  # Any: any field of a job
    return JobDetail(
        id="0a", queue="q", job_set="s", client_id="one", state=state, submitted=at(0), **more
    )


def test_a_waiting_job_has_the_reason_and_the_nodes_it_does_not_fit() -> None:
    why = WaitingReason(
        code="no-room", sentence="No node has room.", nodes={"too-small": 3, "cordoned": 1}
    )
    assert job_story.describe_history(job("QUEUED", why=why, position_in_queue="7"), NOW) == [
        "QUEUED: No node has room.",
        "  3 nodes: too-small",
        "  1 node: cordoned",
        "This job is 7th in queue q.",
        "It was submitted 10m0s ago as one of q/s.",
    ]


def test_a_held_job_has_the_command_that_releases_it() -> None:
    why = WaitingReason(code="hold", sentence="It is held.")
    assert (
        job_story.describe_history(job("QUEUED", why=why), NOW)[-1]
        == "`fairlead release q/s/one` releases it."
    )


def test_a_job_that_waits_for_others_names_them() -> None:
    why = WaitingReason(code="dependencies", sentence="It waits.", dependencies={"0b": "RUNNING"})
    assert "  0b: RUNNING" in job_story.describe_history(job("QUEUED", why=why), NOW)


def test_an_ended_job_lists_every_run() -> None:
    preempted = Run(
        run=1,
        state="STOPPED",
        node="n1",
        cluster="c",
        leased=at(1),
        running=at(2),
        ended=at(5),
        preemption_cause="urgency",
    )
    failed = Run(
        run=2,
        state="FAILED",
        node="n2",
        cluster="c",
        leased=at(6),
        running=at(6),
        ended=at(9),
        exit_code=3,
        reason="the command ended with exit code 3",
    )
    sentences = job_story.describe_history(
        job("FAILED", runs=(failed, preempted), reason="the command ended with exit code 3"), NOW
    )
    assert sentences == [
        "FAILED: The command ended with exit code 3.",
        "It was submitted 10m0s ago as one of q/s.",
        "Run 1 was placed on n1 of c 9m0s ago, started 1m0s later, ran for 3m0s, and ended as"
        " STOPPED: it was preempted (urgency).",
        "Run 2 was placed on n2 of c 4m0s ago, started 0s later, ran for 3m0s, and ended as"
        " FAILED: the command ended with exit code 3.",
        "`fairlead logs q/s/one` shows its output.",
    ]


def test_a_running_job_has_its_run_time() -> None:
    run = Run(run=1, state="RUNNING", node="n", cluster="n", leased=at(1), running=at(2))
    sentences = job_story.describe_history(
        job("RUNNING", node="n", runs=(run,), stopping="cancel"), NOW
    )
    assert sentences[0] == "RUNNING: on n"
    assert sentences[1] == "It is being stopped: cancel was requested."
    assert sentences[-1].endswith("started 1m0s later, and has run for 8m0s.")


def test_a_preempted_run_names_its_preemptor_one_time() -> None:
    reason = "fair-share: preempted for 0z of queue b; queue a was at 2.00 of its fair share"
    run = Run(run=1, state="RUNNING", node="n", leased=at(1), running=at(2), reason=reason)
    sentences = job_story.describe_history(
        job("RUNNING", node="n", runs=(run,), stopping="preempt"), NOW
    )
    assert sentences[1] == f"It is being stopped: {reason}."
    ended = msgspec.structs.replace(
        run, state="STOPPED", ended=at(5), preemption_cause="fair-share"
    )
    assert job_story.describe_history(job("QUEUED", runs=(ended,)), NOW)[-1].endswith(
        f"as STOPPED: {reason}."
    )


def test_a_job_that_never_ran_is_described() -> None:
    sentences = job_story.describe_history(
        job("CANCELLED", reason="no longer needed", ended=at(4)), NOW
    )
    assert sentences == [
        "CANCELLED: No longer needed.",
        "It was submitted 10m0s ago as one of q/s.",
        "It never ran, and ended 6m0s ago.",
    ]
