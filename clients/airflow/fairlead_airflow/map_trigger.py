"""The trigger of tasks that are mapped over jobs: one submission for all of them."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from airflow.sdk import BaseXCom
from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import TriggerEvent

from fairlead import Job, SubmittedJob
from fairlead.models.job_models import JobFields
from fairlead_airflow.hook import ServerAddress
from fairlead_airflow.jobs import job_names, job_results, shared_events
from fairlead_airflow.jobs.job_names import TaskKey
from fairlead_airflow.jobs.mapped_jobs import LaterTry, MappedJobs
from fairlead_airflow.jobs.shared_events import JobSetEvents
from fairlead_airflow.links import KEY, build_job_set_url
from fairlead_airflow.trigger import ENDED_IN_AIRFLOW, FairleadJobSetTrigger

REPORTED: Final = "fairlead_reported"
"""The XCom key of the client id of the job with which Airflow recorded a success."""
STARTS: Final = "starts"
"""The field of the event of a try that a worker has to start."""
LINGER_S: Final = 60.0
"""Jobs of the first instances can end before the triggerer has started the last instance."""


class FairleadMapTrigger(FairleadJobSetTrigger):
    """Runs the job of one mapped task instance: that at its map index in the list that the task
    `source` returned. `MappedJobs` submits it together with the jobs of the other instances.

    A later try waits for the job of the try before. It submits the job again if that has ended
    without success, or if the task was cleared after a success: Airflow records the client id of a
    successful job together with the success of the task, and keeps it when the task is cleared.
    A task that ends in a worker starts its later tries there: only workers know whether a task was
    cleared.
    """

    def __init__(
        self,
        fairlead_conn_id: str,
        fairlead_queue: str,
        source: str,
        job_set: str | None = None,
        source_key: str = BaseXCom.XCOM_RETURN_KEY,
        defaults: Mapping[str, Any] | None = None,
        log_lines: int = 0,
        ends_task: bool = True,
    ) -> None:
        super().__init__(
            fairlead_conn_id,
            fairlead_queue,
            job_set or "",
            log_lines=log_lines,
            ends_task=ends_task,
        )
        self.fairlead_queue = fairlead_queue
        self.source = source
        self.source_key = source_key
        self.defaults = defaults

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, from which a triggerer makes the trigger again."""
        return (
            "fairlead_airflow.map_trigger.FairleadMapTrigger",
            {
                "fairlead_conn_id": self.fairlead_conn_id,
                "fairlead_queue": self.fairlead_queue,
                "source": self.source,
                "job_set": self.job_set,
                "source_key": self.source_key,
                "defaults": self.defaults,
                "log_lines": self.log_lines,
                "ends_task": self.ends_task,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fires once, when the job has ended or the server refuses to report it; at once if the try
        has to start in a worker."""
        task: Any = self.task_instance
        self.queue = self.fairlead_queue  # Airflow has rendered it, by the name of the operator
        if task.try_number > 1 and not self.ends_task:
            yield TriggerEvent({STARTS: True})
            return
        async for event in super().run():
            yield event

    async def wait(self, address: ServerAddress) -> dict[str, Any]:
        """Submit and wait; what the task continues with. Raises `FairleadError`."""
        task: Any = self.task_instance
        key = TaskKey(task.dag_id, task.run_id, task.task_id, task.map_index)
        self.job_set = self.job_set or job_names.name_job_set(key)
        url = build_job_set_url(address.url, self.queue, self.job_set)
        await self.push_value(KEY, url)
        async with shared_events.share_events(
            address, self.queue, self.job_set, linger_s=LINGER_S
        ) as events:
            jobs = await events.run_once("jobs", lambda: self._read_jobs(key))
            mapped = MappedJobs(events, self.queue, self.job_set, self.defaults)
            if task.try_number == 1:
                made = await mapped.submit_first_try(jobs, key.map_index)
                ended = await self._wait_for_job(events, made)
            else:
                later = LaterTry(jobs[key.map_index], await self._read_reported(key))
                ended = await self._wait_for_later_try(events, mapped, later)
            outcome = await self.describe_jobs(events, [ended])
        self.success_xcoms = {REPORTED: ended.client_id}
        return outcome

    async def _wait_for_later_try(
        self, events: JobSetEvents, mapped: MappedJobs, later: LaterTry
    ) -> JobFields:
        """Wait for the job of the try before, or for a new one."""
        while True:
            made = await mapped.submit_later_try(later)
            self.log.info(
                "Found job %s of an earlier try" if made.duplicate else "Submitted job %s",
                made.client_id,
            )
            ended = await self._wait_for_job(events, made)
            # The trigger of a try that was cleared can cancel the job after this try has found it.
            if not (made.duplicate and ended.reason == ENDED_IN_AIRFLOW):
                return ended

    async def _wait_for_job(self, events: JobSetEvents, made: SubmittedJob) -> JobFields:
        """Wait until this job has ended, and write its log."""
        self.job_ids, self.array_ids = [made.id], job_results.find_arrays([made])
        (ended,) = await self.wait_for_jobs(events)
        return ended

    async def _read_jobs(self, key: TaskKey) -> list[Job]:
        """The jobs of all instances, in the order of their map indexes."""
        found = await XCom.aget_one(
            key=self.source_key, dag_id=key.dag_id, task_id=self.source, run_id=key.run_id
        )
        jobs = msgspec.convert(list(found), list[Job])
        return [
            named
            for index, job in enumerate(jobs)
            for named in job_names.name_jobs(key._replace(map_index=index), [job])
        ]

    async def _read_reported(self, key: TaskKey) -> str | None:
        """The client id that Airflow recorded with the last success."""
        found = await XCom.aget_one(
            key=REPORTED,
            dag_id=key.dag_id,
            task_id=key.task_id,
            run_id=key.run_id,
            map_index=key.map_index,
        )
        # Airflow 3.3.2 stores the XComs of an event as JSON text. Client ids contain no quotes.
        return None if found is None else str(found).strip('"')
