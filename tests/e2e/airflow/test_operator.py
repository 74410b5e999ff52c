"""The operator in a real Airflow, with jobs on a real Fairlead."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead import Client, Filter, JobView
from fairlead_standalone.service.testing import StandaloneInstallation, wait_for
from tests.e2e.airflow.installation import AirflowInstallation, DagRun


@pytest.fixture
def client(standalone: StandaloneInstallation) -> Iterator[Client]:
    """A client of the Fairlead of these tests."""
    with Client(standalone.address, token=standalone.token) as client:
        yield client


def jobs_of(client: Client, run: DagRun) -> list[JobView]:
    """The jobs of the task `job` of a run, oldest first."""
    job_set = f"airflow/{run.dag_id}/{run.run_id}/job"
    return list(client.iter_jobs(Filter(queue="default", job_set=job_set), sort="submitted"))


def wait_for_file(file: Path) -> list[str]:
    """The command of a job that runs until the file exists."""
    return ["sh", "-c", f"echo begun; while ! test -e {file}; do sleep 0.1; done"]


def test_task_waits_for_its_job_and_shows_its_log(
    airflow: AirflowInstallation, standalone: StandaloneInstallation
) -> None:
    run = DagRun(airflow, "one_job", {"command": ["sh", "-c", "echo forty-two; echo bad >&2"]})
    run.wait_for_task("job", "success")
    (job,) = run.xcom("job")
    assert (job["state"], job["clientId"]) == ("SUCCEEDED", "job")
    log = run.log("job")
    assert "[job stdout] forty-two" in log
    assert "[job stderr] bad" in log
    link = run.link("job")
    assert link.startswith(f"{standalone.address}/jobsets/default/airflow/one_job/")


def test_task_survives_kill_of_the_triggerer(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    run = DagRun(airflow, "one_job", {"command": wait_for_file(tmp_path / "go")})
    run.wait_for_task("job", "deferred")
    wait_for(lambda: run.task("job")["triggerer_job"] is not None)
    airflow.kill_triggerer()
    (tmp_path / "go").touch()
    wait_for(lambda: jobs_of(client, run)[0].has_ended)
    airflow.start_process("triggerer")
    assert run.wait_for_task("job", "success")["try_number"] == 1
    assert [job.state for job in jobs_of(client, run)] == ["SUCCEEDED"]


def test_marking_the_task_as_failed_cancels_its_job(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    run = DagRun(airflow, "one_job", {"command": wait_for_file(tmp_path / "never")})
    run.wait_for_task("job", "deferred")
    wait_for(lambda: run.task("job")["triggerer_job"] is not None)
    run.mark("job", "failed")
    wait_for(lambda: jobs_of(client, run)[0].has_ended)
    assert [job.state for job in jobs_of(client, run)] == ["CANCELLED"]


def test_retry_submits_a_failed_job_again_and_then_the_task_fails(
    airflow: AirflowInstallation, client: Client
) -> None:
    run = DagRun(airflow, "one_job", {"command": ["sh", "-c", "exit 3"]})
    run.wait_for_task("job", "failed")
    jobs = jobs_of(client, run)
    assert [(job.client_id, job.exit_code) for job in jobs] == [("job", 3), ("job~2", 3)]


def test_retry_waits_for_the_job_of_a_killed_worker(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    run = DagRun(airflow, "in_worker", {"command": wait_for_file(tmp_path / "go")})
    wait_for(lambda: any(job.state == "RUNNING" for job in jobs_of(client, run)))
    os.kill(run.task("job")["pid"], signal.SIGKILL)
    wait_for(lambda: "found: 1 jobs" in run.log("job", 2))
    (tmp_path / "go").touch()
    assert run.wait_for_task("job", "success")["try_number"] == 2
    assert [job.state for job in jobs_of(client, run)] == ["SUCCEEDED"]
