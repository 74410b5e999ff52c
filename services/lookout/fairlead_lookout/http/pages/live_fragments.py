"""Live fragments of pages, rendered once for all tabs that show the same with the same rights.

Each fragment with followers has a task, which renders it when what it shows can have changed.
Rendering takes places of a `FairSemaphore`, so a caller with many fragments delays only its own.
After rendering a task sleeps as long as that took, so that all fragments together leave time for
other requests.
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
from fairlead_lookout.domain.model import JobSetKey
from fairlead_lookout.store.view_progress import ChangeWatch, ViewProgress

RENDER_S_MIN: Final = 0.5
"""A fragment is rendered at most this often,"""
RENDER_S_MAX: Final = 15.0
"""and at least this often: not everything that it shows moves the view."""
PAUSE_S_MAX: Final = 1.0
LINGER_S: Final = 5.0
"""How long a fragment is rendered for a follower that is about to connect. It ends with the last
one: who opens one page after the other leaves no work behind."""
_GONE: Final = "not-found"
_logger: Final = logging.getLogger("fairlead.lookout.live")


class SharedFragment(msgspec.Struct, frozen=True):
    """What a tab follows. Tabs with equal keys share one rendering.

    `job_set`: the only job set with which it changes, if there is one.
    """

    key: Hashable
    render: Callable[[], Awaitable[bytes]]
    job_set: JobSetKey | None = None


class _Entry:
    """A fragment that is being updated: its newest text and its followers."""

    def __init__(self, shared: SharedFragment) -> None:
        self.shared = shared
        self.text = b""
        self.version = 0
        self.failure: Exception | None = None
        self.changed = asyncio.Event()
        self.callers: Counter[str] = Counter()
        self.wanted_until_s = 0.0
        self.task: asyncio.Task[None] | None = None

    def linger(self) -> None:
        """Keep it for a moment without followers: one is about to connect."""
        self.wanted_until_s = clock.monotonic_s() + LINGER_S

    @property
    def is_wanted(self) -> bool:
        return bool(self.callers) or clock.monotonic_s() < self.wanted_until_s

    def publish(self, text: bytes) -> None:
        """Set the text, if it has changed."""
        if text != self.text or not self.version:
            self.text = text
            self.version += 1
            self._wake()

    def fail(self, error: Exception) -> None:
        """It cannot be rendered: its followers get the error."""
        self.failure = error
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class LiveFragments:
    """All fragments that are updated in this process."""

    def __init__(self, progress: ViewProgress, shares: FairSemaphore) -> None:
        self._progress = progress
        self._shares = shares
        self._entries: dict[Hashable, _Entry] = {}
        self._followed: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    async def wait_until_rendered(self, shared: SharedFragment) -> None:
        """Wait until there is a text to send. Raises the error of the first rendering."""
        entry = self._entry(shared)
        entry.linger()
        caller = CALLER.get()
        self._join(entry, caller)
        try:
            await self._wait_for_version(entry, 0, None)
        finally:
            self._leave(entry, caller)

    async def follow(self, shared: SharedFragment) -> AsyncGenerator[bytes, None]:
        """The text, each time it has changed; b"" after some seconds without a change.

        It ends when what the fragment shows does not exist any more: who follows it requests it
        again, and gets that answer.
        """
        entry = self._entry(shared)
        entry.wanted_until_s = 0.0
        caller = CALLER.get()
        self._join(entry, caller)
        try:
            version = 0
            while True:
                try:
                    is_new = await self._wait_for_version(entry, version, RENDER_S_MAX)
                except Problem as problem:
                    if problem.slug == _GONE:
                        return
                    raise
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

    def _entry(self, shared: SharedFragment) -> _Entry:
        entry = self._entries.get(shared.key)
        if entry is None:
            entry = self._entries[shared.key] = _Entry(shared)
            entry.task = asyncio.create_task(self._update(entry))
        return entry

    def _join(self, entry: _Entry, caller: str) -> None:
        entry.callers[caller] += 1
        self._followed[caller] += 1

    def _leave(self, entry: _Entry, caller: str) -> None:
        for counts in (entry.callers, self._followed):
            counts[caller] -= 1
            if not counts[caller]:
                del counts[caller]

    async def _wait_for_version(self, entry: _Entry, version: int, wait_s: float | None) -> bool:
        """Wait for another version; whether there is one. Raises the error of the rendering."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while entry.version == version and entry.failure is None:
                    await entry.changed.wait()
        if entry.failure is not None:
            raise entry.failure
        return entry.version != version

    async def _update(self, entry: _Entry) -> None:
        try:
            with self._progress.watch(entry.shared.job_set) as watch:
                while entry.is_wanted or not entry.version:
                    await self._update_once(entry, watch)
        except (Problem, WorldError) as error:
            entry.fail(error)
        except Exception as error:
            _logger.exception("a live fragment cannot be rendered: %s", entry.shared.key)
            entry.fail(error)
        finally:
            del self._entries[entry.shared.key]

    async def _update_once(self, entry: _Entry, watch: ChangeWatch) -> None:
        """Render it, and wait until it has changed."""
        # Counted for the follower with the fewest fragments: a caller with many delays no other.
        CALLER.set(min(entry.callers, key=self._followed.__getitem__, default=""))
        async with self._shares.place():
            began_s = clock.monotonic_s()
            watch.forget()
            await self._render(entry)
            await asyncio.sleep(min(PAUSE_S_MAX, clock.monotonic_s() - began_s))
        await asyncio.sleep(max(0.0, began_s + RENDER_S_MIN - clock.monotonic_s()))
        await self._progress.wait_for_watch(watch, RENDER_S_MAX)

    async def _render(self, entry: _Entry) -> None:
        """Render it once. Raises a `Problem` or `WorldError` if that has never succeeded, or if
        what it shows does not exist any more.
        """
        try:
            entry.publish(await entry.shared.render())
        except (Problem, WorldError) as error:
            if not entry.version or (isinstance(error, Problem) and error.slug == _GONE):
                raise
            _logger.debug("a live fragment was not updated: %s", error)
