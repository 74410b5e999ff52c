"""Views of any content, and a table that stands for the checkpoint's in Postgres."""

import struct
from collections.abc import Iterator
from typing import TypeVar

import msgspec
import numpy as np

from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.ids import ArrayId, GroupId, JobId, new_job_id, partition_of_job
from fairlead_common.domain.lifecycle import JobState, RunState
from fairlead_common.domain.records.events import FailureCategory, RetryPolicy
from fairlead_scheduler.state.checkpoint import checkpoint_parts, checkpoint_rows
from fairlead_scheduler.state.checkpoint.checkpoint_loader import CheckpointLoader
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedName, SavedNames
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.token_buckets import PoolBuckets, SavedBuckets
from fairlead_scheduler.state.view import View

PARTITIONS = 32
SAVED = (*checkpoint_rows.FIELDS, "partition", "queue")
"""Columns that a checkpoint restores."""
FLAGS_MAX = 1 << 15
"""The old tables held flags as a signed number of 16 bits."""
RARE_AT_ONCE = 5
_HEADER_BYTES = 19
T = TypeVar("T")


class Table:
    """What the statements of `checkpoint.sql` do, but for nodes."""

    def __init__(self) -> None:
        self.rows: dict[JobId, tuple[bytes, bytes | None]] = {}
        self.names: dict[tuple[str, int], list[str]] = {}
        self.saved_names = SavedNames()
        self.specs: dict[JobId, bytes] = {}
        self.positions = [0] * PARTITIONS
        self.ended: dict[JobId, job_table.EndedJob] = {}
        self.buckets = b"{}"
        self.groups: dict[GroupId, bytes] = {}
        self.arrays: dict[ArrayId, bytes] = {}

    def save(self, view: View, rows_max: int = checkpoint_parts.ROWS_MAX) -> None:
        """As `Saver.save`."""
        for _ in self.save_parts(view, rows_max):
            pass

    def save_parts(self, view: View, rows_max: int) -> Iterator[None]:
        """As `Saver.save`, with a pause after each part."""
        left = checkpoint_parts.CheckpointParts(view, self.saved_names, self.positions, rows_max)
        while not left.is_done:
            self.write(left.take_next())
            view.specs.end_save()
            yield

    def save_specs(self, view: View, count: int) -> None:
        """As `checkpoint.save_specs` of the oldest."""
        self.specs |= dict(view.specs.begin_save(count) or ())
        view.specs.end_save()

    def write(self, changes: checkpoint_parts.Changes) -> None:
        """As `checkpoint.save`."""
        if changes.before != self.positions:
            raise ViewConflict("another one has saved")
        self.positions = changes.positions
        self.buckets = changes.buckets
        for place in changes.dropped_names:
            del self.names[place]
        for kind, number, named in changes.names:
            self.names[kind, number] = named
        for rows in filter(None, (changes.new_jobs, changes.jobs)):
            for key, record, rare in copied(b"".join(rows.encode())):
                assert key is not None
                assert record is not None
                self.rows[JobId(key.decode())] = (record, rare)
        self.specs |= dict(changes.specs or ())
        for group, encoded in changes.groups:
            self.groups.pop(group, None)
            if encoded is not None:
                self.groups[group] = encoded
        for array, encoded in changes.arrays:
            self.arrays.pop(array, None)
            if encoded is not None:
                self.arrays[array] = encoded
        for job_id, state, digest, at_ms in changes.ended:
            self.ended[job_id] = job_table.EndedJob(JobState(state), digest, at_ms)
            self.rows.pop(job_id, None)
            self.specs.pop(job_id, None)

    def load(self, piece_bytes: int = 1_000, rules: Rules | None = None) -> View:
        """As `checkpoint.load_view`; Postgres may answer in pieces of any size."""
        answer = b"PGCOPY\n\xff\r\n\0" + bytes(8)
        for job_id, (record, _) in self.rows.items():
            answer += struct.pack(">hi", 2, len(job_id)) + job_id.encode()
            answer += struct.pack(">i", len(record)) + record
        answer += b"\xff\xff"
        levels = msgspec.json.decode(self.buckets, type=dict[str, SavedBuckets])
        view = View(PoolBuckets(rules or Rules(), levels))
        view.positions = dict(enumerate(self.positions))
        names = [SavedName(*place, named) for place, named in self.names.items()]
        loading, decoder = (
            CheckpointLoader(view, names),
            checkpoint_rows.RowDecoder(rows_per_block=7),
        )
        for first in range(0, len(answer), piece_bytes):
            for block in decoder.feed(answer[first : first + piece_bytes]):
                loading.add(block)
        loading.add(decoder.finish())
        loading.index_rows()
        loading.add_groups(self.groups.values())
        loading.add_arrays(self.arrays.values())
        with_rare = [(job_id, rare) for job_id, (_, rare) in self.rows.items() if rare]
        for some in batched(with_rare, RARE_AT_ONCE):
            ids, encoded = zip(*some, strict=True)
            loading.add_rare("".join(ids).encode(), b"[" + b",".join(encoded) + b"]")
        loading.finish()
        return view


def batched(items: list[T], size: int) -> Iterator[list[T]]:
    """As many at once, but for the last ones."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def copied(data: bytes) -> Iterator[tuple[bytes | None, ...]]:
    """The rows of COPY's binary format, field by field as its documentation says."""
    at = _HEADER_BYTES
    while (fields := struct.unpack_from(">h", data, at)[0]) >= 0:
        at += 2
        row: list[bytes | None] = []
        for _ in range(fields):
            (length,) = struct.unpack_from(">i", data, at)
            at += 4
            row.append(None if length < 0 else data[at : at + length])
            at += max(0, length)
        yield tuple(row)
    assert at + 2 == len(data), "something follows the trailer"


def random_view(seed: int, jobs: int) -> View:
    """Jobs with any values in all columns that a checkpoint holds."""
    view, chance = View(), np.random.default_rng(seed)
    view.positions = {p: int(chance.integers(1 << 40)) for p in range(PARTITIONS)}
    add_jobs(view, chance, jobs)
    return view


def add_jobs(view: View, chance: np.random.Generator, count: int) -> None:
    """That many more."""
    ids = [
        new_job_id(int(chance.integers(PARTITIONS)), int(chance.integers(1 << 40)), number)
        for number in range(count)
    ]
    view.jobs.rows.add(ids, view.jobs.allocate(count))
    change_jobs(view, chance, ids)


def change_jobs(view: View, chance: np.random.Generator, ids: list[JobId]) -> None:
    """Give these jobs any other values."""
    jobs = view.jobs
    for job_id in ids:
        row = jobs.rows[job_id]
        for field in checkpoint_rows.PLAIN:
            column = getattr(jobs, field)
            if column.dtype.kind in "iu":
                bounds = np.iinfo(column.dtype)
                most = FLAGS_MAX if field == "flags" else bounds.max
                column[row] = chance.integers(bounds.min, most, dtype=column.dtype)
        live = [code for code in range(len(JobState)) if not job_table.ENDED[code]]
        jobs.state[row] = chance.choice(live)
        jobs.run_state[row] = chance.choice([*range(len(RunState)), job_table.NO_RUN])
        jobs.flags[row] &= job_table.ALL_FLAGS ^ job_table.FREE
        jobs.digest[row] = chance.bytes(16).hex() if chance.random() < 0.9 else b"d"
        jobs.partition[row] = partition_of_job(job_id)
        queue = f"queue-{chance.integers(5)}"
        jobs.queue[row] = jobs.queues.number(queue)
        jobs.job_set[row] = jobs.job_sets.number(
            job_table.JobSet(queue, f"set «{chance.integers(9)}»")
        )
        jobs.pool[row] = jobs.pools.number(f"pool-{chance.integers(3)}")
        raw = b'{"requests":{"cpu":%d}}' % chance.integers(20)
        jobs.shape[row] = jobs.shapes.number(
            job_table.ShapeClass(raw, f"class-{chance.integers(3)}")
        )
        node = job_table.NodeName(f"e{chance.integers(3)}", f"n{chance.integers(9)}")
        jobs.node[row] = -1 if chance.random() < 0.5 else jobs.nodes.number(node)
        jobs.rare_properties.pop(row, None)
        if chance.random() < 0.3:
            jobs.rare_properties[row] = random_rare_properties(chance, ids)
        view.mark_changed(row, int(chance.integers(1 << 40)))


def random_rare_properties(
    chance: np.random.Generator, ids: list[JobId]
) -> job_table.RareProperties:
    """Rare properties, each field with some chance."""
    terms = job_table.GangTerms(4, 2, "zone" if chance.random() < 0.5 else None, "wait")
    values: dict[str, object] = {
        "after": {JobId(str(chance.choice(ids)))},
        "cannot_start_reason": "it can never start: ü",
        "retry": RetryPolicy(limit=3, on=(FailureCategory.OOM,), memory_factor=1.5),
        "avoid": ("n1", "n2"),
        "stop_reason": "cancelled",
        "failure": FailureCategory.EVICTED,
        "failure_reason": "its node ended",
        "exit_code": 137,
        "gang": job_table.GangName("queue-1", "set", f"g{chance.integers(3)}"),
        "gang_terms": terms,
        "gang_started": True,
        "gang_cannot_start": True,
    }
    chosen = {field: value for field, value in values.items() if chance.random() < 0.5}
    return job_table.RareProperties(**chosen)  # type: ignore[arg-type]


def end_jobs(view: View, ids: list[JobId]) -> None:
    """These jobs ended, and nothing of them runs."""
    for job_id in ids:
        row = view.jobs.rows[job_id]
        view.ended[job_id] = job_table.EndedJob(JobState.CANCELLED, "d", 0, 0)
        view.jobs.release(row)


def content_of(view: View) -> dict[str, tuple[object, ...]]:
    """Everything that a checkpoint restores of each job, by id, names spelt out."""
    jobs = view.jobs
    found: dict[str, tuple[object, ...]] = {}
    for row in view.live_rows().tolist():
        named = {
            "queue": jobs.queues.values[jobs.queue[row]],
            "pool": jobs.pools.values[jobs.pool[row]],
            "job_set": jobs.job_sets.values[jobs.job_set[row]],
            "shape": jobs.shapes.values[jobs.shape[row]],
            "node": jobs.nodes.values[jobs.node[row]] if jobs.node[row] >= 0 else None,
        }
        columns = [getattr(jobs, name)[row].item() for name in SAVED if name not in named]
        rare = jobs.rare_properties.get(row)
        encoded = None if rare is None else msgspec.json.encode(rare, order="deterministic")
        found[jobs.rows.id_at(row)] = (*columns, *named.values(), encoded)
    return found


def contents(view: View) -> list[dict[str, tuple[object, ...]]]:
    """`content_of` the jobs of each partition."""
    found: list[dict[str, tuple[object, ...]]] = [{} for _ in range(PARTITIONS)]
    for name, each in content_of(view).items():
        found[partition_of_job(name)][name] = each
    return found
