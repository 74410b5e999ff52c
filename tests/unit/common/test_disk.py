"""What is given up for how little space, and what callers get as the reason."""

import asyncio
from pathlib import Path

import asyncpg
import httpx2
import pytest
from fastapi import APIRouter

from fairlead_common.db.connection_pool import DatabaseFull, DatabaseUnavailable, translate_errors
from fairlead_common.domain.errors import AppendRefused, LogFull
from fairlead_common.log.disk_guard import DiskGuardedLog
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.protocol import Record, Topic
from fairlead_common.service.disk import MIB, Bounds, Disk, Space, assess
from fairlead_common.service.settings import Settings
from fairlead_common.web import server
from fairlead_common.web.middleware import DiskFullMiddleware
from tests.unit.common.callers import Only

BOUNDS = Bounds(low=40, low_ends=50, full=10, full_ends=20)
PLENTY = 10**12

# The first and the second state with hysteresis: free bytes one after the other, what they mean.
COURSES = {
    "plenty": ([100, 41], [Space.ENOUGH, Space.ENOUGH]),
    "low until there is clearly enough": ([39, 49, 50], [Space.LOW, Space.LOW, Space.ENOUGH]),
    "full until it is clearly not": ([9, 19, 20, 50], [Space.FULL, Space.FULL, Space.LOW, 0]),
    "from full to plenty at once": ([9, 100], [Space.FULL, Space.ENOUGH]),
}


@pytest.mark.parametrize(("free", "meanings"), COURSES.values(), ids=COURSES.keys())
def test_space_is_assessed_with_hysteresis(free: list[int], meanings: list[Space]) -> None:
    space, found = Space.ENOUGH, []
    for each in free:
        space = assess(each, space, BOUNDS)
        found.append(space)
    assert found == meanings


class Free:
    """A disk with as many free bytes as a test says."""

    def __init__(self) -> None:
        self.bytes = PLENTY

    def __call__(self, folder: Path) -> int:
        return self.bytes


def test_a_disk_elsewhere_is_never_full() -> None:
    disk = Disk(free=lambda _: 0)
    disk.check(Space.LOW)
    assert disk.problem() is None


def test_the_message_has_the_free_and_needed_space() -> None:
    disk = Disk("/data", free=lambda _: 5 * MIB)
    assert disk.problem() == (
        "The disk is full: 5 MiB are free, and nothing is written until there are 96 MiB. Nothing"
        " was done; free some space and try again."
    )


async def test_a_full_disk_refuses_appends_and_permits_reads() -> None:
    free = Free()
    log = DiskGuardedLog(MemoryLog(lambda: 0), Disk("/data", BOUNDS, free))
    await log.create(Topic("things"))
    producer = await log.producer("one")
    record = Record("things", "key", b"value")
    free.bytes = 9
    with pytest.raises(LogFull, match="The disk is full"):
        await producer.append([record])
    assert issubclass(LogFull, AppendRefused)  # whoever tries again after a refusal does so here
    reader = await log.reader("things", {0: 0})
    assert (await reader.read(wait_s=0.0)).entries == []
    free.bytes = PLENTY
    await producer.append([record])
    assert len((await reader.read()).entries) == 1


def client(free: Free) -> httpx2.AsyncClient:
    router = APIRouter()

    @router.get("/api/v1/things")
    async def read_things() -> str:
        return "there"

    @router.post("/api/v1/things")
    async def make_thing() -> str:
        return "made"

    @router.post("/sign-in")
    async def sign_in() -> str:
        return "come in"

    app = server.build_app("test", [router], {}, Settings(), identify=Only())
    gate = DiskFullMiddleware(app, Disk("/data", BOUNDS, free))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=gate), base_url="http://localhost")


async def test_a_full_disk_refuses_requests_with_the_reason_and_permits_reads() -> None:
    free = Free()
    async with client(free) as http:
        free.bytes = 9
        refused = await http.post("/api/v1/things")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "10"
        assert refused.json()["detail"].startswith("The disk is full: 0 MiB are free")
        assert (await http.get("/api/v1/things")).status_code == 200
        assert (await http.post("/sign-in")).status_code == 200
        free.bytes = PLENTY
        assert (await http.post("/api/v1/things")).status_code == 200


async def test_readyz_names_a_full_disk_and_stays_ready(tmp_path: Path) -> None:
    app = server.build_app("test", [], {}, Settings(disk=str(tmp_path)))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        answer = await http.get("/readyz")
    assert answer.status_code == 200
    assert "disk" in answer.json()["checks"]


def test_disk_full_of_postgres_raises_database_full() -> None:
    with (
        pytest.raises(DatabaseFull, match=r"The disk of Postgres is full, .*extend"),
        translate_errors(),
    ):
        raise asyncpg.DiskFullError("could not extend file")
    with (
        pytest.raises(DatabaseUnavailable, match="Postgres refused the statement: no memory"),
        translate_errors(),
    ):
        raise asyncpg.OutOfMemoryError("no memory")
    with pytest.raises(asyncio.CancelledError), translate_errors():
        raise asyncio.CancelledError
