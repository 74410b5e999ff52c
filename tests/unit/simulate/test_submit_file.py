"""Simulations of files for `fairlead submit`."""

import csv
from pathlib import Path

import msgspec
import pytest
import yaml

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.requests.decoding import Decoder
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.simulate import simulation
from fairlead_scheduler.simulate.input import input_errors, submit_file
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings
from fairlead_scheduler.simulate.model.trace import NEVER, Trace
from fairlead_submit.domain.jobs.job_templates import JobTemplates
from fairlead_submit.domain.jobs.submission import IdSource, prepare_submission
from fairlead_submit.domain.policy import JobPolicy
from fairlead_submit.domain.request_types import Submission
from tests.unit.simulate.simulations import ignore_progress

JOBS = """
queue: default
jobSet: s
defaults: {cpu: 1, memory: 1Gi}
jobs:
  - {clientId: a, command: [echo], retry: {limit: 2, on: [oom]}}
  - {clientId: b, command: [echo], after: [a], cpu: 2}
  - {command: [echo], gang: {name: g, size: 2}, hold: true}
  - {command: [echo], gang: {name: g, size: 2}, labels: {team: x}}
"""
POD = """
queue: lab
jobSet: s
defaults:
  priorityClass: urgent
  podSpec: &pod
    nodeSelector: {disk: ssd}
    tolerations: [{key: gpu, operator: Exists}]
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]
    initContainers: [{name: copy, image: x, resources: {requests: {cpu: 3}}}]
    containers:
      - {name: main, image: x, resources: {requests: {cpu: 500m, memory: 2Gi}}}
      - {name: side, image: x, resources: {limits: {memory: 1Gi, nvidia.com/gpu: 1}}}
jobs:
  - {clientId: a}
  - {clientId: b, podSpec: *pod, priorityClass: default, onPreemption: fail}
  - {clientId: c, annotations: {fairlead.dev/checkpoint-interval: "60"}, whenInfeasible: wait}
"""


def write_files(
    folder: Path, text: str, run_s: float | None = 60.0
) -> simulation.SimulationOptions:
    (folder / "jobs.yaml").write_text(text)
    (folder / "nodes.yaml").write_text("- {name: n, count: 1, resources: {cpu: 4, memory: 16Gi}}")
    return simulation.SimulationOptions(folder / "jobs.yaml", folder / "nodes.yaml", run_s=run_s)


ARRAYS = """
queue: default
jobSet: s
defaults: {cpu: 1, memory: 1Gi}
jobs:
  - {clientId: first, command: [echo], startAfter: "2099-01-01T00:00:00Z"}
  - {clientId: scan, command: [echo], array: {count: 10, indexes: "0-8:2", maxRunning: 2}}
  - {clientId: then, command: [echo], array: {count: 5, afterCorresponding: scan}}
  - {command: [echo], array: {count: 3}, after: [first]}
"""


def test_arrays_release_their_tasks_in_virtual_time(tmp_path: Path) -> None:
    """`maxRunning` bounds them; a task whose corresponding one does not exist is cancelled."""
    options = write_files(tmp_path, ARRAYS)
    (tmp_path / "nodes.yaml").write_text("- {name: n, resources: {cpu: 16, memory: 64Gi}}")
    found = simulation.read_input(options)
    out = tmp_path / "out"
    summary = simulation.run_simulation(options, found, out, ignore_progress).summary
    assert summary.states == {JobState.SUCCEEDED: 12, JobState.CANCELLED: 2}
    with (out / "jobs.csv").open() as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    scans = [float(rows[f"scan[{index}]"]["start_s"]) for index in (0, 2, 4, 6, 8)]
    assert scans[:2] == [0, 0]
    assert 60 <= scans[2] <= 62 < 120 <= scans[4] <= 124
    assert 60 <= float(rows["then[0]"]["start_s"]) <= 62
    assert rows["then[1]"]["state"] == "CANCELLED"
    assert float(rows["array-3[2]"]["start_s"]) >= 60


AFTER_ARRAYS = """
defaults: {cpu: 1, memory: 1Gi}
jobs:
  - {clientId: scan, command: [echo], array: {count: 4, maxRunning: 2}}
  - {clientId: merge, command: [echo], after: [{array: scan}]}
  - {clientId: next, command: [echo], array: {count: 2}, after: [{array: scan}, merge]}
  - {clientId: more, command: [echo], array: {count: 5, afterCorresponding: scan}}
  - {clientId: last, command: [echo], array: {count: 3}, after: [{array: more}]}
  - {clientId: end, command: [echo], after: [{array: last}]}
"""


def test_jobs_and_arrays_wait_for_arrays_in_virtual_time(tmp_path: Path) -> None:
    """A task of `more` has nothing to follow, so what waits for that array is cancelled."""
    options = write_files(tmp_path, AFTER_ARRAYS)
    (tmp_path / "nodes.yaml").write_text("- {name: n, resources: {cpu: 16, memory: 64Gi}}")
    found, out = simulation.read_input(options), tmp_path / "out"
    summary = simulation.run_simulation(options, found, out, ignore_progress).summary
    assert summary.states == {JobState.SUCCEEDED: 11, JobState.CANCELLED: 5}
    with (out / "jobs.csv").open() as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert 120 <= float(rows["merge"]["start_s"]) <= 124
    assert 180 <= float(rows["next[0]"]["start_s"]) <= 186
    cancelled = {name for name, row in rows.items() if row["state"] == "CANCELLED"}
    assert cancelled == {"more[4]", "last[0]", "last[1]", "last[2]", "end"}


def test_an_array_that_waits_for_ever_is_named(tmp_path: Path) -> None:
    text = """
jobs:
  - {clientId: large, command: [echo], cpu: 99, whenInfeasible: wait}
  - {clientId: scan, command: [echo], array: {count: 4}, after: [large]}
  - {clientId: merge, command: [echo], after: [{array: scan}]}
"""
    options = write_files(tmp_path, text)
    found = simulation.read_input(options)
    summary = simulation.run_simulation(options, found, None, ignore_progress).summary
    reasons = {stuck.reason: stuck.jobs for stuck in summary.stuck if stuck.code == "after"}
    assert reasons == {"waits for array scan, which never ends": 5}


def test_jobs_of_a_submission_run_in_virtual_time(tmp_path: Path) -> None:
    options = write_files(tmp_path, JOBS)
    found = simulation.read_input(options)
    assert found.trace.ids == ["a", "b", "job-2", "job-3"]
    summary = simulation.run_simulation(options, found, None, ignore_progress).summary
    assert summary.states[JobState.SUCCEEDED] == 4


def test_a_pod_spec_is_read_exactly_as_submit_reads_it(tmp_path: Path) -> None:
    trace = simulation.read_input(write_files(tmp_path, POD)).trace
    policy = JobPolicy()
    body = msgspec.json.encode(yaml.safe_load(POD))
    request, wrong = Decoder(Submission)(body)
    expected, found = prepare_submission(
        request, wrong, JobTemplates(policy), policy.limits, IdSource(0, 0)
    )
    assert found == list[FieldError]()
    assert [trace.shapes.values[shape] for shape in trace.shape] == [
        bytes(event.shape) for event in expected.jobs
    ]
    shape = shapes.decode(trace.shapes.values[trace.shape[0]])
    assert shape.requests == {"cpu": 3000, "memory": 3 * 2**30, "nvidia.com/gpu": 1}
    assert [trace.classes.values[number] for number in trace.priority_class] == [
        "urgent",
        "default",
        "urgent",
    ]
    assert all(limit != NEVER for limit in trace.runtime_ms_max), "submit's default limits hold"
    assert trace.checkpoint_ms == {2: 60_000}
    assert trace.preempted_is_final == {1}
    assert trace.infeasible_waits == {2}


def test_documents_of_a_stream_keep_their_job_sets_separate(tmp_path: Path) -> None:
    second = JOBS.replace("jobSet: s", "jobSet: t")
    later = "queue: default\njobSet: s\njobs: [{clientId: last, command: [echo], after: [a]}]"
    options = write_files(tmp_path, f"{JOBS}---\n{second}---\n{later}")
    found = simulation.read_input(options)
    assert found.trace.ids == [
        *("a", "b", "job-2", "job-3"),
        *("default/t/a", "default/t/b", "job-6", "job-7"),
        "last",
    ]
    assert found.trace.after[8] == ("a",)
    assert {gang.name for gang in found.trace.gangs.values()} == {"s/g", "t/g"}
    summary = simulation.run_simulation(options, found, None, ignore_progress).summary
    assert summary.states[JobState.SUCCEEDED] == 9


def test_job_defaults_of_the_settings_apply_to_missing_fields(tmp_path: Path) -> None:
    options = write_files(tmp_path, "{queue: q, jobSet: s, jobs: [{command: [a]}]}")
    settings = tmp_path / "settings.yaml"
    settings.write_text("submit: {jobDefaults: {requests: {cpu: 250m, memory: 64Mi}}}")
    trace = simulation.read_input(options._replace(settings=settings)).trace
    assert shapes.decode(trace.shapes.values[0]).requests == {"cpu": 250, "memory": 64 * 2**20}


def test_jobs_of_other_pools_are_skipped_and_counted(tmp_path: Path) -> None:
    found = simulation.read_input(
        write_files(tmp_path, "{jobs: [{command: [a]}, {command: [a], pool: gpu}]}")
    )
    assert found.trace.ids == ["job-0"]
    assert found.notes == ["1 job of other pools than default left out"]


def test_without_submit_the_message_names_its_package(tmp_path: Path) -> None:
    write_files(tmp_path, JOBS)
    file, found = tmp_path / "jobs.yaml", input_errors.InputErrors()
    trace, group = Trace(), "fairlead.missing"
    submit_file.read_submissions(
        file, 1.0, "default", SimulationSettings(), found, trace=trace, group=group
    )
    assert found.lines() == [
        f"{file}: needs the package fairlead-submit to read this file; install it"
    ]


ALIASES = "\n".join(
    [
        "jobs:",
        "  - &a0 {command: [echo]}",
        *(f"  - &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)),
    ]
)


@pytest.mark.parametrize(
    ("text", "run_s", "message"),
    [
        (JOBS, None, "--run-seconds"),
        ("[1, 2]", 1.0, "is not a submission"),
        (f"{JOBS}---\n[1]", 1.0, r"jobs.yaml:\d+: is not a submission"),
        ("{jobs: [{podSpec: {}}]}", 1.0, "podSpec.containers: has no container"),
        ("jobs:\n  - {command: [a]}\n  - {command: [a],\n     cpu: -1}", 1.0, "yaml:4: cpu"),
        ("{defaults: {cpu: x}, jobs: [{command: [a]}]}", 1.0, "defaults.cpu"),
        ("{jobs: [{command: [a], priority: high}]}", 1.0, "priority"),
        ("{jobs: [{command: [a], after: [b]}]}", 1.0, "refers to a job that is not in the file"),
        (
            "{jobs: [{command: [a], after: [{array: b}]}]}",
            1.0,
            "refers to a job that is not in the",
        ),
        ("jobs: &a [*a]", 1.0, "that contains it"),
        (ALIASES, 1.0, "with its aliases"),
    ],
)
def test_an_invalid_submission_is_reported(
    tmp_path: Path, text: str, run_s: float | None, message: str
) -> None:
    with pytest.raises(input_errors.InvalidInput, match=message):
        simulation.read_input(write_files(tmp_path, text, run_s))
