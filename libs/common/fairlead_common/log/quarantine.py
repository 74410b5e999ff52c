"""The quarantine: records that a reader could not decode.

Each process notes the records that it found, at most `RECORDS_MAX`, and appends them to the topic
`fairlead.quarantine`, from which lookout lists them. Reading never waits for that.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

import msgspec
from prometheus_client import Counter

from fairlead_common.domain.errors import LogError
from fairlead_common.log import topics
from fairlead_common.log.protocol import Entry, EventLog, Record
from fairlead_common.service import clock
from fairlead_common.service.health import Check, Degraded
from fairlead_common.service.json_logging import job_set_fields

RECORDS_MAX: Final = 1_000
"""Most records that one process notes; those beyond are counted only."""
HEAD_BYTES: Final = 200
"""How many bytes of a value, and of a key, are recorded."""
RETRY_S: Final = 5.0
RENEW_S: Final = 600.0
"""A process repeats the records at which it has stopped at this interval. One that is no longer
repeated is outdated."""
RECENT_MS: Final = 3_600_000
"""`/readyz` names skipped records for this long."""

UNDECODABLE: Final = Counter(
    "fairlead_log_records_undecodable_total",
    "Records of the log that could not be decoded, or only in part: skipped, stopped at, or read"
    " without an optional event of an unknown type.",
    ("topic", "reader", "outcome"),
)
Outcome = Literal["skipped", "stopped"]
_logger: Final = logging.getLogger("fairlead.quarantine")


class QuarantinedRecord(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """A record that `reader` could not decode, and what the reader did: see `Outcome`.

    `time_ms`: when the record was appended; `seen_ms`: when the reader found it. `key` and `head`
    are the beginnings of its key and value, with escapes where they are not text; `size` is the
    length of its value in bytes, None if it has none.
    """

    topic: str
    partition: int
    position: int
    time_ms: int
    seen_ms: int
    reader: str
    reason: str
    outcome: Outcome
    key: str = ""
    head: str = ""
    size: int | None = None

    @property
    def place(self) -> str:
        """`topic/partition/position`: what `Settings.skip_records` takes."""
        return f"{self.topic}/{self.partition}/{self.position}"


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(QuarantinedRecord)


def decode(value: bytes) -> QuarantinedRecord:
    """A record of `fairlead.quarantine`. Raises `msgspec.DecodeError`."""
    return _decoder.decode(value)


class _Place(NamedTuple):
    topic: str
    partition: int
    position: int


class Quarantine:
    """The records that one process could not decode. `reader` names its service; `skip`: see
    `Settings`.
    """

    def __init__(
        self, reader: str, skip: Iterable[str] = (), now_ms: Callable[[], int] = clock.now_ms
    ) -> None:
        self.reader = reader
        self.records: dict[_Place, QuarantinedRecord] = {}
        self._skip = frozenset(skip)
        self._now_ms = now_ms
        self._unwritten: list[QuarantinedRecord] = []
        self._added = asyncio.Event()

    def is_configured_to_skip(self, topic: str, entry: Entry) -> bool:
        """Whether an operator has configured to skip this record."""
        return f"{topic}/{entry.partition}/{entry.position}" in self._skip

    def add(self, topic: str, entry: Entry, reason: str, outcome: Outcome) -> None:
        """Count the record, log it and note it, unless this process has found it before."""
        place = _Place(topic, entry.partition, entry.position)
        if place in self.records:
            return
        UNDECODABLE.labels(topic, self.reader, outcome).inc()
        if len(self.records) >= RECORDS_MAX and outcome != "stopped":
            return
        value = entry.value
        found = QuarantinedRecord(
            topic=topic,
            partition=entry.partition,
            position=entry.position,
            time_ms=entry.time_ms,
            seen_ms=self._now_ms(),
            reader=self.reader,
            reason=reason,
            outcome=outcome,
            key=_printable_head(entry.key.encode(errors="surrogateescape")),
            head="" if value is None else _printable_head(value),
            size=None if value is None else len(value),
        )
        self.records[place] = found
        self._unwritten.append(found)
        self._added.set()
        queue, _, job_set = found.key.partition("/") if topic == topics.JOBS else ("", "", "")
        _logger.error("%s", describe(found), extra=job_set_fields(queue, job_set))
        if len(self.records) == RECORDS_MAX:
            _logger.error(
                "%d records of the log could not be decoded; more are counted, but not named",
                RECORDS_MAX,
            )

    def count_optional(self, topic: str) -> None:
        """Count a record that was read without its optional events of unknown types."""
        UNDECODABLE.labels(topic, self.reader, "optional").inc()

    def check(self) -> Check:
        """The check for `/readyz`: stopped partitions, and recently skipped records."""

        async def records() -> str | None:
            since_ms = self._now_ms() - RECENT_MS
            found = self.records.values()
            problems = [describe(each) for each in found if each.outcome == "stopped"]
            recent = [
                each for each in found if each.outcome == "skipped" and each.seen_ms >= since_ms
            ]
            if recent:  # without the reason, which can name a queue that the reader must not view
                count = "1 record" if len(recent) == 1 else f"{len(recent)} records"
                problems.append(
                    f"{self.reader} skipped {count} of the log that cannot be decoded, the last at"
                    f" {recent[-1].place}; `fairlead doctor` lists them"
                )
            return Degraded("; ".join(problems)) if problems else None

        return records

    async def run(self, log: EventLog) -> None:
        """Append noted records to `fairlead.quarantine`, for ever; while the log is unavailable,
        wait.
        """
        while True:
            try:
                async with asyncio.timeout(RENEW_S):
                    await self._added.wait()
            except TimeoutError:
                self._renew()
            self._added.clear()
            while self._unwritten:
                try:
                    await self._write(log)
                except LogError as error:
                    _logger.warning("the quarantine cannot be written yet: %s", error)
                    await asyncio.sleep(RETRY_S)

    def _renew(self) -> None:
        now_ms = self._now_ms()
        self._unwritten += [
            msgspec.structs.replace(found, seen_ms=now_ms)
            for found in self.records.values()
            if found.outcome == "stopped"
        ]

    async def _write(self, log: EventLog) -> None:
        """Append the records. One can be appended twice: readers fold by key."""
        written = list(self._unwritten)
        await log.create(topics.quarantine())
        producer = await log.producer(f"quarantine-{self.reader}")
        try:
            await producer.append([_record(found) for found in written])
        finally:
            await producer.close()
        del self._unwritten[: len(written)]


def _record(found: QuarantinedRecord) -> Record:
    key = f"{found.topic}/{found.partition}/{found.position}/{found.reader}"
    return Record(topics.QUARANTINE, key, _encoder.encode(found))


def describe(found: QuarantinedRecord) -> str:
    """One sentence for logs and `/readyz`."""
    place = f"{found.topic}, partition {found.partition}, position {found.position}"
    if found.outcome == "skipped":
        return f"{found.reader} skipped a record ({place}): {found.reason}"
    return (
        f"{found.reader} stopped reading partition {found.partition} of {found.topic} at position"
        f" {found.position}: {found.reason}. Upgrade this service to a version that knows it;"
        f' without one, restart all services with FAIRLEAD_SKIP_RECORDS=["{found.place}"]'
    )


def _printable_head(data: bytes) -> str:
    """The beginning, as text without control characters."""
    text = data[:HEAD_BYTES].decode(errors="backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
