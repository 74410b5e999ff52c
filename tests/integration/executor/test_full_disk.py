"""The disk of the executor is full for a while: its runs neither fail for that nor start twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead_common.domain.records import events as ev
from tests import disks
from tests.integration.executor.executor_harness import ENDS, ExecutorHarness, is_alive
from tests.waiting import until


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside the data folder, where jobs are allowed to write."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own at the place of the folders of all runs."""
    with disks.small_disk(tmp_path / "executor", "16m") as folder:
        yield folder


async def test_a_run_that_ends_on_a_full_disk_is_reported_as_it_ended(
    small_disk: Path, shared: Path, harness: ExecutorHarness
) -> None:
    go, command = shared / "go", shared / "command"
    async with harness.executor():
        await harness.until_ready()
        run = harness.job("a", f"echo $$$$ > {command}; while [ ! -e {go} ]; do sleep 0.05; done")
        await harness.lease(run)
        await until(command.exists)
        await harness.until_reported(run, ev.JobRunRunning)
        disks.fill(small_disk / "filler")
        go.touch()
        await until(lambda: not is_alive(int(command.read_text())))
        await until((harness.run_folder(run) / "exit.new").exists)  # its end is being written
        assert not harness.of(run, *ENDS)
        (small_disk / "filler").unlink()
        assert isinstance(await harness.until_ended(run), ev.JobRunSucceeded)


async def test_a_run_that_is_leased_on_a_full_disk_starts_when_there_is_space(
    small_disk: Path, shared: Path, harness: ExecutorHarness
) -> None:
    started = shared / "started"
    async with harness.executor():
        await harness.until_ready()
        disks.fill(small_disk / "filler")
        run = harness.job("a", f"echo once >> {started}")
        await harness.lease(run)
        await until(harness.run_folder(run).exists)  # its runner tries to write its start
        assert not harness.of(run, *ENDS)
        (small_disk / "filler").unlink()
        assert isinstance(await harness.until_ended(run), ev.JobRunSucceeded)
    assert started.read_text() == "once\n"
