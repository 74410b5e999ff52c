"""Tasks that are mapped over jobs, without a worker."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseXCom, Context
from airflow.sdk.definitions.xcom_arg import PlainXComArg
from airflow.triggers.base import StartTriggerArgs

from fairlead import Job
from fairlead_airflow.hook import DEFAULT_CONNECTION
from fairlead_airflow.jobs.job_names import TaskKey
from fairlead_airflow.map_trigger import STARTS
from fairlead_airflow.operator import LOG_LINES, FairleadSubmitOperator


class FairleadMappedJobOperator(FairleadSubmitOperator):
    """One job of `map_jobs`. It starts in the triggerer, and ends there if a worker has nothing to
    do for it."""

    start_from_trigger = True

    def __init__(
        self,
        *,
        start_from_trigger: bool = True,
        start_trigger_args: StartTriggerArgs | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start_from_trigger = start_from_trigger
        self.start_trigger_args = start_trigger_args

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Return the ended job, or start a later try. Raises `AirflowException` if the job did not
        succeed."""
        if event.get(STARTS):
            return self.execute(context)
        return super().execute_complete(context, event)

    def list_names(self, key: TaskKey, jobs: list[Job]) -> set[str]:
        """Also the name that the trigger gives to the job: triggers do not know `first_try`."""
        return {
            *super().list_names(key, jobs),
            *super().list_names(key._replace(first_try=1), jobs),
        }


def map_jobs(
    jobs: Any,
    *,
    task_id: str,
    fairlead_queue: str = "default",
    job_set: str | None = None,
    defaults: Mapping[str, Any] | None = None,
    fairlead_conn_id: str = DEFAULT_CONNECTION,
    log_lines: int = LOG_LINES,
    **kwargs: Any,
) -> Any:
    """A task that is mapped over the list of jobs that another task returns: one instance per job.

    All jobs are submitted at once, when the first instance starts, and all instances follow one
    event stream in the triggerer. Raises `ValueError` if `jobs` is not what a task returns.
    """
    if not isinstance(jobs, PlainXComArg):
        raise ValueError(
            "map_jobs needs the list of jobs that a task returns. For a list that the DAG file"
            " contains, or for the result of `map` or `zip`, add a task that returns it."
        )
    arguments = {
        "fairlead_conn_id": fairlead_conn_id,
        "fairlead_queue": fairlead_queue,
        "source": jobs.operator.task_id,
        "source_key": jobs.key or BaseXCom.XCOM_RETURN_KEY,
        "job_set": job_set,
        "defaults": defaults,
        "log_lines": log_lines,
        "ends_task": not kwargs.keys() & {"outlets", "post_execute"}
        and kwargs.get("do_xcom_push", True),
    }
    start = StartTriggerArgs(
        trigger_cls="fairlead_airflow.map_trigger.FairleadMapTrigger",
        next_method="execute_complete",
        trigger_kwargs=arguments,
    )
    return FairleadMappedJobOperator.partial(
        task_id=task_id,
        fairlead_queue=fairlead_queue,
        job_set=job_set,
        defaults=defaults,
        fairlead_conn_id=fairlead_conn_id,
        log_lines=log_lines,
        start_from_trigger=True,
        start_trigger_args=start,
        **kwargs,
    ).expand(jobs=jobs)
