"""Whatever is killed whenever: nothing starts twice, nothing is forgotten, nothing is left over."""

import asyncio
import functools
import json
import os
from pathlib import Path

import msgspec
import pytest

from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.backends.process import processes
from tests.integration.executor.executor_harness import ENDS, ExecutorHarness, is_alive, kill
from tests.waiting import until


def runner_of(harness: ExecutorHarness, lease: Lease) -> int:
    """The process beside this run."""
    record = json.loads((harness.run_folder(lease) / "start").read_text().splitlines()[0])
    number: int = record["runner"]
    return number


async def test_runs_continue_without_their_executor_and_the_next_one_reports_them(
    harness: ExecutorHarness,
) -> None:
    async with harness.executor() as first:
        await harness.until_ready()
        short = harness.job("a", "sleep 0.5; echo done")
        long = harness.job("b", "echo started; while [ ! -e go ]; do sleep 0.05; done; echo done")
        await harness.lease(short, long)
        await harness.until_reported(long, ev.JobRunRunning)
        await harness.until_reported(short, ev.JobRunRunning)
        first.kill()
    await until(lambda: harness.output(short) == "done\n")
    (harness.run_folder(long) / "work" / "go").touch()
    async with harness.executor():
        for lease in (short, long):
            assert isinstance(await harness.until_ended(lease), ev.JobRunSucceeded)
    assert harness.output(long) == "started\ndone\n"


async def test_each_run_starts_at_most_once_despite_killed_executors(
    harness: ExecutorHarness, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each run writes a line where all can see; a lost one is leased again as another run."""
    lines = tmp_path_factory.mktemp("shared") / "lines"
    async with harness.executor() as first:
        await harness.until_ready()
        first.kill()
    open_leases = {
        f"a{number:03}": harness.job(f"a{number:03}b", f"echo {number} >> {lines}; sleep 0.02")
        for number in range(120)
    }
    await harness.lease(*open_leases.values())
    succeeded: set[str] = set()
    while len(open_leases) > 30:
        more = len(harness.reported) + 20
        async with harness.executor() as executor:
            await harness.until(functools.partial(_has_reported, harness, more))
            executor.kill()
        await _decide(harness, open_leases, succeeded)
    async with harness.executor():
        async with asyncio.timeout(120):
            while open_leases:
                await harness.read()
                await _decide(harness, open_leases, succeeded)
    written = sorted(int(line) for line in lines.read_text().split())
    assert written == list(range(120))
    assert len(succeeded) == 120


def _has_reported(harness: ExecutorHarness, count: int) -> bool:
    return len(harness.reported) >= count


async def _decide(
    harness: ExecutorHarness, open_leases: dict[str, Lease], succeeded: set[str]
) -> None:
    """What a scheduler does about ends: done, or the next run."""
    cleared: list[Lease] = []
    again: list[Lease] = []
    for name, lease in list(open_leases.items()):
        ends = harness.of(lease, *ENDS)
        if not ends:
            continue
        cleared.append(lease)
        if isinstance(ends[0], ev.JobRunSucceeded):
            succeeded.add(name)
            del open_leases[name]
        else:
            assert isinstance(ends[0], ev.JobRunLost), ends[0]
            open_leases[name] = msgspec.structs.replace(lease, run=lease.run + 1)
            again.append(open_leases[name])
    if cleared:
        await harness.clear(*cleared)
    if again:
        await harness.lease(*again)


async def test_a_run_whose_runner_was_killed_is_lost_and_leaves_nothing(
    harness: ExecutorHarness,
) -> None:
    async with harness.executor():
        await harness.until_ready()
        lease = harness.job("a", "sleep 3600 & echo $! $$$$; wait")
        await harness.lease(lease)
        await until(lambda: harness.output(lease).endswith("\n"))
        numbers = [int(text) for text in harness.output(lease).split()]
        kill(runner_of(harness, lease))
        end = await harness.until_ended(lease)
        assert isinstance(end, ev.JobRunFailed)
        assert end.category is FailureCategory.NODE_LOST
        await until(lambda: not any(is_alive(number) for number in numbers))


async def test_a_run_whose_runner_was_killed_without_an_executor_is_lost(
    harness: ExecutorHarness,
) -> None:
    async with harness.executor() as first:
        await harness.until_ready()
        lease = harness.job("a", "sleep 3600")
        await harness.lease(lease)
        await harness.until_reported(lease, ev.JobRunRunning)
        first.kill()
    kill(runner_of(harness, lease))
    async with harness.executor():
        end = await harness.until_ended(lease)
        assert isinstance(end, ev.JobRunFailed)
        assert end.category is FailureCategory.NODE_LOST


async def test_runs_start_after_the_fork_server_was_killed(harness: ExecutorHarness) -> None:
    async with harness.executor() as executor:
        await harness.until_ready()
        before = harness.job("a", "sleep 1")
        await harness.lease(before)
        await harness.until_reported(before, ev.JobRunRunning)
        children = [
            number
            for number, process in processes.read_processes().items()
            if process.parent == executor.process.pid
        ]
        assert len(children) == 1
        kill(children[0])
        await until(lambda: not is_alive(children[0]))
        after = harness.job("b", "true")
        await harness.lease(after)
        assert isinstance(await harness.until_ended(after), ev.JobRunSucceeded | ev.JobRunLost)
        assert isinstance(await harness.until_ended(before), ev.JobRunSucceeded)


async def test_an_executor_stops_and_reports_its_runs_at_shutdown(harness: ExecutorHarness) -> None:
    async with harness.executor() as executor:
        await harness.until_ready()
        lease = harness.job("a", "echo $$$$; sleep 3600")
        stubborn = harness.job("b", "trap '' TERM; echo $$$$; while :; do sleep 1; done", grace_s=1)
        await harness.lease(lease, stubborn)
        await until(lambda: bool(harness.output(lease) and harness.output(stubborn)))
        assert await executor.terminate() == 0
        for each in (lease, stubborn):
            end = await harness.until_ended(each)
            assert isinstance(end, ev.JobRunStopped)
            assert end.reason == "executor shut down"
            assert not is_alive(int(harness.output(each)))


async def test_runs_end_with_the_supervisor_even_if_the_executor_was_killed(
    harness: ExecutorHarness,
) -> None:
    inherited, ours = os.pipe()
    try:
        async with harness.executor(lifeline=inherited) as executor:
            await harness.until_ready()
            lease = harness.job("a", "echo $$$$; sleep 3600")
            await harness.lease(lease)
            await until(lambda: bool(harness.output(lease)))
            executor.kill()
            os.close(ours)
            ours = -1
            await until(lambda: not is_alive(int(harness.output(lease))))
            await until(lambda: (harness.run_folder(lease) / "exit").exists())
    finally:
        for descriptor in (inherited, ours):
            if descriptor >= 0:
                os.close(descriptor)
    async with harness.executor():
        end = await harness.until_ended(lease)
        assert isinstance(end, ev.JobRunStopped)
        assert end.reason == "Fairlead ended"


async def test_a_run_without_a_lease_is_stopped(harness: ExecutorHarness) -> None:
    async with harness.executor() as first:
        await harness.until_ready()
        lease = harness.job("a", "echo $$$$; sleep 3600")
        await harness.lease(lease)
        await until(lambda: bool(harness.output(lease)))
        first.kill()
    number = int(harness.output(lease))
    await harness.clear(lease)
    async with harness.executor():
        await until(lambda: not is_alive(number))
        await until(lambda: harness.run_folder(lease, "kept").exists())


async def test_the_newer_of_two_executors_of_one_name_takes_over(harness: ExecutorHarness) -> None:
    async with harness.executor({"FAIRLEAD_HEARTBEAT_S": "0.5"}) as first:
        await harness.until_ready()
        lease = harness.job("a", "sleep 2")
        await harness.lease(lease)
        await harness.until_reported(lease, ev.JobRunRunning)
        async with harness.executor():
            assert await first.ended() == 1
            assert "another executor named 'local' has taken over" in first.log.read_text()
            assert isinstance(await harness.until_ended(lease), ev.JobRunSucceeded)


async def test_a_folder_of_another_log_is_refused(harness: ExecutorHarness, tmp_path: Path) -> None:
    async with harness.executor() as executor:
        await harness.until_ready()
        lease = harness.job("a", "true")
        await harness.lease(lease)
        await harness.until_ended(lease)
        executor.kill()
    (harness.folder / "executor" / "local" / "log").write_text("another log\n")
    async with harness.executor() as second:
        assert await second.ended() == 1
        assert "belong to another log" in second.log.read_text()


@pytest.mark.parametrize("backend", ["simulated"])
async def test_simulated_runs_of_a_killed_executor_are_lost(
    harness: ExecutorHarness, backend: str
) -> None:
    settings = {"FAIRLEAD_BACKEND": backend, "FAIRLEAD_SIMULATION": '{"minS": 3600}'}
    async with harness.executor(settings) as first:
        await harness.until_ready()
        lease = msgspec.structs.replace(harness.job("a", "true"), node="n0")
        await harness.lease(lease)
        await harness.until_reported(lease, ev.JobRunRunning)
        first.kill()
    async with harness.executor(settings):
        assert isinstance(await harness.until_ended(lease), ev.JobRunLost)
