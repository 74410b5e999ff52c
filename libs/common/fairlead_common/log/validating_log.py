"""A log whose readers deliver only records that can be decoded; every service reads from it.

A record that cannot be decoded goes to the quarantine and is skipped. At an event of an unknown
type that must not be skipped, the reader stops: that partition of `fairlead.jobs` stays before the
record, the others continue.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fairlead_common.domain.records import decoders
from fairlead_common.domain.records.decoders import (
    Undecodable,
    UnknownEventType,
    UnknownOptionalType,
)
from fairlead_common.log import quarantine
from fairlead_common.log.forwarding_log import ForwardingLog
from fairlead_common.log.protocol import (
    READ_BYTES_MAX,
    Batch,
    Entry,
    EventLog,
    Positions,
    Reader,
)
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.topics import JOBS, QUARANTINE


class ValidatingLog(ForwardingLog):
    """An `EventLog` whose readers validate the records of `inner`."""

    def __init__(self, inner: EventLog, quarantine: Quarantine) -> None:
        super().__init__(inner)
        self.quarantine = quarantine

    async def reader(self, topic: str, positions: Positions) -> Reader:
        """See `EventLog`. Records of an unknown topic are not validated."""
        inner = await self.inner.reader(topic, positions)
        decode = _quarantined if topic == QUARANTINE else decoders.find_decoder(topic)
        if decode is None:
            return inner
        together = decoders.find_batch_decoder(topic)
        return ValidatingReader(inner, self.quarantine, decode, together)


class ValidatingReader:
    """A `Reader` that returns only records that can be decoded.

    `read` does not screen batches of `fairlead.jobs`, because a fold decodes them anyway, which is
    most of its work: a fold that meets an `Undecodable` record calls `screen` and decodes the batch
    again.
    """

    def __init__(
        self,
        inner: Reader,
        quarantine: Quarantine,
        decode: Callable[[Entry], object],
        decode_together: Callable[[Sequence[Entry]], Sequence[object]] | None = None,
    ) -> None:
        """`decode_together`: `decode` of many records, which raises `Undecodable` if any is."""
        self.topic = inner.topic
        self.stopped: dict[int, int] = {}
        """Partition -> position of the record at which this reader stopped."""
        self._inner = inner
        self._quarantine = quarantine
        self._decode = decode
        self._decode_together = decode_together

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """See `Reader`."""
        batch = await self._inner.read(records_max=records_max, bytes_max=bytes_max, wait_s=wait_s)
        if self.topic != JOBS:
            return self.screen(batch)
        if not self.stopped:
            return batch
        entries = [entry for entry in batch.entries if entry.partition not in self.stopped]
        return Batch(entries, {**batch.positions, **self.stopped})

    def screen(self, batch: Batch) -> Batch:
        """The batch without undecodable records, and without records after a stop."""
        if self._decode_together is not None and not self.stopped:
            try:
                decoded = self._decode_together(batch.entries)
            except Undecodable:
                pass  # one by one, to find out which
            else:
                return Batch(list(map(_with_decoded, batch.entries, decoded)), batch.positions)
        entries: list[Entry] = []
        for entry in batch.entries:
            if entry.partition not in self.stopped:
                screened = self._screen(entry)
                if screened is not None:
                    entries.append(screened)
        return Batch(entries, {**batch.positions, **self.stopped})

    async def close(self) -> None:
        """See `Reader`."""
        await self._inner.close()

    def _screen(self, entry: Entry) -> Entry | None:
        try:
            return _with_decoded(entry, self._decode(entry))
        except UnknownOptionalType as error:
            self._quarantine.count_optional(self.topic)
            if error.value is None:
                return None
            return self._screen(msgspec.structs.replace(entry, value=error.value))
        except UnknownEventType as error:
            if self._quarantine.is_configured_to_skip(self.topic, entry):
                self._quarantine.add(self.topic, entry, str(error), "skipped")
                return None
            self.stopped[entry.partition] = entry.position
            self._quarantine.add(self.topic, entry, str(error), "stopped")
            return None
        except Undecodable as error:
            self._quarantine.add(self.topic, entry, str(error), "skipped")
            return None


def _with_decoded(entry: Entry, decoded: object) -> Entry:
    return msgspec.structs.replace(entry, decoded=decoded)


def stopped_partitions(reader: Reader) -> Mapping[int, int]:
    """Where a reader has stopped, by partition; other readers never stop."""
    return reader.stopped if isinstance(reader, ValidatingReader) else {}


def _quarantined(entry: Entry) -> object:
    if entry.value is None:
        raise Undecodable("the record has no value")
    try:
        return quarantine.decode(entry.value)
    except (ValueError, RecursionError) as error:
        raise Undecodable(str(error)) from None
