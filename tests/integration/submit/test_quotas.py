"""Quotas: live jobs and bytes of a queue and of all, with the reason and the way out."""

import asyncio

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events
from fairlead_submit.domain.policy import Quotas
from tests.integration.submit.submit_and_lookout import watched
from tests.integration.submit.submit_server import Answer, Served, served

RUN = {"command": ["true"]}


def refused(answer: Answer, *words: str) -> None:
    """It is refused as beyond a quota, with these words."""
    assert answer.status_code == 403, answer.text
    problem = answer.json()
    assert problem["type"] == "/problems/forbidden"
    for word in words:
        assert word in problem["detail"], problem["detail"]


async def test_live_jobs_of_a_queue_are_limited_by_its_quota(
    fresh_database: str, valkey_url: str
) -> None:
    settings = {"quotas": Quotas(queue_jobs_max=3)}
    async with watched(fresh_database, valkey_url, submit_settings=settings) as submit:
        first = await submit.submit([RUN, RUN])
        assert first.status_code == 200, first.text
        refused(
            await submit.submit([RUN, RUN]),
            f"Queue '{submit.queue}' has 2 live jobs, and this request adds 2; the quota is 3",
            "`quotas.queueJobsMax`",
            "cancel some",
        )
        assert (await submit.submit([RUN])).status_code == 200
        refused(await submit.submit([RUN]), "has 3 live jobs")

        # What has ended, and is known to have, makes place for more.
        job_id = JobId(first.json()["jobs"][0]["id"])
        await submit.happened("set", events.JobCancelled(job_id=job_id, reason="enough"))
        assert (await submit.submit([RUN])).status_code == 200
        refused(await submit.submit([RUN]), "has 3 live jobs")

        metrics = (await submit.client.get("/metrics")).text
        assert f'fairlead_submit_live_jobs{{queue="{submit.queue}"}} 3.0' in metrics
        assert 'fairlead_submit_quota{quota="queueJobsMax"} 3.0' in metrics
        assert 'fairlead_submit_quota_refusals_total{quota="queueJobsMax"}' in metrics


async def test_quotas_limit_all_queues_together_and_bytes(
    fresh_database: str, valkey_url: str
) -> None:
    settings = {"quotas": Quotas(jobs_max=2, bytes_max=10_000)}
    async with watched(fresh_database, valkey_url, submit_settings=settings) as submit:
        large = {"command": ["echo", "x" * 9_000]}
        assert (await submit.submit([large])).status_code == 200
        refused(await submit.submit([large]), "bytes of live jobs", "`quotas.bytesMax`", "10000")
        assert (await submit.submit([RUN])).status_code == 200
        refused(await submit.submit([RUN]), "This installation has 2 live jobs", "`quotas.jobsMax`")
        dry = await submit.post(
            "/jobs?dryRun=true", {"queue": submit.queue, "jobSet": "set", "jobs": [RUN]}
        )
        refused(dry, "This installation has 2 live jobs")


async def test_existing_jobs_need_no_quota(fresh_database: str, valkey_url: str) -> None:
    settings = {"quotas": Quotas(queue_jobs_max=1)}
    async with watched(fresh_database, valkey_url, submit_settings=settings) as submit:
        job = {**RUN, "clientId": "a"}
        first = (await submit.submit([job])).json()
        await submit.seen(first["position"])
        again = await submit.submit([job])
        assert again.status_code == 200, again.text
        assert again.json()["jobs"][0]["duplicate"]


async def test_concurrent_requests_do_not_exceed_a_quota(
    fresh_database: str, valkey_url: str
) -> None:
    settings = {"quotas": Quotas(queue_jobs_max=5)}
    async with watched(fresh_database, valkey_url, submit_settings=settings) as submit:
        await submit.seen((await submit.submit([RUN])).json()["position"])
        answers = await asyncio.gather(*(submit.submit([RUN]) for _ in range(20)))
        assert sorted(answer.status_code for answer in answers) == [200] * 4 + [403] * 16


async def test_each_of_several_processes_accepts_at_most_the_remaining_quota(
    fresh_database: str, valkey_url: str
) -> None:
    """Each process knows of the others' appends through the view only, so each takes at most what
    was left when it read the view. Once the view has them, all refuse."""
    settings = {"quotas": Quotas(queue_jobs_max=5)}
    async with (
        watched(fresh_database, valkey_url, submit_settings=settings) as one,
        served(fresh_database, settings=settings) as other,
    ):
        own, other.queue = other.queue, one.queue
        assert own != one.queue
        await one.seen((await one.submit([RUN])).json()["position"])
        processes: tuple[Served, ...] = (one, other)
        answers = await asyncio.gather(
            *(process.submit([RUN]) for _ in range(20) for process in processes)
        )
        taken = [answer.json()["position"] for answer in answers if answer.status_code == 200]
        assert 5 <= 1 + len(taken) <= 5 * len(processes)
        for position in taken:
            await one.seen(position)
        for process in processes:
            refused(await process.submit([RUN]), f"has {1 + len(taken)} live jobs")
