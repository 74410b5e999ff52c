"""Rules of scheduling on real processes: preemption, gangs, retries, deadlines, order."""

from pathlib import Path

import pytest

from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, PreemptionCause
from fairlead_common.domain.records.leases import DesiredState
from tests.e2e.scheduling.installation import Installation, lines, shell, wait_lines

LOW, HIGH = {"priorityClass": "low"}, {"priorityClass": "high"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where jobs write what they did."""
    return tmp_path / "lines"


def stubborn(file: Path) -> str:
    """Runs until it is told to end, takes its time for that; the second time it just ends."""
    return f"""
        if [ "$FAIRLEAD_RUN" = 2 ]; then echo again >> {file}; exit 0; fi
        trap 'sleep 0.5; echo gone >> {file}; exit 0' TERM
        echo started >> {file}
        while :; do sleep 0.05; done
    """


def test_an_urgent_job_starts_after_the_preempted_run_which_is_repeated(
    machine: Installation, file: Path
) -> None:
    machine.submit("default", "urgency", shell("low", stubborn(file), cpu="2", **LOW))
    wait_lines(machine.standalone, file, "started")
    machine.submit("default", "urgency", shell("high", f"echo high >> {file}", cpu="2", **HIGH))
    machine.first("low", ev.JobSucceeded)
    assert lines(file) == ["started", "gone", "high", "again"]
    preempting = machine.first("low", ev.JobRunPreempting)
    assert (preempting.cause, preempting.for_job) == (
        PreemptionCause.URGENCY,
        machine.ids["high"],
    )
    assert "queue default was at" in preempting.reason
    assert "of its fair share" in preempting.reason
    requeued = machine.first("low", ev.JobRequeued)
    assert not requeued.counted
    first = machine.leases_of("local", "high")[0]
    assert first.after == (f"{machine.ids['low']}-1",)
    assert DesiredState.STOP in {lease.desired_state for lease in machine.leases_of("local", "low")}
    ended_job = machine.see("low", lambda job: job.state == "SUCCEEDED")
    assert ended_job.run == 2


def test_a_preempted_job_ends_if_its_policy_is_fail(machine: Installation, file: Path) -> None:
    job = shell("fails", stubborn(file), cpu="2", onPreemption="fail", **LOW)
    machine.submit("default", "final", job)
    wait_lines(machine.standalone, file, "started")
    machine.submit("default", "final", shell("taker", f"echo high >> {file}", cpu="2", **HIGH))
    preempted = machine.first("fails", ev.JobPreempted)
    assert "preempted for" in preempted.reason
    machine.first("taker", ev.JobSucceeded)
    assert machine.see("fails", lambda job: job.state == "PREEMPTED").run == 1


def test_a_retry_after_oom_gets_more_memory(machine: Installation) -> None:
    hungry = "x = bytearray(100 << 20); import os, time; time.sleep(60)"
    script = f'[ "$FAIRLEAD_RUN" = 1 ] && exec python3 -c "{hungry}"; exit 0'
    retry = {"limit": 1, "on": ["oom"], "memoryFactor": 2.5}
    machine.submit("default", "memory", shell("hungry", script, retry=retry))
    machine.first("hungry", ev.JobSucceeded)
    requeued = machine.first("hungry", ev.JobRequeued)
    assert requeued.counted
    assert "retry 1 of 1 after oom" in requeued.reason
    assert "memory 64Mi -> 160Mi" in requeued.reason
    again = next(lease for lease in machine.leases_of("local", "hungry") if lease.run == 2)
    assert again.requests["memory"] == 160 << 20
    assert bytes(again.spec).count(b'"160Mi"') == 2


def test_a_job_beyond_its_maximum_run_time_is_ended(machine: Installation) -> None:
    machine.submit("default", "deadline", shell("long", "sleep 600", maxRuntimeSeconds=1))
    failed = machine.first("long", ev.JobFailed)
    assert failed.category is FailureCategory.DEADLINE
    assert "maximum run time of 1 s" in failed.reason


def test_members_of_a_gang_are_leased_together_with_gang_variables(
    machine: Installation, file: Path
) -> None:
    words = "$FAIRLEAD_GANG_NAME $FAIRLEAD_GANG_SIZE $FAIRLEAD_GANG_MIN_SIZE $FAIRLEAD_GANG_MEMBER"
    where = '$FAIRLEAD_GANG_UNIFORMITY_LABEL="$FAIRLEAD_GANG_UNIFORMITY_VALUE" on $FAIRLEAD_NODE'
    script = f'echo "{words} {where}" >> {file}'
    label = "kubernetes.io/hostname"
    gang = {"name": "crew", "size": 2, "minSize": 2, "uniformityLabel": label, "member": 1}
    machine.submit("default", "crew", shell("one", script, gang=gang))
    why = machine.see("one", lambda job: job.why is not None and job.why.code != "scheduling").why
    assert why is not None
    assert why.code == "gang-incomplete"
    machine.submit("default", "crew", shell("two", script, gang={**gang, "member": 0}))
    for name in ("one", "two"):
        machine.first(name, ev.JobSucceeded)
    node = machine.first("one", ev.JobRunLeased).node
    there = f"{label}={node} on {node}"
    assert sorted(lines(file)) == [f"crew 2 2 {member} {there}" for member in (0, 1)]


def test_a_gang_fails_as_a_whole_if_a_member_starts_on_no_node(
    machine: Installation,
) -> None:
    gang = {"name": "lame", "size": 2}
    bad = {**shell("lame", ""), "command": ["/no/such/command"]}
    jobs = [shell("sound", "sleep 600", gang=gang), {**bad, "gang": gang}]
    machine.submit("default", "lame", *jobs)
    ends = [machine.first(name, ev.JobFailed) for name in ("lame", "sound")]
    assert "every eligible node was tried" in ends[0].reason
    assert ends[1].reason == f"gang member {machine.ids['lame']} could not start: " + (
        ends[0].reason
    )
    back = machine.first("sound", ev.JobRequeued)
    assert "returns to the queue" in back.reason
    assert not back.counted


def test_a_cordoned_queue_starts_no_jobs_and_reports_the_reason(
    machine: Installation, file: Path
) -> None:
    # The scheduler learns of a cordon a moment after the response: until then nothing can start.
    block = shell("holder", f"while [ ! -e {file}.go ]; do sleep 0.05; done", cpu="2")
    machine.submit("default", "holder", block)
    machine.first("holder", ev.JobRunRunning)
    machine.ask("POST", "/queues", {"name": "shut"})
    machine.ask("POST", "/queues/shut/cordon", {"reason": "holiday"})
    machine.submit("shut", "s", shell("patient", f"echo ran >> {file}"))
    why = machine.see("patient", lambda job: job.why is not None and "holiday" in job.why.sentence)
    assert why.why is not None
    assert why.why.code == "queue-cordoned"
    Path(f"{file}.go").touch()
    machine.first("holder", ev.JobSucceeded)
    machine.submit("default", "holder", shell("other", "true"))
    machine.first("other", ev.JobSucceeded)
    assert not file.exists()
    machine.ask("POST", "/queues/shut/uncordon", {"reason": ""})
    machine.first("patient", ev.JobSucceeded)


def test_the_retry_policy_of_a_queue_and_a_new_priority_apply(
    machine: Installation, file: Path
) -> None:
    block = shell("block", f"while [ ! -e {file}.go ]; do sleep 0.05; done", cpu="2")
    machine.submit("default", "order", block)
    machine.first("block", ev.JobRunRunning)
    jobs = [shell(name, f"echo {name} >> {file}", cpu="2") for name in ("early", "late")]
    machine.submit("default", "order", *jobs)
    machine.ask("POST", "/jobs/reprioritize", {"ids": [machine.ids["late"]], "priority": 5})
    machine.first("late", ev.JobReprioritized)
    machine.see("late", lambda job: job.priority == 5)
    Path(f"{file}.go").touch()
    machine.first("early", ev.JobSucceeded)
    assert lines(file) == ["late", "early"]
