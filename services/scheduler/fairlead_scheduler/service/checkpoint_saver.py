"""Saves the leader's view periodically, so that a start has little of the log to read.

A save is done in parts (`state/checkpoint/checkpoint_parts.py`), each in a transaction of its own.
So neither the memory nor the longest transaction of a save grows with what has to be saved, and if
the process is killed in the middle, only the parts that are not saved yet are lost.
"""

import asyncio
from functools import partial
from typing import Final

from fairlead_common.db import Pool
from fairlead_common.service import clock
from fairlead_scheduler.service import metrics
from fairlead_scheduler.service.follower import CHECKPOINT, State, trim_caches_safely
from fairlead_scheduler.service.full_disk import FullDisk
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedNames
from fairlead_scheduler.state.checkpoint.checkpoint_parts import CheckpointParts
from fairlead_scheduler.state.jobs.specs import SPECS_PER_SAVE_MAX, SPECS_UNSAVED_MAX
from fairlead_scheduler.store import checkpoint

PAUSE_FACTOR: Final = 10.0
PAUSE_S_MAX: Final = 10.0
"""The pause after a save as a multiple of its duration, and the longest pause: under load jobs
change repeatedly, and a later save writes them once."""
SPECS_CHECK_S: Final = 0.5
"""How often the saver checks meanwhile whether too many submissions are unsaved."""


class CheckpointSaver:
    """Saves the leader's view. `saved`, `names`: the positions and names of the checkpoint."""

    def __init__(
        self,
        settings: SchedulerSettings,
        pool: Pool,
        state: State,
        saved: list[int],
        names: SavedNames,
        full_disk: FullDisk,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._state = state
        self._saved = saved
        self._names = names
        self._full_disk = full_disk

    async def run(self) -> None:
        """Save what changed every `checkpoint_s`, or less often if saves take long.

        It only ends with an error: with `ViewConflict` if another scheduler has saved.
        """
        took_s = 0.0
        while True:
            await self._wait_and_save_specs(
                max(self._settings.checkpoint_s, min(PAUSE_FACTOR * took_s, PAUSE_S_MAX))
            )
            begun_s = clock.monotonic_s()
            if await self.save():
                took_s = clock.monotonic_s() - begun_s
                metrics.CHECKPOINT_SECONDS.observe(took_s)

    async def save(self) -> bool:
        """Save everything that has changed until now; False if nothing has."""
        state = self._state
        async with state.fold_lock:
            parts = CheckpointParts(state.view, self._names, self._saved)
        is_saved = False
        while not parts.is_done:
            await self.save_specs(SPECS_PER_SAVE_MAX)
            async with state.fold_lock:
                changes = parts.take_next()
                nodes, state.clusters.unsaved = state.clusters.unsaved, []
            if changes.is_empty and not nodes:
                continue
            await self._full_disk.retry_until_space(
                partial(checkpoint.save_changes, self._pool, changes, nodes)
            )
            self._saved = changes.positions
            await self._end_specs_save()
            await state.advance(CHECKPOINT, dict(enumerate(self._saved)))
            is_saved = True
        return is_saved

    async def save_specs(self, unsaved_max: int = SPECS_UNSAVED_MAX) -> None:
        """Save the oldest submissions, in parts, while more than `unsaved_max` are unsaved."""
        state = self._state
        specs = state.view.specs
        while len(specs.unsaved) > unsaved_max:
            async with state.fold_lock:
                saving = specs.begin_save(SPECS_PER_SAVE_MAX)
            if saving is not None:
                save = partial(checkpoint.save_specs, self._pool, self._saved, saving)
                await self._full_disk.retry_until_space(save)
            await self._end_specs_save()

    async def _end_specs_save(self) -> None:
        async with self._state.lookup_lock, self._state.fold_lock:  # nobody is using them
            self._state.view.specs.end_save()
        await trim_caches_safely(self._state)

    async def _wait_and_save_specs(self, rest_s: float) -> None:
        """Wait, and save submissions meanwhile if many arrive."""
        end_s = clock.monotonic_s() + rest_s
        while (left_s := end_s - clock.monotonic_s()) > 0:
            await asyncio.sleep(min(left_s, SPECS_CHECK_S))
            await self.save_specs()
