"""The sensor that waits for a job set that something else submits."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowException

from fairlead import JobSet, errors
from fairlead_airflow.hook import DEFAULT_CONNECTION, FairleadHook
from fairlead_airflow.operator import needs_worker
from fairlead_airflow.trigger import FairleadJobSetTrigger, describe_job_set


class FairleadJobSetSensor(BaseSensorOperator):
    """Waits until a job set exists and all its jobs have ended; fails if one did not succeed.

    With `fails_with_jobs=False` it succeeds in any case. It returns the number of jobs by state.
    `deferrable` (default): the triggerer waits, and no worker is occupied.
    """

    template_fields: Sequence[str] = ("fairlead_queue", "job_set")
    ui_color = "#dcebf5"

    def __init__(
        self,
        *,
        job_set: str,
        fairlead_queue: str = "default",
        fails_with_jobs: bool = True,
        fairlead_conn_id: str = DEFAULT_CONNECTION,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._has_hook = kwargs.get("post_execute") is not None
        self.job_set = job_set
        self.fairlead_queue = fairlead_queue
        self.fails_with_jobs = fails_with_jobs
        self.fairlead_conn_id = fairlead_conn_id
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Defer until the jobs have ended, or ask for their states at intervals."""
        if self.deferrable:
            self._defer()
        super().execute(context)
        found = self._read_job_set()
        assert found is not None, "it was there when the sensor last asked"
        return self.execute_complete(context, describe_job_set(found))

    def _defer(self) -> None:
        """Raises `TaskDeferred`."""
        decides_itself = not self.fails_with_jobs or self.soft_fail or self.never_fail
        trigger = FairleadJobSetTrigger(
            self.fairlead_conn_id,
            self.fairlead_queue,
            self.job_set,
            ends_task=not (decides_itself or needs_worker(self, has_hook=self._has_hook)),
        )
        self.defer(
            trigger=trigger,
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: Context) -> bool:
        """Whether the job set exists and all its jobs have ended."""
        found = self._read_job_set()
        return found is not None and found.is_finished

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Return the states. Raises `AirflowException` if a job did not succeed."""
        if event["failure"] and (self.fails_with_jobs or event["value"] is None):
            raise AirflowException(event["failure"])
        return event["value"]

    def _read_job_set(self) -> JobSet | None:
        with FairleadHook(self.fairlead_conn_id).get_conn() as client:
            try:
                return client.job_set(self.fairlead_queue, self.job_set)
            except errors.NotFound:
                return None
