"""Who holds the leader's lock: one process at a time, and soon another when it falls silent."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest

from fairlead_common.db import lock_session
from fairlead_common.db.connection_pool import DatabaseUnsuitable
from fairlead_common.db.lock_session import LockSession, holding
from fairlead_common.db.locks import LOOKOUT_REPORTS, SCHEDULER_LEADER
from fairlead_common.log.postgres.event_log import PostgresLog
from fairlead_common.log.protocol import Topic
from fairlead_common.service import clock
from tests.conftest import Server
from tests.contract.leadership.holder import TOPIC
from tests.contract.log.helpers import everything
from tests.cut_link import CutLink

PATIENCE_S = 60.0
"""Far more than the 15 s that are promised: a busy machine must not fail the test."""

Said = Callable[[str, float], None]


class Holder:
    """A process that holds the lock, or waits for it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process

    @classmethod
    @asynccontextmanager
    async def run(
        cls, name: str, database: str, log_url: str | None = None
    ) -> AsyncIterator["Holder"]:
        """Killed at the end of the block, if it is still there."""
        words = ("-m", "tests.contract.leadership.holder", name, database, log_url or database)
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=asyncio.subprocess.PIPE
        )
        try:
            yield cls(name, process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def says(self, word: str) -> None:
        """Wait until it says this word next."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = await self._process.stdout.readline()
        assert line.decode().strip() == word

    async def ends(self) -> str:
        """What it says last."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            rest = await self._process.stdout.read()
        return rest.decode().strip()

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        self._process.send_signal(number)


async def authors(database: str) -> list[str]:
    """Who appended, in the order of the log, each once for all of a stretch."""
    log = await PostgresLog.open(database)
    keys = [entry.key for entry in await everything(log, Topic(TOPIC))]
    await log.close()
    return [key for number, key in enumerate(keys) if number == 0 or keys[number - 1] != key]


@pytest.fixture
async def database(fresh_database: str) -> str:
    log = await PostgresLog.open(fresh_database)
    await log.create(Topic(TOPIC))
    await log.close()
    return fresh_database


@pytest.fixture
def said(record_property: Callable[[str, object], None]) -> Said:
    """Report how long something took."""

    def say(what: str, since_s: float) -> None:
        took_s = clock.monotonic_s() - since_s
        record_property(what, round(took_s, 2))
        sys.stdout.write(f"{what}: {took_s:.2f} s\n")

    return say


async def test_a_lock_of_a_dead_holder_is_acquired_at_once(database: str, said: Said) -> None:
    async with Holder.run("one", database) as one, Holder.run("two", database) as two:
        first, second = await _first(one, two)
        first.send(signal.SIGKILL)
        began_s = clock.monotonic_s()
        await second.says("holds")
        said("holder killed", began_s)
    assert (await authors(database)).count(first.name) <= 1


async def test_a_disconnected_holder_gives_up_before_the_next_one_acquires(
    database: str, said: Said
) -> None:
    async with AsyncExitStack() as stack:
        link, cut_url = await stack.enter_async_context(CutLink.to(database))
        # Its log is still there: only the lock can tell it.
        cut = await stack.enter_async_context(Holder.run("cut", cut_url, database))
        await cut.says("holds")
        other = await stack.enter_async_context(Holder.run("other", database))
        link.cut()
        began_s = clock.monotonic_s()
        lost = asyncio.create_task(cut.says("lost"))
        held = asyncio.create_task(other.says("holds"))
        await asyncio.wait([lost, held], return_when=asyncio.FIRST_COMPLETED)
        assert lost.done(), "the next one held the lock before this one gave up"
        await held
        said("link cut", began_s)
    assert (await authors(database))[:1] == ["cut"]
    assert (await authors(database)).count("cut") == 1


async def test_a_frozen_holder_is_replaced_and_appends_nothing_afterwards(
    database: str, said: Said
) -> None:
    async with Holder.run("frozen", database) as frozen:
        await frozen.says("holds")
        async with Holder.run("other", database) as other:
            frozen.send(signal.SIGSTOP)
            began_s = clock.monotonic_s()
            await other.says("holds")
            said("holder frozen", began_s)
            frozen.send(signal.SIGCONT)
            assert await frozen.ends() in ("lost", "failed")
    assert (await authors(database))[0] == "frozen"
    assert (await authors(database)).count("frozen") == 1


async def test_exactly_one_of_two_waiters_acquires_the_lock(database: str) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Holder.run("first", database))
        await first.says("holds")
        waiting = [
            await stack.enter_async_context(Holder.run(name, database)) for name in ("a", "b")
        ]
        first.send(signal.SIGKILL)
        second, third = await _first(*waiting)
        second.send(signal.SIGKILL)
        await third.says("holds")


async def test_a_holder_ends_with_its_database_and_the_lock_is_acquired_again(
    postgres_server: Server, database: str
) -> None:
    async with Holder.run("one", database) as one:
        await one.says("holds")
        postgres_server.restart()
        assert await one.ends() in ("lost", "failed")
        async with Holder.run("two", database) as two:
            await two.says("holds")


async def test_a_waiter_ends_a_holder_stopped_within_a_statement(
    fresh_database: str, said: Said
) -> None:
    holder = await lock_session.connect(fresh_database, name="holder", command_s_max=600)
    assert await lock_session.try_lock(holder, LOOKOUT_REPORTS)
    await holder.execute("CREATE TABLE rows (value text)")
    copying = asyncio.create_task(holder.copy_to_table("rows", source=_nothing()))
    began_s = clock.monotonic_s()
    async with holding(fresh_database, LOOKOUT_REPORTS, name="next") as session:
        assert isinstance(session, LockSession)
        said("holder stopped in COPY", began_s)
    assert not copying.done()
    copying.cancel()
    await asyncio.wait([copying])
    holder.terminate()


async def test_open_transactions_of_a_silent_predecessor_are_ended(fresh_database: str) -> None:
    silent = await lock_session.connect(fresh_database, name="predecessor")
    await silent.execute("CREATE TABLE rows (value text)")
    await silent.execute("BEGIN; INSERT INTO rows VALUES ('a')")
    busy = await lock_session.connect(fresh_database, name="another")
    await busy.execute("BEGIN")
    async with (
        asyncio.timeout(PATIENCE_S),
        holding(fresh_database, SCHEDULER_LEADER, name="next", silence_s=1.0) as session,
    ):
        while not silent.is_closed():
            await session.end_silent_transactions("predecessor")
            await asyncio.sleep(0.05)
    assert await busy.fetchval("SELECT count(*) FROM rows") == 0
    silent.terminate()
    await busy.close()


async def test_a_standby_whose_own_session_ends_connects_again(fresh_database: str) -> None:
    admin = await asyncpg.connect(fresh_database)
    assert await lock_session.try_lock(admin, SCHEDULER_LEADER)
    ended: list[int] = []

    async def end_waiting_session() -> None:
        """Once; then let it have the lock."""
        if not ended:
            ended.append(1)
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'standby'"
            )
        else:
            await admin.execute("SELECT pg_advisory_unlock_all()")

    async with asyncio.timeout(PATIENCE_S):
        async with holding(
            fresh_database,
            SCHEDULER_LEADER,
            name="standby",
            poll_s=0.01,
            waiting=end_waiting_session,
        ) as session:
            await session.confirm()
    await admin.close()


@pytest.mark.parametrize(
    ("code", "message"),
    [("42704", "Postgres 15 or newer is needed"), ("08P01", "not of a connection pooler")],
)
async def test_a_server_that_cannot_hold_locks_is_refused(code: str, message: str) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """As a server does that does not know a setting of the session."""
        await reader.read(8)
        writer.write(b"N")  # no TLS
        await reader.read(4096)
        fields = f"SFATAL\0C{code}\0Mno such setting: idle_session_timeout\0\0".encode()
        writer.write(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(DatabaseUnsuitable, match=message):
        await lock_session.connect(f"postgresql://somebody@127.0.0.1:{port}/db", name="test")
    server.close()


async def _first(*holders: Holder) -> list[Holder]:
    """The one that holds the lock, then the others; nobody else says anything."""
    saying = {asyncio.create_task(each.says("holds")): each for each in holders}
    done, waiting = await asyncio.wait(saying, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1, "two processes hold the lock"
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    return [saying[task] for task in (*done, *waiting)]


async def _nothing() -> AsyncIterator[bytes]:
    """A source of rows that stops after the first."""
    yield b"row\n"
    await asyncio.Event().wait()
