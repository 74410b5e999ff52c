"""The trigger of deferred tasks: waits for jobs without a worker."""

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from airflow.sdk import BaseXCom
from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSuccessEvent, TriggerEvent

from fairlead import Filter, JobSet, errors
from fairlead.models.job_models import JobFields
from fairlead_airflow.hook import FairleadHook, ServerAddress, open_client
from fairlead_airflow.jobs import function_jobs, job_results, live_logs, shared_events
from fairlead_airflow.jobs.shared_events import JobSetEvents

INVALID_JOBS: Final = (errors.Invalid, errors.TooLarge, msgspec.ValidationError)
"""Errors of jobs that another try would not change."""
ENDED_IN_AIRFLOW: Final = "the task was ended in Airflow"
"""The reason for which a trigger cancels its jobs."""


class FairleadJobSetTrigger(BaseTrigger):
    """Waits until jobs have ended: those with the given ids, or without ids all of the job set.
    `array_ids`: the ids that are arrays.

    All triggers of a process that wait for jobs of one job set share one event stream. The jobs'
    logs appear in the log of the task while they run, and what was left out at their end. With
    `ends_task` the task ends without a worker; otherwise it continues with
    `{"value": ..., "failure": "..."}`. The value is what the task returns: with `reads_result`
    what the function of the only job returned, else the jobs, or for a job set the number of jobs
    by state. A task whose jobs are not valid always continues, with `"invalid": True`: only a
    worker can fail it without a retry.
    """

    def __init__(
        self,
        fairlead_conn_id: str,
        queue: str,
        job_set: str,
        job_ids: Sequence[str] = (),
        position: str = "",
        log_lines: int = 0,
        ends_task: bool = False,
        reads_result: bool = False,
        multiple_outputs: bool = False,
        array_ids: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.fairlead_conn_id = fairlead_conn_id
        self.queue = queue
        self.job_set = job_set
        self.job_ids = list(job_ids)
        self.position = position
        self.log_lines = log_lines
        self.ends_task = ends_task
        self.reads_result = reads_result
        self.multiple_outputs = multiple_outputs
        self.array_ids = list(array_ids)
        self.success_xcoms: dict[str, Any] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, from which a triggerer makes the trigger again."""
        return (
            "fairlead_airflow.trigger.FairleadJobSetTrigger",
            {
                "fairlead_conn_id": self.fairlead_conn_id,
                "queue": self.queue,
                "job_set": self.job_set,
                "job_ids": self.job_ids,
                "position": self.position,
                "log_lines": self.log_lines,
                "ends_task": self.ends_task,
                "reads_result": self.reads_result,
                "multiple_outputs": self.multiple_outputs,
                "array_ids": self.array_ids,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fires once, when all jobs have ended or the server refuses to report them."""
        try:
            address = await FairleadHook(self.fairlead_conn_id).read_address_async()
            outcome = await self.wait(address)
        except INVALID_JOBS as error:
            failure = f"The jobs are not valid: {error}"
            outcome = {"value": None, "failure": failure, "invalid": True}
        except errors.FairleadError as error:
            outcome = {"value": None, "failure": f"Fairlead refused a request: {error}"}
        if not self.ends_task or outcome.get("invalid"):
            yield TriggerEvent(outcome)
        elif outcome["failure"]:
            self.log.error("%s", outcome["failure"])
            yield TaskFailedEvent()
        else:
            value = outcome["value"]
            if self.multiple_outputs and isinstance(value, dict):
                for key, part in value.items():
                    await self.push_value(key, part)
            await self.push_value(BaseXCom.XCOM_RETURN_KEY, value)
            yield TaskSuccessEvent(xcoms=self.success_xcoms or None)

    async def on_kill(self) -> None:
        """Cancel the jobs: a user ended or cleared the task, or the run of the DAG has reached its
        limit."""
        if not self.job_ids:
            return
        self.log.info("Cancelling %d jobs of %s", len(self.job_ids), self.job_set)
        address = await FairleadHook(self.fairlead_conn_id).read_address_async()
        async with open_client(address) as client:
            await client.cancel(self.job_ids, reason=ENDED_IN_AIRFLOW)

    async def push_value(self, key: str, value: Any) -> None:
        """Store an XCom of the task. Values of `TaskSuccessEvent` would arrive as JSON text."""
        task: Any = self.task_instance
        map_index = -1 if task.map_index is None else task.map_index
        await XCom.aset(
            key,
            value,
            dag_id=task.dag_id,
            task_id=task.task_id,
            run_id=task.run_id,
            map_index=map_index,
        )

    async def wait(self, address: ServerAddress) -> dict[str, Any]:
        """Wait for the jobs; what the task continues with. Raises `FairleadError`."""
        if not self.job_ids:
            return await self._wait_for_job_set(address)
        async with shared_events.share_events(
            address, self.queue, self.job_set, self.position
        ) as events:
            jobs = await self.wait_for_jobs(events)
            return await self.describe_jobs(events, jobs)

    async def wait_for_jobs(self, events: JobSetEvents) -> list[JobFields]:
        """Wait until the jobs have ended, and write their logs. Raises `FairleadError`."""
        where = Filter(queue=self.queue, job_set=self.job_set)
        followed = [each for each in self.job_ids if each not in self.array_ids]
        async with live_logs.follow_logs(events, followed, self.log_lines, self.log) as live:
            jobs = await job_results.wait_for_jobs(events, where, self.job_ids, self.array_ids)
            await live.finish()
        await job_results.write_logs(events.client, jobs, self.log_lines, self.log, live.complete)
        return jobs

    async def describe_jobs(self, events: JobSetEvents, jobs: list[JobFields]) -> dict[str, Any]:
        """What the task continues with after its jobs have ended."""
        failure = job_results.describe_failures(jobs)
        if not self.reads_result or failure:
            return {"value": [job_results.summarize_job(job) for job in jobs], "failure": failure}
        try:
            value = await job_results.read_function_result(events.client, jobs[0])
        except function_jobs.NoResult as error:
            return {"value": None, "failure": str(error)}
        return {"value": value, "failure": ""}

    async def _wait_for_job_set(self, address: ServerAddress) -> dict[str, Any]:
        """Wait until the job set exists and has ended."""
        is_missing = False
        while True:
            try:
                async with shared_events.share_events(address, self.queue, self.job_set) as events:
                    return describe_job_set(await self._wait_until_finished(events))
            except errors.NotFound:
                if not is_missing:
                    self.log.info(
                        "Waiting for the job set %s/%s, which does not exist yet",
                        *(self.queue, self.job_set),
                    )
                is_missing = True
                await asyncio.sleep(shared_events.RETRY_S)

    async def _wait_until_finished(self, events: JobSetEvents) -> JobSet:
        seen = 0
        while True:
            found = await shared_events.outlast_outages(
                functools.partial(
                    events.client.job_set, self.queue, self.job_set, after=events.position
                )
            )
            if found.is_finished:
                return found
            seen = await events.wait_for_end("", seen)


def describe_job_set(found: JobSet) -> dict[str, Any]:
    """The outcome of a job set that has ended."""
    failure = f"{found.bad} of {found.jobs} jobs did not succeed" if found.bad else ""
    return {"value": found.states, "failure": failure}
