"""The operator, and webhooks of the kind airflow, in a real Airflow.

They are one module because each module can run in another worker, where a second Airflow would
start.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import Client, Filter, JobView
from fairlead_common.domain.records.events import JobSucceeded
from fairlead_standalone.service.testing import StandaloneInstallation, wait_for
from tests.e2e.airflow.installation import PASSWORD, USER, AirflowInstallation, DagRun
from tests.integration.webhooks.webhook_harness import WebhookHarness, delivering
from tests.unit.lookout.builders import job_id, leased, submitted

TIMED_OUT = "execution_timeout of the last try of the task in Airflow has passed"
ASSET = "s3://fairlead/results"
TARGET = {"dag": "on_event", "asset": ASSET, "username": USER, "password": PASSWORD}


@pytest.fixture
def client(standalone: StandaloneInstallation) -> Iterator[Client]:
    """A client of the Fairlead of these tests."""
    with Client(standalone.address, token=standalone.token) as client:
        yield client


def jobs_of(client: Client, run: DagRun, task_id: str = "job") -> list[JobView]:
    """The jobs of a task of a run, oldest first."""
    job_set = f"airflow/{run.dag_id}/{run.run_id}/{task_id}"
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


def test_array_is_one_job_of_a_task_and_is_submitted_again_on_a_retry(
    airflow: AirflowInstallation, client: Client
) -> None:
    good = DagRun(airflow, "array", {"command": ["true"]})
    bad = DagRun(airflow, "array", {"command": ["false"]})
    good.wait_for_task("job", "success")
    (array,) = good.xcom("job")
    assert (array["state"], array["clientId"]) == ("SUCCEEDED", "job")
    bad.wait_for_task("job", "failed")
    job_set = f"airflow/array/{bad.run_id}/job"
    arrays = [found.client_id for found in client.arrays(queue="default", job_set=job_set)]
    assert arrays == ["job~2", "job"]
    assert "3 of 3 tasks did not succeed" in bad.log("job", 2)


def test_log_of_a_running_job_appears_in_the_log_of_its_task(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    run = DagRun(airflow, "one_job", {"command": wait_for_file(tmp_path / "go")})
    wait_for(lambda: "[job stdout] begun" in run.log("job"))
    assert run.task("job")["state"] == "deferred"
    (tmp_path / "go").touch()
    run.wait_for_task("job", "success")
    assert run.log("job").count("[job stdout] begun") == 1


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


def test_execution_timeout_cancels_the_job_and_mapped_jobs_can_return_nothing(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    run = DagRun(airflow, "limited", {"command": wait_for_file(tmp_path / "never")})
    assert run.wait_for_end() == "failed"
    assert run.task("job")["state"] == "failed"
    wait_for(lambda: jobs_of(client, run)[0].has_ended)
    (job,) = jobs_of(client, run)
    assert (job.state, job.reason) == ("CANCELLED", TIMED_OUT)
    assert "Cancelled 1 jobs" in run.log("job")
    quiet = run.mapped_tasks("quiet")
    assert [task["state"] for task in quiet] == ["success", "success"]
    entries = airflow.request("GET", f"{run.path}/taskInstances/quiet/xcomEntries?map_index=0")
    keys = [entry["key"] for entry in entries["xcom_entries"]]
    assert "fairlead_dashboard" in keys
    assert "return_value" not in keys


def test_execution_timeout_of_a_worker_cancels_the_job_after_the_last_try(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    run = DagRun(airflow, "limited_in_worker", {"command": wait_for_file(tmp_path / "never")})
    assert run.wait_for_end() == "failed"
    assert "found: 1 jobs of an earlier try" in run.log("job", 2)
    wait_for(lambda: jobs_of(client, run)[0].has_ended)
    assert [job.state for job in jobs_of(client, run)] == ["CANCELLED"]


def test_retry_submits_a_failed_job_again_and_then_the_task_fails(
    airflow: AirflowInstallation, client: Client
) -> None:
    run = DagRun(airflow, "one_job", {"command": ["sh", "-c", "exit 3"]})
    run.wait_for_task("job", "failed")
    jobs = jobs_of(client, run)
    assert [(job.client_id, job.exit_code) for job in jobs] == [("job", 3), ("job~2", 3)]
    assert "exit code 3" in run.log("job", 2)


def test_jobs_that_are_not_valid_fail_the_task_without_a_retry(
    airflow: AirflowInstallation, client: Client
) -> None:
    run = DagRun(airflow, "one_job", {"command": ["x" * 70_000]})
    assert run.wait_for_task("job", "failed")["try_number"] == 1
    assert jobs_of(client, run) == []
    run = DagRun(airflow, "mapped_late", {"late": [["x" * 70_000], ["true"]]})
    assert run.wait_for_end() == "failed"
    tasks = run.mapped_tasks("late")
    assert [(task["state"], task["try_number"]) for task in tasks] == [("failed", 1)] * 2
    assert jobs_of(client, run, "late") == []


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


@pytest.mark.parametrize("count", [24, pytest.param(100, marks=pytest.mark.nightly)])
def test_mapped_tasks_use_one_submission_and_one_event_stream(
    airflow: AirflowInstallation, client: Client, count: int
) -> None:
    run, last = DagRun(airflow, "mapped", {"count": count}), count - 1
    assert run.wait_for_end() == "failed"
    states = {task["map_index"]: task["state"] for task in run.mapped_tasks("job")}
    assert states == {**dict.fromkeys(range(last), "success"), last: "failed"}
    names = [job.client_id or "" for job in jobs_of(client, run)]
    assert sorted(names) == sorted([*(f"job.{n}" for n in range(count)), f"job.{last}~2"])
    logs = airflow.read_logs("mapped", run.run_id)
    assert logs.count("Submitting ") == logs.count(f"Submitting {count} jobs to") == 1
    assert logs.count("Submitted job ") == logs.count(f"Submitted job job.{last}~2") == 1
    assert logs.count("[job.12 stdout] number 12") == 1
    assert logs.count("Following the events of") <= 2, "one, and one for the retry at most"
    run.clear("job")
    wait_for(lambda: all(task["try_number"] > 1 for task in run.mapped_tasks("job")))
    assert run.wait_for_end() == "failed"
    states = {job.client_id: job.state for job in jobs_of(client, run)}
    again = {f"job.{n}~2": "SUCCEEDED" for n in range(last)}
    assert states.items() >= again.items()
    logs = airflow.read_logs("mapped", run.run_id)
    assert logs.count("Reading the jobs of") < count, "a request is for several tries"


def waits_again(task: dict[str, Any]) -> bool:
    """Whether a later try of a task waits in the triggerer."""
    return task["try_number"] > 1 and task["state"] == "deferred" and bool(task["triggerer_job"])


def test_one_instance_of_mapped_jobs_is_marked_as_failed_or_limited_alone(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    go, never = (wait_for_file(tmp_path / name) for name in ("go", "never"))
    conf = {"job": [go, never, ["true"]], "limited": [go, ["true"]]}
    run = DagRun(airflow, "mapped_alone", conf)
    wait_for(lambda: [job.state for job in jobs_of(client, run)].count("RUNNING") == 2)
    wait_for(lambda: all(task["triggerer_job"] for task in run.mapped_tasks("job")[:2]))
    run.mark("job", "failed", 1)
    wait_for(lambda: "CANCELLED" in [job.state for job in jobs_of(client, run)])
    # The next try, after the limit of the first, takes the same job, also if that has ended.
    # When it waits in the triggerer, the trigger of the first has ended.
    wait_for(lambda: waits_again(run.mapped_tasks("limited")[0]))
    (tmp_path / "go").touch()
    assert run.wait_for_end() == "failed"
    assert [task["state"] for task in run.mapped_tasks("job")] == ["success", "failed", "success"]
    assert [task["try_number"] for task in run.mapped_tasks("job")] == [1, 1, 1]
    assert [task["state"] for task in run.mapped_tasks("limited")] == ["success", "success"]
    states = {job.client_id: job.state for job in jobs_of(client, run)}
    assert states == {"job.0": "SUCCEEDED", "job.1": "CANCELLED", "job.2": "SUCCEEDED"}
    limited = {job.client_id: job.state for job in jobs_of(client, run, "limited")}
    assert limited == {"limited.0": "SUCCEEDED", "limited.1": "SUCCEEDED"}
    run.clear("limited", 1)
    wait_for(lambda: run.mapped_tasks("limited")[1]["try_number"] > 1)
    run.wait_for_end()
    assert run.mapped_tasks("limited")[1]["state"] == "success"
    names = [job.client_id for job in jobs_of(client, run, "limited")]
    assert names == ["limited.0", "limited.1", "limited.1~2"]


def test_success_that_airflow_did_not_record_is_that_of_the_next_try(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    run = DagRun(airflow, "mapped_late", {"late": [wait_for_file(tmp_path / "go")]})
    wait_for(lambda: [job.state for job in jobs_of(client, run, "late")] == ["RUNNING"])
    wait_for(lambda: run.mapped_tasks("late")[0]["triggerer_job"] is not None)
    with airflow.frozen_triggerer():
        # The trigger sees the success, and Airflow ends the try by its limit before it hears of it.
        (tmp_path / "go").touch()
        wait_for(lambda: jobs_of(client, run, "late")[0].has_ended)
        wait_for(lambda: run.mapped_tasks("late")[0]["try_number"] > 1)
    assert run.wait_for_end() == "success"
    names = [(job.client_id, job.state) for job in jobs_of(client, run, "late")]
    assert names == [("late.0", "SUCCEEDED")]


def test_mapped_task_that_ends_in_a_worker_tells_a_retry_from_a_cleared_task(
    airflow: AirflowInstallation, client: Client
) -> None:
    run = DagRun(airflow, "mapped_hooked", {"hooked": [["true"]]})
    assert run.wait_for_end() == "success"
    assert run.mapped_tasks("hooked")[0]["try_number"] == 2
    assert [job.client_id for job in jobs_of(client, run, "hooked")] == ["hooked.0"]
    run.clear("hooked", 0)
    wait_for(lambda: run.mapped_tasks("hooked")[0]["try_number"] == 3)
    assert run.wait_for_end() == "success"
    names = [job.client_id for job in jobs_of(client, run, "hooked")]
    assert names == ["hooked.0", "hooked.0@3"]


def test_mapped_task_that_is_cleared_while_its_job_runs_starts_it_again(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    shell, option, script = wait_for_file(tmp_path / "go")
    # The first job does not end when it is cancelled, so the next try finds it running.
    conf = {"queue": "default", "once": [[shell, option, f"trap '' TERM; {script}"]]}
    run = DagRun(airflow, "mapped_once", conf)
    wait_for(lambda: [job.state for job in jobs_of(client, run, "once")] == ["RUNNING"])
    wait_for(lambda: run.mapped_tasks("once")[0]["triggerer_job"] is not None)
    run.clear("once", 0)
    wait_for(lambda: "RUNNING" in [job.state for job in jobs_of(client, run, "once")[1:]])
    (tmp_path / "go").touch()
    assert run.wait_for_end() == "success"
    states = [(job.client_id, job.state) for job in jobs_of(client, run, "once")]
    assert states == [("once.0", "CANCELLED"), ("once.0~2", "SUCCEEDED")]


def test_sensor_waits_for_a_job_set(
    airflow: AirflowInstallation, client: Client, tmp_path: Path
) -> None:
    job = {"command": wait_for_file(tmp_path / "go"), "cpu": "10m", "memory": "16Mi"}
    client.submit("default", "for-sensor", [job])
    run = DagRun(airflow, "waiting", {"job_set": "for-sensor"})
    run.wait_for_task("sensor", "deferred")
    (tmp_path / "go").touch()
    run.wait_for_task("sensor", "success")
    assert run.xcom("sensor") == {"SUCCEEDED": 1}


def test_example_passes_results_of_functions_between_jobs(
    airflow: AirflowInstallation,
) -> None:
    run = DagRun(airflow, "prime_numbers")
    assert run.wait_for_end() == "success"
    assert [run.xcom("count_primes"), run.xcom("count_more")] == [168, 78_498]
    assert run.xcom("add", "sum") == run.xcom("add")["sum"] == 168 + 78_498
    log = run.log("count_primes")
    assert "[count_primes stdout] prime numbers below 1000" in log
    assert "::fairlead-result::" not in log
    assert "[report stdout] 78666 prime numbers" in run.log("report")


def test_example_maps_a_task_over_jobs(airflow: AirflowInstallation, client: Client) -> None:
    run = DagRun(airflow, "parameter_sweep", {"largest": 2})
    assert run.wait_for_end() == "success"
    assert run.xcom("count_ended") == {"SUCCEEDED": 2}
    assert [job.client_id for job in jobs_of(client, run, "approximate")] == [
        "approximate.0",
        "approximate.1",
    ]


async def read(airflow: AirflowInstallation, path: str) -> Any:
    return await asyncio.to_thread(airflow.request, "GET", path)


async def wait_for_attempts(harness: WebhookHarness, name: str) -> dict[str, Any]:
    """The only delivery of a webhook, as soon as it was attempted."""
    async with asyncio.timeout(60):
        while True:
            found = await harness.list_deliveries(name)
            if found and found[0]["state"] == "DELIVERED":
                return found[0]
            await asyncio.sleep(0.02)


async def test_an_event_starts_one_run_and_updates_an_asset_once(
    airflow: AirflowInstallation, fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        # Two webhooks send the same event to the same DAG and asset, one after the other.
        for name in ("first", "second"):
            await harness.create(airflow.url, name, kind="airflow", airflow=TARGET)
        await harness.append_events(submitted("a"), leased("a"), job_set="n/ä & <m>")
        await harness.append_events(JobSucceeded(job_id=job_id("a")), job_set="n/ä & <m>")
        first = await wait_for_attempts(harness, "first")
        await wait_for_attempts(harness, "second")
        again = await harness.post(f"/webhooks/first/deliveries/{first['id']}/replay")
        assert again.status_code == 200
        await wait_for_attempts(harness, "first")
        (run,) = (await read(airflow, "dags/on_event/dagRuns"))["dag_runs"]
        assert run["dag_run_id"] == f"fairlead__{first['messageId']}"
        assert run["conf"]["type"] == "finished"
        assert run["conf"]["data"]["jobSet"] == "n/ä & <m>"
        events = (await read(airflow, "assets/events"))["asset_events"]
        updates = [each for each in events if each["uri"] == ASSET]
        assert 1 <= len(updates) <= 2, "two at the same time do not see each other"
        assert {each["extra"]["fairleadEvent"] for each in updates} == {first["messageId"]}

        def has_run() -> bool:
            return bool(airflow.request("GET", "dags/on_asset/dagRuns")["dag_runs"])

        await asyncio.to_thread(wait_for, has_run)


async def test_what_airflow_refuses_is_in_the_delivery(
    airflow: AirflowInstallation, fresh_database: str, valkey_url: str
) -> None:
    wrong: dict[str, tuple[dict[str, str], str]] = {
        "password": ({"password": "wrong"}, "Airflow refuses the user name or the password."),
        "dag": ({"dag": "nope"}, "Airflow has no DAG nope."),
        "asset": ({"asset": "s3://nope"}, "Airflow has no asset s3://nope"),
    }
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(airflow.url, "right", kind="airflow", airflow=TARGET)
        right = (await harness.post("/webhooks/right/test")).json()
        assert (right["state"], right.get("error")) == ("DELIVERED", None)
        for name, (changes, text) in wrong.items():
            await harness.create(airflow.url, name, kind="airflow", airflow={**TARGET, **changes})
            tested = (await harness.post(f"/webhooks/{name}/test")).json()
            assert tested["state"] == "FAILED"
            assert tested["error"].startswith(text)
        token = {"dag": "on_event", "token": "expired"}
        await harness.create(airflow.url, "token", kind="airflow", airflow=token)
        tested = (await harness.post("/webhooks/token/test")).json()
        assert tested["error"].startswith("Airflow refuses the token.")
        other = {"dag": "on_event", "token": "x"}
        await harness.create(f"{airflow.url}/other", "other", kind="airflow", airflow=other)
        tested = (await harness.post("/webhooks/other/test")).json()
        assert tested["error"].startswith("No API of Airflow 3")
