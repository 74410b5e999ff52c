"""The operator that runs jobs on Fairlead."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
    TaskDeferralTimeout,
)

from fairlead import AsyncClient, Client, Filter, Job, SubmitResult, errors
from fairlead.models.job_models import JobFields
from fairlead_airflow.hook import DEFAULT_CONNECTION, FairleadHook, ServerAddress
from fairlead_airflow.jobs import job_names, job_results
from fairlead_airflow.jobs.job_names import TaskKey
from fairlead_airflow.links import KEY, JobSetLink, build_job_set_url
from fairlead_airflow.trigger import INVALID_JOBS, FairleadJobSetTrigger

LOG_LINES: Final = 1_000
TIMED_OUT: Final = "execution_timeout of the last try of the task in Airflow has passed"
"""The reason for which a worker cancels jobs."""


class FairleadSubmitOperator(BaseOperator):
    """Submits jobs and waits for them; fails if one of them does not succeed.

    `jobs`: one job or several, as `fairlead.Job` or with the field names of the API. `defaults`:
    fields that all of them share. `fairlead_queue`: the queue on Fairlead (`queue` is Airflow's).
    `job_set`: default `airflow/DAG/RUN/TASK`. The jobs have the same client ids in every try: a
    retry waits for the jobs of the try before, and submits again only those that ended without
    success.

    `deferrable` (default): the triggerer waits, and no worker is occupied. `log_lines`: how many
    lines of each job's log appear in the log of the task.
    """

    template_fields: Sequence[str] = ("jobs", "fairlead_queue", "job_set", "defaults")
    template_fields_renderers: ClassVar[dict[str, str]] = {"jobs": "json", "defaults": "json"}
    operator_extra_links = (JobSetLink(),)
    ui_color = "#dcebf5"
    returns_result = False
    """Whether the only job runs a function whose result the task returns."""

    def __init__(
        self,
        *,
        jobs: Any,
        fairlead_queue: str = "default",
        job_set: str | None = None,
        defaults: Mapping[str, Any] | Job | None = None,
        fairlead_conn_id: str = DEFAULT_CONNECTION,
        deferrable: bool = True,
        log_lines: int = LOG_LINES,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._has_hook = kwargs.get("post_execute") is not None
        self.jobs = _to_plain(jobs)
        self.fairlead_queue = fairlead_queue
        self.job_set = job_set
        self.defaults = _to_plain(defaults)
        self.fairlead_conn_id = fairlead_conn_id
        self.deferrable = deferrable
        self.log_lines = log_lines
        self._submitted: tuple[ServerAddress, list[str]] | None = None
        self._leaves_jobs = False

    def execute(self, context: Context) -> Any:
        """Submit the jobs, and defer until they have ended.

        Raises `AirflowFailException`, after which Airflow does not retry, for jobs that are not
        valid.
        """
        try:
            return self._submit_and_wait(context)
        except AirflowTaskTimeout:
            # Airflow calls `on_kill` now.
            self._leaves_jobs = has_retry(context)
            raise
        except INVALID_JOBS as error:
            raise AirflowFailException(f"The jobs are not valid: {error}") from error

    def _submit_and_wait(self, context: Context) -> Any:
        """Raises `TaskDeferred`, or waits in this worker."""
        job_set, address, made = self._submit(context)
        ids = [job.id for job in made.jobs]
        self._submitted = address, ids
        attached = sum(job.duplicate for job in made.jobs)
        self.log.info(
            "Submitted to %s/%s: %d new jobs; found: %d jobs of an earlier try",
            *(self.fairlead_queue, job_set, len(ids) - attached, attached),
        )
        return self._wait(context, address, job_set, made)

    def _submit(self, context: Context) -> tuple[str, ServerAddress, SubmitResult]:
        """The job set, the server and the submitted jobs."""
        key = read_task_key(context, self.retries)
        job_set = self.job_set or job_names.name_job_set(key)
        address = FairleadHook(self.fairlead_conn_id).read_address()
        context["ti"].xcom_push(
            key=KEY, value=build_job_set_url(address.url, self.fairlead_queue, job_set)
        )
        with Client(address.url, token=address.token) as client:
            jobs = job_names.name_jobs(key, self.build_jobs(context))
            if context["ti"].try_number > key.first_try:
                found = self._list_jobs(address, key, job_set, jobs)
                jobs = job_names.renew_jobs(jobs, job_results.read_states(found))
            made = client.submit(self.fairlead_queue, job_set, jobs, defaults=self.defaults)
        return job_set, address, made

    def _wait(
        self, context: Context, address: ServerAddress, job_set: str, made: SubmitResult
    ) -> Any:
        """Raises `TaskDeferred`, or waits in this worker."""
        trigger = FairleadJobSetTrigger(
            self.fairlead_conn_id,
            self.fairlead_queue,
            job_set,
            [job.id for job in made.jobs],
            made.position,
            self.log_lines,
            ends_task=not needs_worker(self, has_hook=self._has_hook),
            reads_result=self.returns_result,
            multiple_outputs=self.multiple_outputs,
            array_ids=job_results.find_arrays(made.jobs),
        )
        if self.deferrable:
            # Airflow limits only the worker by `execution_timeout`, not the triggerer.
            self.defer(
                trigger=trigger, method_name="execute_complete", timeout=self.execution_timeout
            )
        return self.execute_complete(context, asyncio.run(trigger.wait(address)))

    def _list_jobs(
        self, address: ServerAddress, key: TaskKey, job_set: str, jobs: list[Job]
    ) -> list[JobFields]:
        """The jobs of this task instance, and possibly others of the job set; arrays if `jobs` has
        some."""
        where = Filter(queue=self.fairlead_queue, job_set=job_set)

        async def read() -> list[JobFields]:
            async with AsyncClient(address.url, token=address.token) as client:
                part = job_names.name_mapped_part(key)
                return await job_results.list_jobs(client, where, jobs, q=part)

        return asyncio.run(read())

    def build_jobs(self, context: Context) -> list[Job]:
        """The jobs of the task. Subclasses make other jobs."""
        jobs = [self.jobs] if isinstance(self.jobs, Mapping) else list(self.jobs)
        if not jobs:
            raise ValueError("The list of jobs is empty.")
        return msgspec.convert(jobs, list[Job])

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Return the ended jobs. Raises `AirflowException` if one did not succeed, and
        `AirflowFailException` if they are not valid."""
        if event.get("invalid"):
            raise AirflowFailException(event["failure"])
        if event["failure"]:
            raise AirflowException(event["failure"])
        return event["value"]

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Continue after the triggerer. After the `execution_timeout` of the last try the jobs are
        cancelled; the jobs of an earlier try continue until the next one."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            if not has_retry(context):
                self._cancel_open_jobs(context)
            raise

    def _cancel_open_jobs(self, context: Context) -> None:
        """Cancel what has not ended of the jobs of this task instance."""
        key = read_task_key(context, self.retries)
        job_set = self.job_set or job_names.name_job_set(key)
        jobs = self.build_jobs(context)
        names = self.list_names(key, jobs)
        address = FairleadHook(self.fairlead_conn_id).read_address()
        try:
            ids = [
                job.id
                for job in self._list_jobs(address, key, job_set, jobs)
                if not job.has_ended and job_names.is_attempt(job.client_id, names)
            ]
            if ids:
                with Client(address.url, token=address.token) as client:
                    client.cancel(ids, reason=TIMED_OUT)
        except errors.FairleadError:
            # The task fails by its timeout in any case.
            self.log.exception("The jobs continue, because Fairlead did not cancel them.")
        else:
            self.log.info("Cancelled %d jobs: %s", len(ids), TIMED_OUT)

    def list_names(self, key: TaskKey, jobs: list[Job]) -> set[str]:
        """The client ids of the jobs, without the numbers of their attempts."""
        return {job.client_id or "" for job in job_names.name_jobs(key, jobs)}

    def on_kill(self) -> None:
        """Cancel the jobs while a worker executes the task; not if the next try waits for them."""
        if self._submitted is not None and not self._leaves_jobs:
            address, ids = self._submitted
            with Client(address.url, token=address.token) as client:
                client.cancel(ids, reason="the task in Airflow was killed")


def has_retry(context: Context) -> bool:
    """Whether Airflow retries the task when this try has failed."""
    ti: Any = context["ti"]
    return bool(ti.try_number <= ti.max_tries)


def needs_worker(task: BaseOperator, *, has_hook: bool) -> bool:
    """Whether the task has to end in a worker; `has_hook`: it was made with `post_execute`.

    Only workers record events of assets, run hooks, and note the lengths over which other tasks are
    mapped.
    """
    return (
        has_hook
        or bool(task.outlets)
        or not task.do_xcom_push
        or next(task.iter_mapped_dependants(), None) is not None
    )


def read_task_key(context: Context, retries: int) -> TaskKey:
    """The task instance of a context.

    Clearing a task raises its `max_tries`, so the first try after that is known from it.
    """
    ti: Any = context["ti"]
    first_try = max(1, ti.max_tries - (retries or 0) + 1)
    map_index = -1 if ti.map_index is None else ti.map_index
    return TaskKey(ti.dag_id, ti.run_id, ti.task_id, map_index, first_try)


def _to_plain(value: Any) -> Any:
    """Jobs as mappings, which Airflow can serialize and render."""
    if isinstance(value, Job):
        return msgspec.to_builtins(value)
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    return value
