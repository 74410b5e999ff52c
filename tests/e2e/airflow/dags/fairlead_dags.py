"""The DAGs of these tests. What they run is given with the run (`conf`)."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, task

from fairlead_airflow.mapping import map_jobs
from fairlead_airflow.operator import FairleadSubmitOperator
from fairlead_airflow.sensor import FairleadJobSetSensor

SMALL = {"cpu": "10m", "memory": "16Mi"}
JOB = {"command": "{{ dag_run.conf['command'] }}", **SMALL}
RETRY = {"retries": 1, "retry_delay": timedelta(seconds=0)}

with DAG("one_job", render_template_as_native_obj=True, default_args=RETRY):
    FairleadSubmitOperator(task_id="job", jobs=JOB)

with DAG("array", render_template_as_native_obj=True, default_args=RETRY):
    FairleadSubmitOperator(task_id="job", jobs={**JOB, "array": {"count": 3}})

with DAG("in_worker", render_template_as_native_obj=True, default_args=RETRY):
    FairleadSubmitOperator(task_id="job", jobs=JOB, deferrable=False)

with DAG("waiting"):
    FairleadJobSetSensor(task_id="sensor", job_set="{{ dag_run.conf['job_set'] }}")

with DAG("mapped", default_args=RETRY):

    @task
    def make_jobs(dag_run: Any = None) -> list[dict[str, Any]]:
        """As many jobs as the run says; the last one fails."""
        last = dag_run.conf["count"] - 1
        return [
            {"command": ["sh", "-c", f"echo number {n}; test {n} != {last}"]}
            for n in range(last + 1)
        ]

    map_jobs(make_jobs(), task_id="job", defaults=SMALL)

with DAG("mapped_alone", default_args={**RETRY, "retries": 5}):

    @task
    def read_jobs(name: str, dag_run: Any = None) -> list[dict[str, Any]]:
        """The jobs of a task, as the run says."""
        return [{"command": command} for command in dag_run.conf[name]]

    map_jobs(read_jobs("job"), task_id="job", defaults=SMALL)
    map_jobs(
        read_jobs.override(task_id="read_limited")("limited"),
        task_id="limited",
        defaults=SMALL,
        execution_timeout=timedelta(seconds=12),  # the second try must end within it
    )

with DAG("mapped_late", default_args={**RETRY, "retries": 2}):
    map_jobs(
        read_jobs.override(task_id="read_late")("late"),
        task_id="late",
        defaults=SMALL,
        execution_timeout=timedelta(seconds=15),
    )

with DAG("mapped_hooked", default_args=RETRY):

    def fail_first_try(context: Any, result: Any = None) -> None:
        """Fails after the jobs of the first try, which have succeeded."""
        assert context["ti"].try_number > 1, "the first try fails"

    map_jobs(
        read_jobs.override(task_id="read_hooked")("hooked"),
        task_id="hooked",
        defaults=SMALL,
        post_execute=fail_first_try,
    )

with DAG("mapped_once"):
    map_jobs(
        read_jobs.override(task_id="read_once")("once"),
        task_id="once",
        fairlead_queue="{{ dag_run.conf['queue'] }}",
        job_set="airflow/{{ dag.dag_id }}/{{ run_id }}/{{ task.task_id }}",
        defaults=SMALL,
    )

with DAG("limited_in_worker", render_template_as_native_obj=True, default_args=RETRY):
    FairleadSubmitOperator(
        task_id="job", jobs=JOB, deferrable=False, execution_timeout=timedelta(seconds=6)
    )

with DAG("limited", render_template_as_native_obj=True):
    FairleadSubmitOperator(task_id="job", jobs=JOB, execution_timeout=timedelta(seconds=2))

    @task
    def make_two() -> list[dict[str, Any]]:
        """Two jobs."""
        return [{"command": ["true"]}, {"command": ["true"]}]

    map_jobs(make_two(), task_id="quiet", defaults=SMALL, do_xcom_push=False)

with DAG("on_event", schedule=None):
    """Runs when a webhook starts it; it has no tasks, and succeeds at once."""

with DAG("on_asset", schedule=[Asset("s3://fairlead/results")]):
    """Runs when a webhook updates the asset."""
