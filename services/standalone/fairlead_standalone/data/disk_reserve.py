"""The disk space that the data folder needs, and a reserve file for a full disk.

A Postgres that cannot extend its write-ahead log ends, and cannot recover before there is space.
The reserve file is then deleted, so that reads and pages work again on a full disk.
"""

import asyncio
import os
from pathlib import Path
from typing import Final

import msgspec

from fairlead_common.service.disk import MIB, Bounds, Disk, Space, free_bytes
from fairlead_standalone.data.data_folder import FolderRefused
from fairlead_standalone.processes.process_output import Say

RESERVE_FILE: Final = "reserve"
RESERVE_BYTES: Final = 64 * MIB

WAL_MIB: Final = (2048, 1024, 512, 256, 128)
"""Sizes to which the write-ahead log is allowed to grow (`max_wal_size`), the best first."""
WAL_SHARE: Final = 4
"""It gets at most a quarter of the disk: the rest is for tables, runs and their output."""
WAL_SLACK_BYTES: Final = 48 * MIB
"""Postgres goes beyond `max_wal_size` by the segments that are being written."""
CLUSTER_BYTES: Final = 64 * MIB
"""A new database cluster with empty tables of Fairlead."""
LOGS_BYTES: Final = 80 * MIB
"""The log files of five children at their largest."""
WATCH_S: Final = 1.0


class DiskUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the needed space that the folder uses already, in bytes."""

    has_cluster: bool = False
    wal: int = 0
    reserve: int = 0


def measure_usage(folder: Path) -> DiskUsage:
    """Measure the folder. Files that disappear meanwhile are not counted."""
    clusters = [path for path in folder.glob("postgres-*") if (path / "PG_VERSION").exists()]
    return DiskUsage(
        has_cluster=bool(clusters),
        wal=sum(_size(file) for path in clusters for file in (path / "pg_wal").glob("*")),
        reserve=_size(folder / RESERVE_FILE),
    )


def plan_wal(folder: Path, free: int, present: DiskUsage) -> int:
    """The maximum size of the write-ahead log on this disk, in MiB.

    Raises `FolderRefused` with the missing space if the smallest size does not fit.
    """
    available = free + present.wal + present.reserve
    work = Bounds().low_ends + LOGS_BYTES
    cluster = 0 if present.has_cluster else CLUSTER_BYTES
    for wal in WAL_MIB:
        needed = wal * MIB + WAL_SLACK_BYTES + work + cluster + RESERVE_BYTES
        if needed <= available and wal * MIB * WAL_SHARE <= available:
            return wal
    missing = needed - available
    if missing <= 0:
        return WAL_MIB[-1]
    raise FolderRefused(
        f"Only {free // MIB} MiB are free on the disk of {folder}, and"
        f" {-((free + missing) // -MIB)} MiB are needed. Free {-(missing // -MIB)} MiB, or choose a"
        " folder on another disk with --data."
    )


def keep_reserve(folder: Path, free: int) -> None:
    """Create the reserve file if it does not exist and there is more than enough space."""
    file = folder / RESERVE_FILE
    if file.exists() or free < Bounds().low_ends + RESERVE_BYTES:
        return
    fresh = file.with_name(f"{RESERVE_FILE}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
    except OSError:
        fresh.unlink()
        raise
    finally:
        os.close(descriptor)
    fresh.rename(file)


def release_reserve(folder: Path) -> None:
    """Delete the reserve file if less than its size is free: recovery at a start needs space."""
    if free_bytes(folder) < RESERVE_BYTES:
        (folder / RESERVE_FILE).unlink(missing_ok=True)


async def watch_disk(folder: Path, say: Say, disk: Disk) -> None:
    """Report when the disk gets full and when it has space again, and keep the reserve.

    Never returns.
    """
    before = Space.ENOUGH
    is_broken = False
    while True:
        try:
            space = disk.space
            if space is not before:
                say(disk.problem() or f"the disk of {folder} has space again; work continues")
            before = space
            if space is Space.ENOUGH:
                await asyncio.to_thread(keep_reserve, folder, free_bytes(folder))
            is_broken = False
        except OSError as error:
            if not is_broken:
                say(f"the space on the disk of {folder} cannot be watched: {error}")
            is_broken = True
        await asyncio.sleep(WATCH_S)


def _size(file: Path) -> int:
    try:
        return file.stat().st_blocks * 512
    except OSError:
        return 0
