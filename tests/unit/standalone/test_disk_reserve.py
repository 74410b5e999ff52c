"""How much space is needed, what is made of little, and the reserve."""

import re
from pathlib import Path

import pytest

from fairlead_common.service.disk import MIB
from fairlead_standalone.data import disk_reserve
from fairlead_standalone.data.data_folder import FolderRefused
from fairlead_standalone.data.disk_reserve import DiskUsage, plan_wal

GIB = 1024

PLANS = {
    "a large disk": (20 * GIB, DiskUsage(), 2048),
    "a small one": (3 * GIB, DiskUsage(), 512),
    "a very small one": (700, DiskUsage(), 128),
    "what the log takes already counts": (150, DiskUsage(has_cluster=True, wal=512 * MIB), 128),
    "so does the reserve": (500, DiskUsage(has_cluster=True, reserve=64 * MIB), 128),
}


@pytest.mark.parametrize(("free", "present", "wal"), PLANS.values(), ids=PLANS.keys())
def test_the_log_gets_at_most_a_quarter_of_the_disk(
    free: int, present: DiskUsage, wal: int
) -> None:
    assert plan_wal(Path("/data"), free * MIB, present) == wal


def test_too_little_space_is_refused_with_the_amount() -> None:
    with pytest.raises(FolderRefused, match=r"Only 512 MiB are free .*--data") as refused:
        plan_wal(Path("/data"), 512 * MIB, DiskUsage())
    found = re.search(r"(\d+) MiB are needed. Free (\d+) MiB", str(refused.value))
    assert found is not None
    needed, missing = map(int, found.groups())
    assert needed == 512 + missing
    assert plan_wal(Path("/data"), needed * MIB, DiskUsage()) == 128
    with pytest.raises(FolderRefused):
        plan_wal(Path("/data"), (needed - 1) * MIB, DiskUsage())


def test_the_reserve_is_allocated_while_there_is_space(tmp_path: Path) -> None:
    disk_reserve.keep_reserve(tmp_path, 200 * MIB)
    assert not (tmp_path / disk_reserve.RESERVE_FILE).exists()
    disk_reserve.keep_reserve(tmp_path, 10_000 * MIB)
    assert disk_reserve.measure_usage(tmp_path).reserve >= disk_reserve.RESERVE_BYTES
    disk_reserve.release_reserve(tmp_path)  # this disk has space
    assert (tmp_path / disk_reserve.RESERVE_FILE).exists()
