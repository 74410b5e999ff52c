"""The DAGs of these tests. What they run is given with the run (`conf`)."""

from datetime import timedelta

from airflow.sdk import DAG

from fairlead_airflow.operator import FairleadSubmitOperator

JOB = {"command": "{{ dag_run.conf['command'] }}", "cpu": "100m", "memory": "32Mi"}
RETRY = {"retries": 1, "retry_delay": timedelta(seconds=0)}

with DAG("one_job", render_template_as_native_obj=True, default_args=RETRY):
    FairleadSubmitOperator(task_id="job", jobs=JOB)

with DAG("in_worker", render_template_as_native_obj=True, default_args=RETRY):
    FairleadSubmitOperator(task_id="job", jobs=JOB, deferrable=False)
