"""Live fragments of pages: rendered once for all tabs that show the same to the same rights.

Each fragment that somebody follows has a task, which renders it when the view has moved. Rendering
takes places of `Shares`, so that a caller with many different fragments waits for its own, and
rests as long as it took, so that all of them together leave time for other requests.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import Final

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.web.fair_semaphore import CALLER, FairSemaphore
from fairlead_lookout.store.view_progress import Progress

RENDER_S_MIN: Final = 0.5
"""A fragment is rendered anew at most so often,"""
RENDER_S_MAX: Final = 15.0
"""and at least so often: not everything that it shows moves the view."""
REST_S_MAX: Final = 1.0
LINGER_S: Final = 5.0
"""How long a fragment without followers is kept: its first one is about to come."""
_logger: Final = logging.getLogger("fairlead.lookout.live")


class Shared(msgspec.Struct, frozen=True):
    """What a tab follows. Tabs with equal keys are sent what one of them renders.

    `partition`: the one partition of the log with which it changes, if there is only one.
    """

    key: Hashable
    render: Callable[[], Awaitable[bytes]]
    partition: int | None = None


class _Entry:
    """A fragment that is kept current: its newest text, and who follows it."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.text = b""
        self.version = 0
        self.failure: Exception | None = None
        self.changed = asyncio.Event()
        self.callers: Counter[str] = Counter()
        self.wanted_until_s = 0.0
        self.task: asyncio.Task[None] | None = None

    def linger(self) -> None:
        """Keep it for a moment although nobody follows it."""
        self.wanted_until_s = clock.monotonic_s() + LINGER_S

    @property
    def is_wanted(self) -> bool:
        return bool(self.callers) or clock.monotonic_s() < self.wanted_until_s

    def publish(self, text: bytes) -> None:
        """A new text, if it is another one."""
        if text != self.text or not self.version:
            self.text = text
            self.version += 1
            self._wake()

    def fail(self, error: Exception) -> None:
        """It cannot be rendered: whoever waits or follows is told why."""
        self.failure = error
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class LiveFragments:
    """All fragments that are followed in this process."""

    def __init__(self, progress: Progress, shares: FairSemaphore) -> None:
        self._progress = progress
        self._shares = shares
        self._entries: dict[Hashable, _Entry] = {}
        self._followed: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    async def ready(self, shared: Shared) -> None:
        """Wait until there is a text to send. Raises what rendering the first one raised."""
        entry = self._entry(shared)
        entry.linger()
        caller = CALLER.get()
        self._join(entry, caller)
        try:
            await self._changed(entry, 0, None)
        finally:
            self._leave(entry, caller)

    async def follow(self, shared: Shared) -> AsyncGenerator[bytes, None]:
        """The text whenever it has changed; nothing (b"") after a while without a change."""
        entry = self._entry(shared)
        caller = CALLER.get()
        self._join(entry, caller)
        try:
            version = 0
            while True:
                is_new = await self._changed(entry, version, RENDER_S_MAX)
                version = entry.version
                yield entry.text if is_new else b""
        finally:
            self._leave(entry, caller)

    async def close(self) -> None:
        """End all tasks."""
        tasks = [entry.task for entry in self._entries.values() if entry.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _entry(self, shared: Shared) -> _Entry:
        entry = self._entries.get(shared.key)
        if entry is None:
            entry = self._entries[shared.key] = _Entry(shared)
            entry.task = asyncio.create_task(self._keep_current(entry))
        return entry

    def _join(self, entry: _Entry, caller: str) -> None:
        entry.callers[caller] += 1
        self._followed[caller] += 1

    def _leave(self, entry: _Entry, caller: str) -> None:
        for counts in (entry.callers, self._followed):
            counts[caller] -= 1
            if not counts[caller]:
                del counts[caller]

    async def _changed(self, entry: _Entry, version: int, wait_s: float | None) -> bool:
        """Whether there is another version, after waiting for it. Raises what rendering raised."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while entry.version == version and entry.failure is None:
                    await entry.changed.wait()
        if entry.failure is not None:
            raise entry.failure
        return entry.version != version

    async def _keep_current(self, entry: _Entry) -> None:
        try:
            while entry.is_wanted or not entry.version:
                seen = self._progress.positions
                await self._render(entry)
                await asyncio.sleep(RENDER_S_MIN)
                await self._progress.beyond(seen, RENDER_S_MAX, entry.shared.partition)
        except (Problem, WorldError) as error:
            entry.fail(error)
        except Exception as error:
            entry.fail(error)
            raise
        finally:
            del self._entries[entry.shared.key]

    async def _render(self, entry: _Entry) -> None:
        """Render it once. Raises a `Problem` or `WorldError` only where there is no text yet."""
        # On behalf of the follower with the fewest fragments: many of one delay no other.
        caller = min(entry.callers, key=self._followed.__getitem__, default="")
        CALLER.set(caller)
        async with self._shares.place():
            began_s = clock.monotonic_s()
            try:
                entry.publish(await entry.shared.render())
            except (Problem, WorldError) as error:
                if not entry.version:
                    raise
                _logger.debug("a live fragment stays as it was: %s", error)
            await asyncio.sleep(min(REST_S_MAX, clock.monotonic_s() - began_s))
