"""The changes of the view that the checkpoint does not have yet, in parts of bounded size. Pure.

A part is some partitions of the log, each with all its changes and its position. What happens in
one partition concerns no job of another, so a checkpoint whose partitions stand at different
moments is what a reader of the log has that is further in some partitions than in others: it can be
loaded after every part.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import ArrayId, GroupId, JobId, partition_of_job
from fairlead_scheduler.state.checkpoint import checkpoint_rows as records
from fairlead_scheduler.state.checkpoint.checkpoint_names import Name, SavedName, SavedNames
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_table import EndedJob, JobTable, Rows
from fairlead_scheduler.state.jobs.specs import SpecsSave
from fairlead_scheduler.state.view import View

ROWS_MAX: Final = 100_000
"""Jobs that are saved together, unless one partition alone has more of them."""


class JobRows(msgspec.Struct, frozen=True):
    """Rows of the table of jobs, copied out of the columns."""

    keys: records.Keys
    records: records.Records
    rare: dict[int, bytes]
    """Encoded, by place in `keys`."""

    def encode(self) -> Iterator[bytes]:
        """The rows as COPY reads them, in pieces."""
        return records.encode_rows(self.keys, self.records, self.rare)


class Changes(msgspec.Struct, frozen=True):
    """Everything one transaction writes, copied out of the view at one moment."""

    before: list[int]
    """The saved positions before this part."""
    positions: list[int]
    new_jobs: JobRows | None
    """Jobs that the checkpoint does not have yet, as far as this process knows."""
    jobs: JobRows | None
    """Other jobs that changed."""
    names: list[SavedName]
    dropped_names: list[tuple[str, int]]
    specs: SpecsSave | None
    """Of any partition. Encoded as they are written; `View.specs` holds them until `end_save`."""
    ended: list[tuple[JobId, str, str, int]]
    groups: list[tuple[GroupId, bytes | None]]
    """Groups that changed, encoded; None: it was forgotten."""
    arrays: list[tuple[ArrayId, bytes | None]]
    """As `groups`."""
    buckets: bytes
    """Tokens as they are now: of a partition that is saved later, what is folded again after a
    kill takes its tokens once more. So a kill never fills a bucket."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return self.positions == self.before and self.specs is None


class CheckpointParts:
    """One save of all changes: `take` the next part, save it, until `is_done`.

    What changes meanwhile is in the part if its partition has not been taken yet.
    """

    def __init__(
        self, view: View, names: SavedNames, saved: Sequence[int], rows_max: int = ROWS_MAX
    ) -> None:
        """`names`: the checkpoint's; `saved`: its positions."""
        self._view = view
        self._names = names
        self._saved = list(saved)
        self._parts = _group(_count_changes(view, len(saved)), rows_max)
        names.begin_save(_find_used_names(view, names))

    @property
    def is_done(self) -> bool:
        """Whether every part was taken."""
        return not self._parts

    def take_next(self) -> Changes:
        """The changes of the next part, which the view no longer marks as changed."""
        part = self._parts.pop()
        view, names, before = self._view, self._names, self._saved
        jobs = view.jobs
        rows = np.flatnonzero(jobs.unsaved[: jobs.used])
        rows = rows[np.isin(jobs.partition[rows], part)]
        live = rows[~job_table.IS_ENDED[jobs.state[rows]]]
        is_known = jobs.in_checkpoint[live]
        jobs.in_checkpoint[live] = True
        ended = _take_ended(view, None if len(part) == len(before) else part)
        self._saved = list(before)
        for partition in part:
            self._saved[partition] = view.positions.get(partition, 0)
        changes = Changes(
            before=before,
            positions=self._saved,
            new_jobs=_copy_jobs(jobs, names, live[~is_known]),
            jobs=_copy_jobs(jobs, names, live[is_known]),
            names=names.take_added(),
            dropped_names=names.end_save() if self.is_done else [],
            specs=view.specs.begin_save(),
            groups=_take_groups(view, part),
            arrays=_take_arrays(view, part),
            ended=[(job_id, e.state.value, e.digest, e.at_ms) for job_id, e in ended.items()],
            buckets=msgspec.json.encode(view.buckets.save()),
        )
        view.recent.update({job_id: each.state for job_id, each in ended.items()})
        jobs.unsaved[rows] = False
        return changes


def _count_changes(view: View, partitions: int) -> npt.NDArray[np.intp]:
    """By partition: jobs that changed or ended since they were saved."""
    jobs = view.jobs
    rows = np.flatnonzero(jobs.unsaved[: jobs.used])
    changes = np.bincount(jobs.partition[rows], minlength=partitions)
    for job_id, count in _count_prefixes(view.ended).values():
        changes[partition_of_job(job_id)] += count
    return changes


def _group(changes: npt.NDArray[np.intp], rows_max: int) -> list[list[int]]:
    """Partitions that are saved together, the last ones first."""
    parts: list[list[int]] = [[]]
    rows = 0
    for partition, count in enumerate(changes.tolist()):
        if parts[-1] and rows + count > rows_max:
            parts.append([])
            rows = 0
        parts[-1].append(partition)
        rows += count
    return parts[::-1]


def _count_prefixes(ids: Iterable[JobId]) -> dict[str, tuple[JobId, int]]:
    """By the characters of an id that name its partition: one such id, and how many there are."""
    found: dict[str, tuple[JobId, int]] = {}
    for job_id in ids:
        prefix = job_id[:2]
        found[prefix] = (job_id, found[prefix][1] + 1 if prefix in found else 1)
    return found


def _take_groups(view: View, part: Collection[int]) -> list[tuple[GroupId, bytes | None]]:
    """The groups of a part that changed; the view forgets that they did."""
    chosen = [group for group in view.unsaved_groups if partition_of_job(JobId(group)) in part]
    for group in chosen:
        del view.unsaved_groups[group]
    return [
        (group, msgspec.json.encode(view.groups[group]) if group in view.groups else None)
        for group in chosen
    ]


def _take_arrays(view: View, part: Collection[int]) -> list[tuple[ArrayId, bytes | None]]:
    """As `_take_groups`."""
    chosen = [array for array in view.unsaved_arrays if partition_of_job(array) in part]
    for array in chosen:
        del view.unsaved_arrays[array]
    return [
        (array, msgspec.json.encode(view.arrays[array]) if array in view.arrays else None)
        for array in chosen
    ]


def _take_ended(view: View, part: Collection[int] | None) -> dict[JobId, EndedJob]:
    """The ended jobs of a part (None: all) that are not saved; the view has the others only."""
    ended = view.ended
    if part is None:
        view.ended = {}
        return ended
    firsts = _count_prefixes(ended)
    prefixes = {key for key, (job_id, _) in firsts.items() if partition_of_job(job_id) in part}
    view.ended = {job_id: each for job_id, each in ended.items() if job_id[:2] not in prefixes}
    return {job_id: each for job_id, each in ended.items() if job_id[:2] in prefixes}


def _names_of(jobs: JobTable) -> dict[str, job_table.Numbering[Any]]:
    """Column -> the names that its numbers stand for."""
    return {
        "pool": jobs.pools,
        "job_set": jobs.job_sets,
        "shape": jobs.shapes,
        "node": jobs.nodes,
    }


def _copy_jobs(jobs: JobTable, names: SavedNames, rows: Rows) -> JobRows | None:
    """The records of these rows; None without rows."""
    if not rows.size:
        return None
    packed = np.zeros(rows.size, records.RECORD)
    for field in records.PLAIN:
        packed[field] = getattr(jobs, field)[rows]
    for kind, numbering in _names_of(jobs).items():
        packed[kind] = names.column(kind, numbering.values, getattr(jobs, kind)[rows])
    rare = {
        place: msgspec.json.encode(jobs.rare_properties[row])
        for place, row in enumerate(rows.tolist())
        if row in jobs.rare_properties
    }
    return JobRows(jobs.rows.keys(rows), packed, rare)


def _find_used_names(view: View, names: SavedNames) -> dict[str, list[Name]]:
    """Of each kind that has many unused names, those that a job has which has not ended."""
    crowded = [kind for kind in records.NAMES if names.has_many_unused(kind)]
    if not crowded:
        return {}
    jobs = view.jobs
    rows = view.live_rows()
    rows = rows[~job_table.IS_ENDED[jobs.state[rows]]]
    used: dict[str, list[Name]] = {}
    for kind in crowded:
        values = _names_of(jobs)[kind].values
        numbers = np.unique(getattr(jobs, kind)[rows]).tolist()
        used[kind] = [values[number] for number in numbers if number >= 0]
    return used
