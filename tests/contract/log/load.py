"""A careful writer and a reader that go on through outages, in a thread of their own.

The servers are children of the main thread, which kills and restarts them meanwhile.
"""

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogUnavailable,
    ProducerFenced,
)
from fairlead_common.log.protocol import EventLog, Producer, Topic
from tests.contract.log.beds import Bed, a_name
from tests.contract.log.helpers import everything, record, texts

WAIT_S_MAX = 90.0


class Load:
    """Writes the numbers 0, 1, 2, ... to two topics at once until told to stop."""

    def __init__(self, bed: Bed, one: Topic, other: Topic) -> None:
        self.one, self.other = one, other
        self.read: list[str] = []
        self._bed = bed
        self._name = a_name()
        self._written = 0
        self._ended = False
        self._stop = False
        self._writing = True
        self._changed = threading.Condition()
        self._thread = ThreadPoolExecutor(1)
        self._done: Future[None] = self._thread.submit(asyncio.run, self._run())

    def wait_for(self, more: int) -> None:
        """Wait until so many more numbers than now were written."""
        goal = self._written + more
        with self._changed:
            assert self._changed.wait_for(lambda: self._written >= goal or self._ended, WAIT_S_MAX)
        if self._ended:
            self._done.result()

    def stop(self) -> int:
        """Stop writing, let the reader come to the end; how many numbers were written."""
        self._stop = True
        self._done.result(WAIT_S_MAX)
        self._thread.shutdown()
        return self._written

    async def _run(self) -> None:
        try:
            log, other = await self._bed.open(), await self._bed.open()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(other))
                tasks.create_task(self._write(log))
            await log.close()
            await other.close()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    async def _write(self, log: EventLog) -> None:
        producer = await log.producer(self._name)
        while not self._stop:
            text = f"{self._written}"
            try:
                await producer.append([record(self.one, "k", text), record(self.other, "k", text)])
            except AppendRefused:
                continue
            except (AppendUnknown, ProducerFenced):
                producer = await self._again(log)
                if texts(await everything(log, self.one))[-1:] != [text]:
                    continue
            with self._changed:
                self._written += 1
                self._changed.notify_all()
        self._writing = False

    async def _again(self, log: EventLog) -> Producer:
        while True:
            try:
                return await log.producer(self._name)
            except LogUnavailable:
                continue

    async def _read(self, log: EventLog) -> None:
        reader = await log.reader(self.one.name, await log.start_positions(self.one.name))
        while self._writing or len(self.read) < self._written:
            self.read += texts((await reader.read(wait_s=0.5)).entries)
