"""Records that another program has written are delivered, whatever their keys and values are."""

import pytest

from fairlead_common.log.protocol import EventLog
from tests.contract.log.beds import Bed, a_name
from tests.contract.log.helpers import everything, made, record

FOREIGN = {
    "bytes that are no text": (b"key", b"\x00\xff\xfe"),
    "an empty value": (b"key", b""),
    "no value": (b"key", None),
    "what begins as a compressed value": (b"key", b"\x28\xb5\x2f\xfd\x24"),
    "a key beyond ASCII": ("k\u00fc".encode(), b"value"),
    "a key that is not UTF-8": (b"k\xff\x80", b"value"),
    "no key": (None, b"value"),
}


@pytest.mark.parametrize("kind", FOREIGN)
async def test_what_another_program_wrote_is_read(bed: Bed, log: EventLog, kind: str) -> None:
    key, value = FOREIGN[kind]
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "before", "1")])
    await bed.write_foreign(topic.name, key, value)
    await producer.append([record(topic, "after", "2")])
    entries = await everything(log, topic)
    expected = "" if key is None else key.decode(errors="surrogateescape")
    assert [(entry.key, entry.value) for entry in entries] == [
        ("before", b"1"),
        (expected, value),
        ("after", b"2"),
    ]


@pytest.mark.parametrize("key", ["k\udcff", "k\0"])
async def test_producers_refuse_keys_that_are_not_text(log: EventLog, key: str) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    with pytest.raises(ValueError, match="key"):
        await producer.append([record(topic, key, "1", partition=0)])
    await producer.append([record(topic, "k", "2")])
    assert [entry.value for entry in await everything(log, topic)] == [b"2"]
