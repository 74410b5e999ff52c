"""The limits of an append, which every implementation checks before it sends anything."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from fairlead_common.domain.errors import RecordTooLarge
from fairlead_common.log.protocol import (
    APPEND_BYTES_MAX,
    APPEND_RECORDS_MAX,
    RECORD_BYTES_MAX,
    Record,
    Topic,
)

KEY_BYTES_MAX: Final = 2_000
"""Largest key, in bytes of UTF-8: Postgres cannot index much more."""


PARTITIONS_MAX: Final = 10_000

TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
"""What Kafka takes, a little shorter."""


def check_topic(topic: Topic) -> None:
    """Raise ValueError for a topic that some log could not create."""
    if not TOPIC_NAME.fullmatch(topic.name):
        raise ValueError(f"{topic.name!r} cannot name a topic: it must match {TOPIC_NAME.pattern}")
    if not 1 <= topic.partitions <= PARTITIONS_MAX:
        raise ValueError(f"{topic.name}: {topic.partitions} partitions; 1 to {PARTITIONS_MAX}")


def count_value_bytes(records: Iterable[Record]) -> int:
    """The size of the values of these records."""
    return sum(len(record.value or b"") for record in records)


def check_append(records: Sequence[Record]) -> int:
    """The size of the values of these records. Raises `RecordTooLarge` beyond the limits,
    ValueError for a key that is not UTF-8 text or contains a NUL."""
    if len(records) > APPEND_RECORDS_MAX:
        raise RecordTooLarge(
            f"{len(records)} records in one append; at most {APPEND_RECORDS_MAX} are allowed"
        )
    keys = [record.key for record in records]
    sizes = [len(record.value or b"") for record in records]
    text = "".join(keys)
    if (
        not text.isascii()
        or "\0" in text
        or max(map(len, keys), default=0) > KEY_BYTES_MAX // 4
        or max(sizes, default=0) > RECORD_BYTES_MAX
    ):
        for record in records:
            _check_record(record)
    total = sum(sizes) + len(text)
    if total > APPEND_BYTES_MAX:
        raise RecordTooLarge(f"{total} bytes in one append; at most {APPEND_BYTES_MAX} are allowed")
    return sum(sizes)


def _check_record(record: Record) -> None:
    key, size = record.key, len(record.value or b"")
    if size > RECORD_BYTES_MAX:
        raise RecordTooLarge(
            f"{record.topic}: the record {key[:200]!r} has {size} bytes; "
            f"at most {RECORD_BYTES_MAX} are allowed"
        )
    if any("\ud800" <= each <= "\udfff" for each in key):
        raise ValueError(f"{record.topic}: a key is not UTF-8 text: {key[:200]!r}")
    if len(key.encode()) > KEY_BYTES_MAX:
        raise RecordTooLarge(
            f"{record.topic}: a key is longer than {KEY_BYTES_MAX} bytes: {key[:200]!r}..."
        )
    if "\0" in key:
        raise ValueError(f"{record.topic}: a key holds a NUL character: {key[:200]!r}")
