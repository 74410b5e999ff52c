"""The trigger of tasks that are mapped over jobs: one submission for all of them."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from airflow.sdk import BaseXCom
from airflow.sdk.execution_time.xcom import XCom

from fairlead import AsyncClient, Filter, Job, SubmitResult
from fairlead_airflow import job_names, shared_events
from fairlead_airflow.hook import ServerAddress
from fairlead_airflow.job_names import TaskKey
from fairlead_airflow.links import KEY, build_job_set_url
from fairlead_airflow.trigger import FairleadJobSetTrigger

REPORTED: Final = "fairlead_reported"
"""The XCom key of the client id of the job with which a try has ended successfully."""
LINGER_S: Final = 60.0
"""Jobs of the first instances can end before the triggerer has started the last instance."""


class FairleadMapTrigger(FairleadJobSetTrigger):
    """Runs the job of one mapped task instance: that at its map index in the list of `source`.

    The first instance in its first try submits the jobs of all instances at once; the others wait
    for that. All follow one event stream. A later try waits for the job of the try before, unless
    that has ended without success, or its success was reported, because then the task was cleared:
    it submits the job again, alone. XComs of tasks that start in the triggerer outlive their tries.
    """

    def __init__(
        self,
        fairlead_conn_id: str,
        queue: str,
        source: str,
        job_set: str | None = None,
        source_key: str = BaseXCom.XCOM_RETURN_KEY,
        defaults: Mapping[str, Any] | None = None,
        log_lines: int = 0,
        ends_task: bool = True,
    ) -> None:
        super().__init__(
            fairlead_conn_id, queue, job_set or "", log_lines=log_lines, ends_task=ends_task
        )
        self.source = source
        self.source_key = source_key
        self.defaults = defaults

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, from which a triggerer makes the trigger again."""
        return (
            "fairlead_airflow.map_trigger.FairleadMapTrigger",
            {
                "fairlead_conn_id": self.fairlead_conn_id,
                "queue": self.queue,
                "source": self.source,
                "job_set": self.job_set,
                "source_key": self.source_key,
                "defaults": self.defaults,
                "log_lines": self.log_lines,
                "ends_task": self.ends_task,
            },
        )

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
            job = jobs[key.map_index]
            if task.try_number == 1:
                made = await events.run_once(
                    "submission", lambda: self._submit(events.client, jobs)
                )
                self.job_ids = [made.jobs[key.map_index].id]
            else:
                job = await self._find_next_try(events.client, key, job)
                self.job_ids = [(await self._submit(events.client, [job])).jobs[0].id]
            outcome = await super().wait(address)
        if not outcome["failure"]:
            await self.push_value(REPORTED, job.client_id)
        return outcome

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

    async def _submit(self, client: AsyncClient, jobs: list[Job]) -> SubmitResult:
        self.log.info("Submitting %d jobs to %s/%s", len(jobs), self.queue, self.job_set)
        return await shared_events.outlast_outages(
            lambda: client.submit(self.queue, self.job_set, jobs, defaults=self.defaults)
        )

    async def _find_next_try(self, client: AsyncClient, key: TaskKey, job: Job) -> Job:
        """The job of the try before, or else the one to submit next."""
        where = Filter(queue=self.queue, job_set=self.job_set)

        async def read_states() -> dict[str, str]:
            return {found.client_id or "": found.state async for found in client.iter_jobs(where)}

        states = await shared_events.outlast_outages(read_states)
        reported = await XCom.aget_one(
            key=REPORTED,
            dag_id=key.dag_id,
            task_id=key.task_id,
            run_id=key.run_id,
            map_index=key.map_index,
        )
        return job_names.renew_reported_job(job, states, reported)
