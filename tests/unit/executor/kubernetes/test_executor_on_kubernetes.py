"""A whole executor on an API server in memory: from a lease in the log to the report of its end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fairlead_common.domain.ids import RunId, run_id
from fairlead_common.domain.records import clusters, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.leases import DesiredState, Lease
from fairlead_common.log import topics
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.service import clock
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.service.service import Service
from fairlead_executor.service.settings import ExecutorSettings
from tests.unit.executor.kubernetes.conftest import FakeWorld
from tests.unit.executor.kubernetes.world import WAIT_S_MAX, make_lease

SUCCEEDS = {"run-for": "10ms"}


class Installation:
    """A log, and executors of one name that follow each other."""

    def __init__(self, world: FakeWorld) -> None:
        self.server = world.server
        self.log = MemoryLog(clock.now_ms)
        self._settings = ExecutorSettings(
            executor="e",
            backend="kubernetes",
            heartbeat_s=0.1,
            kubernetes=KubernetesSettings(
                kubeconfig=str(world.server.kubeconfig), ended_pods_max=0
            ),
        )

    @asynccontextmanager
    async def executor(self) -> AsyncIterator[Service]:
        """An executor that is killed at the end."""
        async with Service.open(self._settings, self.log) as service:
            tasks = [asyncio.create_task(work) for work in service.tasks()]
            try:
                yield service
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def write(self, *several: Lease) -> None:
        """What a scheduler leases."""
        pen = await self.log.producer("scheduler")
        await pen.append([leases.record("e", each) for each in several])

    async def clear(self, *runs: RunId) -> None:
        """The scheduler has seen how these ended."""
        pen = await self.log.producer("scheduler")
        await pen.append([leases.deletion_record("e", each) for each in runs])

    def reports(self) -> list[ev.RunEvent]:
        """All reports in order."""
        found: list[ev.RunEvent] = []
        positions = self.log.core.start_positions(topics.JOBS)
        for entry in self.log.core.read(topics.JOBS, positions).entries:
            assert entry.value is not None
            for event in ev.decode(entry.value).events:
                assert isinstance(event, ev.RunEvent)
                found.append(event)
        return found

    def reported(self, lease: Lease) -> list[str]:
        """What was reported of a run, each kind once."""
        names = [
            type(event).__name__.removeprefix("JobRun")
            for event in self.reports()
            if event.job_id == lease.job_id
        ]
        return list(dict.fromkeys(names))

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for this."""
        async with asyncio.timeout(WAIT_S_MAX):
            while not is_so():  # noqa: ASYNC110 (any step of the others may make it so)
                await asyncio.sleep(0.01)


async def test_a_lease_becomes_a_pod_and_its_fate_a_report(world: FakeWorld) -> None:
    installation = Installation(world)
    good = make_lease("a", annotations=SUCCEEDS)
    bad = make_lease("b", annotations={**SUCCEEDS, "exit-code": "3"})
    refused = make_lease("c", spec={"containers": [{"name": "main"}]})
    async with installation.executor():
        await installation.write(good, bad, refused)
        await installation.until(lambda: installation.reported(good)[-1:] == ["Succeeded"])
        await installation.until(lambda: installation.reported(bad)[-1:] == ["Failed"])
        await installation.until(lambda: installation.reported(refused)[-1:] == ["Failed"])
        assert installation.reported(good) == ["Pending", "Running", "Succeeded"]
        assert installation.reported(bad) == ["Pending", "Running", "Failed"]
        assert installation.reported(refused) == ["Pending", "Failed"]
        assert len(world.server.pods()) == 2
        await installation.clear(*(run_id(each.job_id, 1) for each in (good, bad, refused)))
        await installation.until(lambda: not world.server.pods())


async def test_runs_outlive_their_executor_and_are_created_once(world: FakeWorld) -> None:
    installation = Installation(world)
    several = [make_lease(f"a{number:02}b") for number in range(20)]
    async with installation.executor():
        await installation.write(*several)
        await installation.until(lambda: bool(world.server.pods()))
    async with installation.executor():
        await installation.until(
            lambda: all(
                installation.reported(each)[-1:] in (["Running"], ["Lost"]) for each in several
            )
        )
    states = {each.job_id: installation.reported(each)[-1] for each in several}
    running = [
        pod["metadata"]["labels"]["fairlead.dev/job"]
        for pod in world.server.pods()
        if pod["status"]["phase"] == "Running"
    ]
    # What was reported lost never runs, and what runs was reported so.
    assert sorted(running) == sorted(job for job, state in states.items() if state == "Running")


async def test_a_preempted_run_is_reported_so_by_an_executor_after_the_one_that_stopped_it(
    world: FakeWorld,
) -> None:
    installation = Installation(world)
    lease = make_lease(annotations={"stubborn": "1"}, grace_s=2)
    async with installation.executor():
        await installation.write(lease)
        await installation.until(lambda: installation.reported(lease)[-1:] == ["Running"])
        stop = Lease(
            **{name: getattr(lease, name) for name in ("job_id", "run", "queue", "job_set")},
            node=lease.node,
            desired_state=DesiredState.STOP,
            reason="preempted for b",
            grace_s=lease.grace_s,
        )
        await installation.write(stop)
        await installation.until(
            lambda: any("deletionTimestamp" in pod["metadata"] for pod in world.server.pods())
        )
    async with installation.executor():
        await installation.until(lambda: installation.reported(lease)[-1:] == ["Stopped"])
    (ended,) = {
        event.reason for event in installation.reports() if isinstance(event, ev.JobRunStopped)
    }
    assert ended == "preempted for b"


async def test_an_api_server_that_is_away_appears_in_readyz(world: FakeWorld) -> None:
    installation = Installation(world)
    async with installation.executor() as service:
        check = service.checks()["cluster"]
        assert await check() is None
        world.server.away = True
        world.server.cut_watches()
        await installation.until(lambda: service.cluster.problem() is not None)
        sentence = await check()
        assert sentence is not None
        assert sentence.startswith("the API server of the cluster cannot be read: http://127.0.0.1")
        assert "Runs continue" in sentence
        world.server.away = False
        await installation.until(lambda: service.cluster.problem() is None)


async def test_node_changes_are_appended_to_the_log(world: FakeWorld) -> None:
    installation = Installation(world)

    def known() -> dict[str, Node]:
        found: dict[str, Node] = {}
        positions = installation.log.core.start_positions(topics.CLUSTERS)
        for entry in installation.log.core.read(topics.CLUSTERS, positions).entries:
            record = None if entry.value is None else clusters.decode(entry.value)
            if isinstance(record, Node):
                found[record.name] = record
            elif record is None:
                found.pop(entry.key.removeprefix("e/"), None)
        return found

    async with installation.executor():
        await installation.until(lambda: len(known()) == 3)
        world.server.delete("nodes", "n2")
        await installation.until(lambda: "n2" not in known())
        node = world.server.find("nodes", "n1")
        assert node is not None
        world.server.put("nodes", {**node, "spec": {"unschedulable": True}})
        await installation.until(lambda: known()["n1"].unschedulable)
