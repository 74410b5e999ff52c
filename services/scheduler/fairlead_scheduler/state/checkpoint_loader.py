"""Makes a view of the records that a checkpoint holds. Pure.

Records come as blocks of rows in any order. Columns are filled block by block and put into the
order of submission in the end: rows that lie together are then looked at together.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JobId, partition_of_job
from fairlead_scheduler.state import checkpoint_rows
from fairlead_scheduler.state import job_table as c
from fairlead_scheduler.state.checkpoint_names import SavedName, decode_name
from fairlead_scheduler.state.job_table import RareProperties
from fairlead_scheduler.state.view import View

_decoder: Final = msgspec.json.Decoder(RareProperties)


class CheckpointLoader:
    """Fills an empty view: `add` each block, then `finish`."""

    def __init__(self, view: View, saved: Iterable[SavedName]) -> None:
        jobs = view.jobs
        self._view = view
        interned: dict[str, c.Interned[Any]] = {
            "pool": jobs.pools,
            "job_set": jobs.job_sets,
            "shape": jobs.shapes,
            "node": jobs.nodes,
        }
        numbers: dict[str, dict[int, int]] = {kind: {} for kind in interned}
        for kind, number, parts in saved:
            numbers[kind][number] = interned[kind].number(decode_name(kind, parts))
        self._numbers = {kind: _table(known) for kind, known in numbers.items()}
        self._queue_of_set = np.array(
            [jobs.queues.number(job_set.queue) for job_set in jobs.job_sets.values], np.int32
        )
        self._keys: list[checkpoint_rows.Keys] = []

    def add(self, block: npt.NDArray[np.void]) -> None:
        """The jobs of these rows."""
        if not block.size:
            return
        jobs = self._view.jobs
        rows = jobs.allocate(block.size)
        at = slice(int(rows[0]), int(rows[0]) + block.size)
        keys = np.ascontiguousarray(block["id"])
        self._keys.append(keys)
        record = block["record"]
        jobs.partition[at] = _partitions(keys)
        for field in checkpoint_rows.PLAIN:
            getattr(jobs, field)[at] = record[field]
        for kind, numbers in self._numbers.items():
            getattr(jobs, kind)[at] = _renumbered(kind, numbers, record[kind])
        jobs.queue[at] = self._queue_of_set[jobs.job_set[at]]

    def finish(self, rare: Mapping[JobId, bytes]) -> None:
        """All blocks were added; `rare`: of the jobs that have some."""
        if not self._keys:
            return
        jobs = self._view.jobs
        order = np.argsort(jobs.number[: jobs.used], kind="stable")
        if not (order[1:] > order[:-1]).all():
            for name in (*checkpoint_rows.FIELDS, "partition", "queue"):
                column = getattr(jobs, name)
                column[: jobs.used] = column[: jobs.used][order]
        rows = np.arange(jobs.used)
        keys = np.concatenate(self._keys)
        self._keys = []
        jobs.rows.add_keys(keys[order], rows)
        jobs.journal.extend(rows)
        found = zip(jobs.rows.find(list(rare)).tolist(), rare.values(), strict=True)
        jobs.rare_properties.update(
            (row, _decoder.decode(encoded)) for row, encoded in sorted(found)
        )
        _relink(self._view)


def _table(numbers: Mapping[int, int]) -> npt.NDArray[np.int32]:
    """Saved number -> number of the columns, and -1 -> -1 (the last element)."""
    table = np.full(max(numbers, default=-1) + 2, -1, np.int32)
    table[list(numbers)] = list(numbers.values())
    return table


def _renumbered(
    kind: str, table: npt.NDArray[np.int32], saved: npt.NDArray[np.signedinteger]
) -> npt.NDArray[np.int32]:
    """The columns' numbers for saved ones. Raises `UnreadableRecords` for one without a name."""
    known = np.minimum(saved, table.size - 1)  # the last element is -1
    found: npt.NDArray[np.int32] = table[known]
    if ((found < 0) & ((saved >= 0) | (kind != "node"))).any():
        raise checkpoint_rows.UnreadableRecords(f"a record refers to a {kind} without a name")
    return found


def _partitions(keys: checkpoint_rows.Keys) -> npt.NDArray[np.intp]:
    """The partitions that these ids name in their first two letters."""
    letters = keys.view(np.uint8).reshape(keys.size, -1)[:, :2].astype(np.intp)
    _, first, which = np.unique(
        letters[:, 0] << 8 | letters[:, 1], return_index=True, return_inverse=True
    )
    return np.array([partition_of_job(key.decode()) for key in keys[first].tolist()])[which]


def _relink(view: View) -> None:
    """What is derived from the rows: who waits for whom, gangs, which rows to examine."""
    jobs = view.jobs
    for row, rare in jobs.rare_properties.items():
        for other in rare.after:
            view.dependents.setdefault(other, set()).add(jobs.rows.id_at(row))
        if rare.gang is not None and rare.gang_terms is not None:
            view.gangs.setdefault(rare.gang, rare.gang_terms)
            view.gang_members.setdefault(rare.gang, set()).add(jobs.rows.id_at(row))
            if rare.gang_started:
                view.gang_started.add(rare.gang)
    rows = view.live_rows()
    is_over = c.IS_HELD[jobs.state[rows]] & ~c.IS_LIVE_RUN[jobs.run_state[rows]]
    is_marked = (jobs.flags[rows] & (c.CANNOT_START | c.STOPPING | c.LATE_SUCCESS)) > 0
    view.rows_to_examine.update(rows[is_over | is_marked].tolist())
