"""What the gauge of the outbox says."""

from typing import Any, cast

import pytest

from fairlead_common import db
from fairlead_common.domain.errors import AppendRefused
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.topics import config
from fairlead_submit.service import metrics, outbox_relay
from fairlead_submit.store.outbox import write_to_outbox


class _Outbox:
    """A connection that knows the statements of the relay."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    async def fetch(self, _sql: str, most: int) -> list[dict[str, Any]]:
        return self.rows[:most]

    async def execute(self, _sql: str, *values: Any) -> None:
        if len(values) == 1:
            self.rows = [row for row in self.rows if row["number"] not in values[0]]
        else:
            key, value, _channel = values
            self.rows.append({"number": len(self.rows), "key": key, "value": value})


def _gauge() -> float:
    return cast("float", metrics.OUTBOX._value.get())


async def test_only_the_relaying_process_reports_the_outbox_size() -> None:
    metrics.OUTBOX.set(0)
    outbox = _Outbox()
    connection = cast("db.Connection", outbox)
    for name in ("a", "b"):
        await write_to_outbox(connection, Queue(name=name))
    assert _gauge() == 0  # most processes tell nothing to the log, and would count for ever

    log = MemoryLog(lambda: 0)
    await log.create(config())
    producer = await log.producer(outbox_relay.PRODUCER)
    log.core.away = True
    with pytest.raises(AppendRefused):
        await outbox_relay.relay_batch(connection, producer)
    assert _gauge() == 2

    log.core.away = False
    await outbox_relay.relay_batch(connection, producer)
    assert _gauge() == 0
    await log.close()
