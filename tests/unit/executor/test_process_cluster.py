"""The process backend: requests to start runs that are on their way while runs are stopped."""

import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from fairlead_common.domain.ids import RunId
from fairlead_common.service import clock
from fairlead_executor.backends.process import ProcessCluster
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import EndKind, Phase, Pod
from tests import disks, waiting
from tests.contract.cluster.beds import LASTS, SUCCEEDS, ProcessBed, run_of, until

TRIES = 20
INODES = 100
"""Of the disk of a cluster: more than the executor needs without runs."""


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[ProcessBed]:
    """A process cluster."""
    bed = ProcessBed(tmp_path)
    await bed.open()
    yield bed
    await bed.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own at the place of the folders of all runs."""
    with disks.small_disk(tmp_path / "executor", "16m", INODES) as folder:
        yield folder


def cluster_of(bed: ProcessBed) -> ProcessCluster:
    """The cluster as what it is."""
    assert isinstance(bed.cluster, ProcessCluster)
    return bed.cluster


def ended(pod: Pod) -> bool:
    return pod.phase is Phase.ENDED


def read_runner(cluster: ProcessCluster, run: RunId) -> int:
    """Wait, without a pause, until the run is claimed; the process id of its runner."""
    start = cluster.folders.folder(run) / "start"
    while not start.exists():
        pass
    number: int = json.loads(start.read_text().splitlines()[0])["runner"]
    return number


async def test_a_run_removed_before_its_runner_exists_never_starts(bed: ProcessBed) -> None:
    cluster = cluster_of(bed)
    cluster.create([bed.lease("first", SUCCEEDS)], clock.now_ms())
    await until(cluster, "first", ended)
    assert cluster.server.pid is not None
    server = psutil.Process(cluster.server.pid)
    server.suspend()
    cluster.create([bed.lease("removed", LASTS)], clock.now_ms())
    cluster.stop(run_of("removed"), 0, pods.stopped("not needed"))
    await until(cluster, "removed", ended)
    cluster.remove([run_of("removed")])
    await waiting.until((cluster.folders.retained / run_of("removed")).exists)
    server.resume()
    cluster.create([bed.lease("last", SUCCEEDS)], clock.now_ms())
    await until(cluster, "last", ended)
    await waiting.until(lambda: not server.children())
    assert not cluster.folders.folder(run_of("removed")).exists()


async def test_a_runner_that_gets_a_signal_as_soon_as_it_has_claimed_reports_the_stop(
    bed: ProcessBed,
) -> None:
    cluster = cluster_of(bed)
    for number in range(TRIES):
        name = f"a{number:02}b"
        cluster.create([bed.lease(name, LASTS)], clock.now_ms())
        os.kill(read_runner(cluster, run_of(name)), signal.SIGTERM)
        pod = await until(cluster, name, ended)
        assert pod.end is not None
        assert pod.end.kind is EndKind.STOPPED, pod.end


async def test_a_run_whose_folder_has_no_space_starts_when_there_is_space(
    small_disk: Path, bed: ProcessBed
) -> None:
    cluster = cluster_of(bed)
    filler = disks.fill_inodes(small_disk)
    cluster.create([bed.lease("a", SUCCEEDS)], clock.now_ms())
    assert cluster.pods[run_of("a")].phase is Phase.CREATED
    assert not cluster.folders.folder(run_of("a")).exists()
    for folder in filler:
        folder.rmdir()
    pod = await until(cluster, "a", ended)
    assert pod.end == pods.SUCCEEDED
