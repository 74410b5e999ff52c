"""Where the log of a run is to be had, and what is said until that is known."""

import asyncio

import pytest

from fairlead_common.domain.problems import Problem
from fairlead_common.log import topics
from fairlead_common.log.memory_log import MemoryLog
from fairlead_lookout.http.executor_logs import ExecutorLogs
from fairlead_lookout.store.topic_caches import ClusterCache
from tests.unit.lookout.builders import job_id

ROW = {"executor": "e", "number": 1, "ended_ms": None, "running_ms": 1, "state": "RUNNING"}


async def test_a_cluster_is_unknown_only_once_all_clusters_were_read() -> None:
    """A reader whose server was killed asks the next one at once, and gives up at a 404."""
    log = MemoryLog(lambda: 0)
    await log.create(topics.clusters())
    clusters = ClusterCache(log, away_s=1)
    logs = ExecutorLogs(clusters, "key")
    with pytest.raises(Problem) as refused:
        await logs.open(ROW, job_id("a"), {})
    assert (refused.value.slug, refused.value.retry_after_s) == ("unavailable", 1)
    following = asyncio.create_task(clusters.run())
    while not clusters.ready:  # noqa: ASYNC110 (it tells nobody)
        await asyncio.sleep(0)
    with pytest.raises(Problem) as refused:
        await logs.open(ROW, job_id("a"), {})
    assert refused.value.slug == "not-found"
    following.cancel()
    await asyncio.wait([following])
    await logs.close()
