"""A careful writer and a reader that go on through outages, in a thread of their own.

The servers are children of the main thread, which kills and restarts them meanwhile.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from fairlead_common.errors import (
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
        self.unknown = 0
        self._bed = bed
        self._name = a_name()
        self._written = 0
        self._changed = threading.Condition()
        self._stop = False
        self._thread = ThreadPoolExecutor(1)
        self._done: Future[None] = self._thread.submit(asyncio.run, self._run())

    def wait_for(self, more: int) -> None:
        """Wait until so many more numbers than now were written."""
        self._wait(lambda goal=self._written + more: self._written >= goal)

    def stop(self) -> int:
        """Stop writing, let the reader come to the end; how many numbers were written."""
        self._stop = True
        self._done.result(WAIT_S_MAX)
        self._thread.shutdown()
        return self._written

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition() or self._done.done(), WAIT_S_MAX)
        if self._done.done():
            self._done.result()

    async def _run(self) -> None:
        log = await self._bed.open()
        reading = asyncio.create_task(self._read(await self._bed.open()))
        try:
            await self._write(log)
            end = await log.end_positions(self.one.name)
            async with asyncio.timeout(WAIT_S_MAX):
                while len(self.read) < self._written:
                    if reading.done():
                        break
                    await asyncio.sleep(0.01)
            assert end
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            with self._changed:
                self._changed.notify_all()
        if not reading.cancelled():
            reading.result()
        await log.close()

    async def _write(self, log: EventLog) -> None:
        producer = await log.producer(self._name)
        while not self._stop:
            text = f"{self._written}"
            try:
                await producer.append([record(self.one, "k", text), record(self.other, "k", text)])
            except AppendRefused:
                continue
            except (AppendUnknown, ProducerFenced) as error:
                self.unknown += isinstance(error, AppendUnknown)
                producer = await self._again(log)
                if texts(await everything(log, self.one))[-1:] != [text]:
                    continue
            with self._changed:
                self._written += 1
                self._changed.notify_all()

    async def _again(self, log: EventLog) -> Producer:
        while True:
            try:
                return await log.producer(self._name)
            except LogUnavailable:
                continue

    async def _read(self, log: EventLog) -> None:
        try:
            reader = await log.reader(self.one.name, await log.start_positions(self.one.name))
            while True:
                self.read += texts((await reader.read(wait_s=5)).entries)
        finally:
            await log.close()
