"""What a load costs Postgres: CPU by role of the backend, WAL, and row versions by table."""

import collections
import re
from typing import Any, Final

import msgspec
import psutil

from fairlead_common.db import Pool, open_pool

ENDED: Final = "ended"
"""The role of backends that ended meanwhile."""
PARTITION: Final = re.compile(r"_\d{8}$")
"""The day or week in the name of a partition."""
ROLES: Final = """
SELECT pid, CASE WHEN backend_type = 'client backend' THEN coalesce(application_name, '')
                 ELSE backend_type END AS role
FROM pg_stat_activity
"""
WAL: Final = "SELECT wal_records, wal_fpi, wal_bytes::bigint FROM pg_stat_wal"
TABLES: Final = """
SELECT schemaname || '.' || relname AS name, n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del
FROM pg_stat_user_tables
WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 AND schemaname LIKE 'fairlead%'
"""
SIZES: Final = """
SELECT n.nspname || '.' || c.relname AS name, pg_table_size(c.oid), pg_indexes_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname LIKE 'fairlead%'
"""


class TableCosts(msgspec.Struct, frozen=True, rename="camel"):
    """Rows of one table, or of all its partitions, and its bytes, per job."""

    inserted: float
    updated: float
    hot: float
    deleted: float
    table_bytes: float
    index_bytes: float


class PostgresCosts(msgspec.Struct, frozen=True, rename="camel"):
    """Costs per job: CPU in us by role, WAL, and rows of the tables that were written."""

    cpu_us: float
    cpu_us_by_role: dict[str, float]
    wal_bytes: float
    wal_records: float
    full_page_images: float
    tables: dict[str, TableCosts]


class _Reading(msgspec.Struct, frozen=True):
    """All counters at one time."""

    cpu_s: dict[int, float]
    ended_s: float
    roles: dict[int, str]
    wal: list[int]
    tables: dict[str, list[int]]


class PostgresMeter:
    """Reads the counters of a server on this machine now and later.

    A backend adds its rows to the statistics up to a second late.
    """

    def __init__(self, pool: Pool, server: psutil.Process) -> None:
        self._pool = pool
        self._server = server
        self._before: _Reading

    @classmethod
    async def start(cls, url: str, server: psutil.Process) -> "PostgresMeter":
        """A meter of the costs from now on. `server`: the process of the postmaster."""
        meter = cls(await open_pool(url, size_max=1, name="bench"), server)
        meter._before = await meter._read()
        return meter

    async def close(self) -> None:
        """Close its connection."""
        await self._pool.close()

    async def costs(self, jobs: int) -> PostgresCosts:
        """The costs since the start, divided by the number of jobs."""
        before, after = self._before, await self._read()
        by_role: dict[str, float] = collections.defaultdict(float)
        for pid, used_s in after.cpu_s.items():
            role = after.roles.get(pid, "postmaster" if pid == self._server.pid else "other")
            by_role[role] += used_s - before.cpu_s.get(pid, 0.0)
        gone_s = sum(used_s for pid, used_s in before.cpu_s.items() if pid not in after.cpu_s)
        by_role[ENDED] += max(after.ended_s - before.ended_s - gone_s, 0.0)
        records, images, wal_bytes = (
            (late - early) / jobs for early, late in zip(before.wal, after.wal, strict=True)
        )
        return PostgresCosts(
            cpu_us=round(1e6 * sum(by_role.values()) / jobs, 1),
            cpu_us_by_role={
                role: round(1e6 * used_s / jobs, 1)
                for role, used_s in sorted(by_role.items(), key=lambda item: -item[1])
                if 1e6 * used_s / jobs >= 0.1
            },
            wal_bytes=round(wal_bytes),
            wal_records=round(records, 2),
            full_page_images=round(images, 3),
            tables={
                name: TableCosts(*(round(count / jobs, 3) for count in counts))
                for name in sorted(after.tables)
                if any(counts := _subtract(after.tables[name], before.tables.get(name)))
                and (sum(counts[:4]) > jobs / 100 or sum(counts[4:]) > 10 * jobs)
            },
        )

    async def _read(self) -> _Reading:
        times = self._server.cpu_times()
        tables: dict[str, list[int]] = {}
        for name, *counts in await self._pool.fetch(TABLES):
            _add(tables.setdefault(PARTITION.sub("", name), [0] * 6), 0, counts)
        for name, *sizes in await self._pool.fetch(SIZES):
            if (short := PARTITION.sub("", name)) in tables:
                _add(tables[short], 4, sizes)
        return _Reading(
            cpu_s={each.pid: _cpu_s(each) for each in [self._server, *self._server.children()]},
            ended_s=times.children_user + times.children_system,
            roles={row["pid"]: row["role"] for row in await self._pool.fetch(ROLES)},
            wal=list(await self._pool.fetchrow(WAL)),
            tables=tables,
        )


def _add(total: list[int], first: int, counts: list[Any]) -> None:
    for index, count in enumerate(counts, first):
        total[index] += count


def _subtract(after: list[int], before: list[int] | None) -> list[int]:
    return [late - early for late, early in zip(after, before or [0] * len(after), strict=True)]


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
