"""What only the log in Postgres has: lost answers, a full disk, cleanup, notifications."""

import asyncio
import gc
import importlib.resources
import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from fairlead_common.db.connection_pool import Connection
from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogUnavailable,
    ProducerFenced,
)
from fairlead_common.log.compacted_view import read_newest
from fairlead_common.log.opening import maintain_log, open_log
from fairlead_common.log.postgres.connection import Link
from fairlead_common.log.postgres.event_log import PostgresLog
from fairlead_common.log.postgres.notifications import Notifier
from fairlead_common.log.postgres.statements import MIGRATIONS, PACKAGE, SQL
from fairlead_common.log.protocol import TOMBSTONE_RETENTION_MS, Record, Topic
from fairlead_common.service import clock
from tests.contract.log.beds import a_name
from tests.contract.log.breakable_connection import BreakableConnection
from tests.contract.log.helpers import everything, made, record, texts

DAY_MS = 86_400_000


@pytest.fixture
async def log(database: str) -> AsyncIterator[PostgresLog]:
    log = await PostgresLog.open(database)
    yield log
    await log.close()


@pytest.fixture
async def line(database: str) -> AsyncIterator[BreakableConnection]:
    """A line to the database that can be cut."""
    parts = urlsplit(database)
    async with BreakableConnection(parts.hostname or "", parts.port or 0) as line:
        yield line


def through(line: BreakableConnection, database: str) -> str:
    parts = urlsplit(database)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{line.port}"))


async def test_readers_of_compacted_topics_share_a_connection(fresh_database: str) -> None:
    log = await PostgresLog.open(fresh_database)
    shared = [await made(log, compacted=True) for _ in range(4)]
    readers = [await log.reader(topic.name, {0: 0}) for topic in shared]
    alone = await log.reader((await made(log)).name, {0: 0})
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", topic.name) for topic in shared])

    for topic, reader in zip(shared, readers, strict=True):
        assert texts((await reader.read()).entries) == [topic.name]
    await alone.read(wait_s=0.0)
    # One is shared; one is of a reader, one of a producer, one of notifications.
    assert await count_sessions(fresh_database) == 4

    await readers[0].close()
    with pytest.raises(LogUnavailable):
        await readers[0].read()
    assert (await readers[1].read(wait_s=0.0)).entries == []
    await log.close()


async def count_sessions(database: str) -> int:
    """The connections to this database, beside the one that counts them."""
    connection = await asyncpg.connect(database)
    try:
        query = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
        """
        return int(await connection.fetchval(query))
    finally:
        await connection.close()


async def test_a_cancelled_read_leaves_the_shared_connection_usable(log: PostgresLog) -> None:
    topics = [await made(log, compacted=True) for _ in range(2)]
    first, second = [await log.reader(topic.name, {0: 0}) for topic in topics]
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1") for topic in topics])
    for turns in range(8):  # cancelled ever later
        reading = asyncio.create_task(first.read(wait_s=0.0))
        for _ in range(turns):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
    assert texts((await second.read()).entries) == ["1"]


async def test_a_call_waits_for_the_calls_before_it_within_a_bound(database: str) -> None:
    link = Link(database, 0.1)
    asked = asyncio.Event()

    async def hang(_: Connection) -> None:
        asked.set()
        await asyncio.Event().wait()

    hanging = asyncio.create_task(link.query(hang, within_s=60.0))
    await asked.wait()
    with pytest.raises(LogUnavailable, match="asked before"):
        await link.query(lambda connection: connection.fetchval("SELECT 1"))
    hanging.cancel()
    await asyncio.wait([hanging])
    one = await link.query(lambda connection: connection.fetchval("SELECT 1"), within_s=60.0)
    assert one == 1
    await link.close()


async def test_an_append_with_a_lost_response_is_unknown_and_can_be_visible(
    log: PostgresLog, line: BreakableConnection, database: str
) -> None:
    topic = await made(log)
    far = await PostgresLog.open(through(line, database))
    producer = await far.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    line.cut_at_answer(b"the second")
    with pytest.raises(AppendUnknown):
        await producer.append([record(topic, "a", "the second")])
    with pytest.raises(ProducerFenced):
        await producer.append([record(topic, "a", "3")])
    await far.producer(producer.name)
    assert texts(await everything(log, topic)) == ["1", "the second"]
    await far.close()


async def test_an_append_with_a_lost_request_is_unknown_and_not_visible(
    log: PostgresLog, line: BreakableConnection, database: str
) -> None:
    topic = await made(log)
    far = await PostgresLog.open(through(line, database))
    producer = await far.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    line.cut_at_question(b"the second")
    with pytest.raises(AppendUnknown):
        await producer.append([record(topic, "a", "the second")])
    assert texts(await everything(log, topic)) == ["1"]
    await far.close()


async def test_a_disconnected_reader_continues_without_a_gap(
    log: PostgresLog, line: BreakableConnection, database: str
) -> None:
    topic = await made(log)
    far = await PostgresLog.open(through(line, database))
    reader = await far.reader(topic.name, {0: 0})
    producer = await log.producer(a_name())
    seen: list[str] = []
    for number in range(6):
        await producer.append([record(topic, "a", f"{number}")])
        if number % 2:
            line.cut_at_answer(b"")
        while len(seen) <= number:
            seen += texts((await reader.read(wait_s=10)).entries)
    assert seen == [f"{number}" for number in range(6)]
    await far.close()


async def test_a_full_disk_refuses_the_append_with_the_reason(
    log: PostgresLog, fresh_database: str
) -> None:
    full = await PostgresLog.open(fresh_database)
    topic = await made(full)
    producer = await full.producer(a_name())
    connection = await asyncpg.connect(fresh_database)
    await connection.execute(
        """
        CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'could not extend file: No space left on device'
            USING ERRCODE = '53100';
        END $$;
        CREATE TRIGGER no_space BEFORE INSERT ON fairlead_log.batches
        EXECUTE FUNCTION no_space();
        """
    )
    with pytest.raises(AppendRefused, match="No space left on device"):
        await producer.append([record(topic, "a", "1")])
    await connection.execute("DROP TRIGGER no_space ON fairlead_log.batches")
    await connection.close()
    await producer.append([record(topic, "a", "2")])
    assert texts(await everything(full, topic)) == ["2"]
    await full.close()


async def test_a_log_that_cannot_be_opened_has_the_reason(database: str) -> None:
    nobody = urlsplit(database)
    host = nobody.netloc.rpartition("@")[2]
    with pytest.raises(LogUnavailable, match="nobody"):
        await open_log(urlunsplit(nobody._replace(netloc=f"nobody:wrong@{host}")))
    with pytest.raises(LogUnavailable, match="does not exist"):
        await open_log(urlunsplit(nobody._replace(path=f"/absent_{secrets.token_hex(4)}")))


async def test_two_processes_can_create_a_log_concurrently(fresh_database: str) -> None:
    logs = await asyncio.gather(*(PostgresLog.open(fresh_database) for _ in range(4)))
    assert len({await log.identity() for log in logs}) == 1
    await asyncio.gather(*(log.create(Topic("t", partitions=8)) for log in logs))
    assert len(await logs[0].end_positions("t")) == 8
    for log in logs:
        await log.close()


async def test_notifications_arrive_in_other_processes(database: str) -> None:
    here, there = Notifier(database), Notifier(database)
    heard = there.next_notification("topic")
    async with asyncio.timeout(120):
        while not heard.is_set():
            # Until the other one listens, its own start may be what wakes it: ring on.
            here.notify({"topic", "another"})
            await asyncio.sleep(0)
        heard = there.next_notification("topic")
        here.notify({"topic"})
        await heard.wait()
    await here.close()
    await there.close()


async def test_compaction_removes_all_but_the_newest_record_of_a_key(log: PostgresLog) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    for number in range(30):
        await producer.append([record(topic, f"{n}", f"{number}") for n in range(3)])
    await log.maintain(clock.now_ms())
    assert texts(await everything(log, topic)) == ["29", "29", "29"]
    await producer.append([record(topic, "0", "30"), record(topic, "1", None)])
    await log.maintain(clock.now_ms())
    assert texts(await everything(log, topic)) == ["29", "30", "null"]


async def test_removed_records_take_no_space_for_long(fresh_database: str) -> None:
    """Values are written again when most of them are removed, rows go with their last record."""
    log = await PostgresLog.open(fresh_database)
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, f"{n}", "x" * 100) for n in range(200)])
    connection = await asyncpg.connect(fresh_database)
    sizes: list[int] = []
    for left in (150, 90, 1, 0):
        await producer.append([record(topic, f"{n}", None) for n in range(left, 200)])
        await log.maintain(clock.now_ms() + len(sizes) * TOMBSTONE_RETENTION_MS)
        assert len((await read_newest(log, topic.name))[0]) == left
        sizes.append(
            await connection.fetchval(
                "SELECT coalesce(sum(octet_length(value)), 0) FROM fairlead_log.batches,"
                " unnest(stored_values) AS stored (value)"
            )
        )
    assert sizes == [20_000, 9_000, 100, 0]
    await log.maintain(clock.now_ms() + 10 * TOMBSTONE_RETENTION_MS)
    assert await connection.fetchval("SELECT count(*) FROM fairlead_log.batches") == 0
    await connection.close()
    await log.close()


async def test_long_values_are_stored_compressed_and_reads_count_what_they_return(
    fresh_database: str,
) -> None:
    log = await PostgresLog.open(fresh_database)
    topic = await made(log)
    producer = await log.producer(a_name())
    text = "0123456789" * 20_000
    for number in range(8):
        await producer.append([record(topic, f"{number}", text), record(topic, "short", "1")])
    connection = await asyncpg.connect(fresh_database)
    stored = await connection.fetchval(
        "SELECT sum(pg_column_size(stored_values)) FROM fairlead_log.batches"
    )
    assert stored < 8 * len(text) / 50
    part = await connection.fetchval("SELECT part FROM fairlead_log.parts")
    _, *batches = await connection.fetch(SQL["read"], [part], [0], 100, 3 * len(text), [0])
    assert len(batches) == 3  # the server sends no more than the reader returns
    reader = await log.reader(topic.name, await log.start_positions(topic.name))
    sizes = []
    while batch := (await reader.read(bytes_max=3 * len(text), wait_s=0)).entries:
        sizes.append(sum(len(each.value or b"") for each in batch))
    assert max(sizes) <= 3 * len(text)
    assert sum(sizes) == 8 * (len(text) + len("1"))
    await connection.close()
    await log.close()


async def test_compressed_values_are_compacted(fresh_database: str) -> None:
    log = await PostgresLog.open(fresh_database)
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    text = "0123456789" * 1_000
    await producer.append([record(topic, f"{n}", f"{n}{text}") for n in range(20)])
    await producer.append([record(topic, f"{n}", None) for n in range(3, 20)])
    await log.maintain(clock.now_ms())
    values, _ = await read_newest(log, topic.name)
    assert sorted(values.values()) == [f"{n}{text}".encode() for n in range(3)]
    await log.close()


async def test_a_log_of_an_earlier_version_is_read_and_continued(fresh_database: str) -> None:
    """Its tables had one row for each record."""
    scripts = importlib.resources.files(PACKAGE).joinpath(MIGRATIONS)
    connection = await asyncpg.connect(fresh_database)
    await connection.execute(
        "CREATE SCHEMA fairlead_log; CREATE TABLE fairlead_log.migrations"
        " (name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
    )
    for name in ("0001_log.sql", "0002_tombstones.sql"):
        await connection.execute(scripts.joinpath(name).read_text())
        await connection.execute("INSERT INTO fairlead_log.migrations (name) VALUES ($1)", name)
    await connection.execute(
        """
        INSERT INTO fairlead_log.topics VALUES ('t', 1, true, 60);
        INSERT INTO fairlead_log.parts (topic, partition, compacted, next, cleaned)
        VALUES ('t', 0, true, 9, 3);
        INSERT INTO fairlead_log.entries (part, compacted, position, time_ms, key, value)
        SELECT part, true, e.position, e.position * 10, e.key, e.value
        FROM fairlead_log.parts,
             (VALUES (2, 'a', '2'::bytea), (5, 'b', '5'), (6, 'a', NULL), (8, 'c', '8'))
                 AS e (position, key, value);
        """
    )
    await connection.close()
    log = await PostgresLog.open(fresh_database)
    entries = await everything(log, Topic("t"))
    assert [(e.position, e.time_ms, e.key, e.value) for e in entries] == [
        (2, 20, "a", b"2"),
        (5, 50, "b", b"5"),
        (6, 60, "a", None),
        (8, 80, "c", b"8"),
    ]
    producer = await log.producer(a_name())
    await producer.append([Record("t", "b", b"new")])
    await log.maintain(clock.now_ms())
    assert [(e.position, e.value) for e in await everything(log, Topic("t"))] == [
        (6, None),
        (8, b"8"),
        (9, b"new"),
    ]
    await log.close()


async def test_a_tombstone_is_removed_after_its_retention(log: PostgresLog) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "k", "old"), record(topic, "other", "x")])
    await producer.append([record(topic, "k", None)])
    # In the far future: what other tests left in this database is long settled.
    now_ms = clock.now_ms() + 1_000 * DAY_MS
    await log.maintain(now_ms)
    assert texts(await everything(log, topic)) == ["x", "null"]
    await log.maintain(now_ms + TOMBSTONE_RETENTION_MS - 1)
    assert texts(await everything(log, topic)) == ["x", "null"]
    await log.maintain(now_ms + TOMBSTONE_RETENTION_MS)
    assert texts(await everything(log, topic)) == ["x"]
    values, positions = await read_newest(log, topic.name)
    assert (values, positions) == ({"other": b"x"}, await log.end_positions(topic.name))


async def test_only_records_older_than_the_retention_are_deleted(log: PostgresLog) -> None:
    topic = Topic(f"kept-{a_name()}", retention_s=3_600)
    await log.create(topic)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", f"{n}") for n in range(500)])
    (last,) = (await everything(log, topic))[-1:]
    await log.maintain(last.time_ms + 3_600_000)
    assert len(await everything(log, topic)) == 500
    await log.maintain(last.time_ms + 3_600_001)
    assert await log.start_positions(topic.name) == await log.end_positions(topic.name) == {0: 500}
    await producer.append([record(topic, "a", "young")])
    await log.maintain(clock.now_ms())
    assert texts(await everything(log, topic)) == ["young"]


async def test_the_owner_of_a_topic_changes_its_retention(log: PostgresLog) -> None:
    name = f"kept-{a_name()}"
    await log.create(Topic(name, retention_s=3_600))
    await log.create(Topic(name, retention_s=10))
    await log.create(Topic(name))  # by a service that does not own the topic
    producer = await log.producer(a_name())
    await producer.append([Record(name, "a", b"1")])
    await log.maintain(clock.now_ms() + 60_000)
    assert (await log.start_positions(name)) == {0: 1}


async def test_cleanup_repeats_until_it_is_cancelled(log: PostgresLog) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    tidy = asyncio.create_task(maintain_log(log, clock.now_ms, every_s=0.01))
    for _ in range(3):
        await producer.append([record(topic, "k", f"{n}") for n in range(10)])
        async with asyncio.timeout(120):
            while len(await everything(log, topic)) > 1:
                pass
    tidy.cancel()
    await asyncio.wait([tidy])
    assert tidy.cancelled()


async def test_an_unknown_url_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="redis"):
        await open_log("redis://127.0.0.1:6379")


async def test_a_cancelled_query_whose_connection_is_lost_is_not_repeated(database: str) -> None:
    """The rollback fails then, and its error takes the place of the cancellation."""
    link, calls = Link(database, timeout_s=60), asyncio.Queue[Connection]()

    async def call(connection: Connection) -> None:
        async with connection.transaction():
            await calls.put(connection)
            await asyncio.Event().wait()

    task = asyncio.create_task(link.query(call))
    (await calls.get()).terminate()
    task.cancel()
    repeated = asyncio.create_task(calls.get())
    await asyncio.wait([task, repeated], return_when=asyncio.FIRST_COMPLETED)
    assert task.cancelled()
    repeated.cancel()
    await link.close()


async def test_a_connection_that_is_cancelled_while_it_opens_leaves_no_error(
    database: str,
) -> None:
    """At each step of the event loop at which `fairlead doctor`, for example, ends its reader."""
    loop = asyncio.get_running_loop()
    printed: list[str] = []
    loop.set_exception_handler(lambda _, context: printed.append(str(context)))
    for steps in range(20):
        link, notifier = Link(database, timeout_s=60), Notifier(database)
        query = asyncio.create_task(link.query(lambda connection: connection.fetchval("SELECT 1")))
        notifier.next_notification("any")
        for _ in range(steps):
            await asyncio.sleep(0)
        query.cancel()
        await notifier.close()
        await asyncio.wait([query])
        await link.close()
    connection = await asyncpg.connect(database)  # all that was closed before has ended then
    await connection.close()
    gc.collect()  # the event loop reports a forgotten error when its future is collected
    assert printed == []
