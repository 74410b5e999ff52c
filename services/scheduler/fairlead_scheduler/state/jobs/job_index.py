"""The row of each job id and the id of each row, as columns, for millions of jobs.

A look-up in a dictionary of strings waits for memory three times, and each job needs an object.
Here the id of a row is 28 bytes of an array, rows with the same hash are linked, and many ids are
looked up in one call, so that the waits overlap.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JOB_ID_LENGTH, JobId
from fairlead_scheduler.state.jobs.growing_columns import grow_array

Rows = npt.NDArray[np.intp]
Hashes = npt.NDArray[np.int64]
Keys = npt.NDArray[np.bytes_]
PackedIds = Keys | npt.NDArray[np.object_]
"""Ids for which no Python string has been made yet."""

NO_ROW: Final = -1
_HASH_BITS: Final = 0x7FFF_FFFF
FEW: Final = 16
"""Up to this many ids are looked up one by one, which is faster."""


class HashedIds(NamedTuple):
    """Ids that are looked up several times; without arrays if they are few, or if the length of any
    is unusual."""

    ids: Sequence[JobId]
    keys: Keys | None
    hashes: Hashes | None


def hash_ids(ids: Sequence[JobId]) -> HashedIds:
    """Prepare ids for several look-ups."""
    keys = _keys(ids) if len(ids) > FEW else None
    return HashedIds(ids, keys, None if keys is None else _hashes(keys))


def hash_keys(keys: Keys) -> HashedIds:
    """`hash_ids` for ids of the usual length for which no Python string has been made."""
    return HashedIds((), keys, _hashes(keys))


class JobIndex:
    """Id -> row, and row -> id (`id_at`, `ids_at`).

    Ids of another length than generated ones (simulations accept any) are in a separate table.
    """

    def __init__(self, capacity: int) -> None:
        self._key: Keys = np.zeros(capacity, f"S{JOB_ID_LENGTH}")
        """The id of each row; empty if it has none, or one of unusual length."""
        self._hash = np.zeros(capacity, np.int32)
        self._next = np.full(capacity, NO_ROW, np.int32)
        """The next row in the same slot."""
        self._slots = capacity
        self._bound = 1 << (capacity - 1).bit_length()
        """The smallest power of two that is not below the number of slots."""
        self._first = np.full(capacity, NO_ROW, np.int32)
        """Slot -> its first row."""
        self._irregular: dict[JobId, int] = {}
        self._irregular_at: dict[int, JobId] = {}
        self._count = 0

    # One id -----------------------------------------------------------------------------------

    def id_at(self, row: int) -> JobId:
        """The id of a row that has one."""
        found: bytes = self._key.item(row)
        return JobId(found.decode()) if found else self._irregular_at.get(row, JobId(""))

    def get(self, job_id: JobId) -> int | None:
        """The row of a job, if it has one."""
        key = job_id.encode()
        hashed = hash(key) & _HASH_BITS
        row: int = self._first.item(self._slot(hashed))
        while row >= 0:
            if self._hash.item(row) == hashed and self._key.item(row) == key:
                return row
            row = self._next.item(row)
        return self._irregular.get(job_id) if self._irregular else None

    def add_one(self, job_id: JobId, row: int) -> None:
        """Give this row this id, which must not have a row."""
        self._count += 1
        self._add(job_id, row)

    def remove(self, row: int) -> None:
        """Remove the id of a row."""
        self._count -= 1
        irregular = self._irregular_at.pop(row, None) if self._irregular_at else None
        if irregular is not None:
            del self._irregular[irregular]
            return
        after = self._next.item(row)
        slot = self._slot(self._hash.item(row))
        before: int = self._first.item(slot)
        if before == row:
            self._first[slot] = after
        else:
            while (other := self._next.item(before)) != row:
                before = other
            self._next[before] = after
        self._key[row] = b""

    # Many ids ---------------------------------------------------------------------------------

    def ids_at(self, rows: Sequence[int] | Rows | npt.NDArray[np.int32]) -> list[JobId]:
        """The ids of rows."""
        at = np.asarray(rows, np.intp)
        if self._irregular_at:
            return [self.id_at(row) for row in at.tolist()]
        return unpack_ids(self._key[at])

    def packed_ids(self, rows: Rows) -> PackedIds:
        """The ids of rows, for `unpack_ids` when they are needed."""
        if self._irregular_at:
            return np.array(self.ids_at(rows), np.object_)
        return self._key[rows]

    def find(self, wanted: Sequence[JobId] | HashedIds) -> Rows:
        """The rows of these jobs, `NO_ROW` for a job without a row."""
        ids, keys, hashes = wanted if isinstance(wanted, HashedIds) else hash_ids(wanted)
        if keys is None or hashes is None:
            singly = map(self.get, ids)
            return np.array([NO_ROW if row is None else row for row in singly], np.intp)
        found: Rows = self._first[self._slots_of(hashes)].astype(np.intp)
        at = np.flatnonzero(found >= 0)
        while at.size:
            rows = found[at]
            other = (self._hash[rows] != hashes[at]) | (self._key[rows] != keys[at])
            at, rows = at[other], self._next[rows[other]]
            found[at] = rows
            at = at[rows >= 0]
        return found

    def add(self, new: Sequence[JobId] | HashedIds, rows: Rows) -> None:
        """Give these rows these ids, which must be distinct and have no rows."""
        self._count += rows.size
        ids, keys, hashes = new if isinstance(new, HashedIds) else hash_ids(new)
        if keys is None or hashes is None:
            for job_id, row in zip(ids, rows.tolist(), strict=True):
                self._add(job_id, row)
            return
        self._key[rows] = keys
        self._hash[rows] = hashes
        self._link(rows)

    def remove_all(self, rows: Rows) -> None:
        """Remove the ids of these rows, which are distinct."""
        while rows.size > FEW and not self._irregular_at:
            slots = self._slots_of(self._hash[rows])
            is_first = self._first[slots] == rows
            first = rows[is_first]
            if not first.size:
                break
            self._first[slots[is_first]] = self._next[first]
            self._key[first] = b""
            self._count -= first.size
            rows = rows[~is_first]
        for row in rows.tolist():
            self.remove(row)

    def keys(self, rows: Rows) -> Keys:
        """The ids of rows, which all are of the usual length."""
        return self._key[rows]

    def _add(self, job_id: JobId, row: int) -> None:
        if not 0 < len(job_id) <= JOB_ID_LENGTH or not job_id.isascii():
            self._irregular[job_id], self._irregular_at[row] = row, job_id
            return
        hashed = _hash(job_id)
        slot = self._slot(hashed)
        self._key[row], self._hash[row] = job_id, hashed
        self._next[row] = self._first[slot]
        self._first[slot] = row

    def _link(self, rows: Rows) -> None:
        """Link these rows at the front of their slots."""
        slots = self._slots_of(self._hash[rows])
        while rows.size:
            before = self._first[slots]
            self._first[slots] = rows
            is_first = self._first[slots] == rows  # one of those that share a slot
            self._next[rows[is_first]] = before[is_first]
            rows, slots = rows[~is_first], slots[~is_first]

    # Slots ------------------------------------------------------------------------------------

    def _slot(self, hashed: int) -> int:
        """`_slots_of` one hash."""
        slot = hashed & self._bound - 1
        return slot if slot < self._slots else slot - self._bound // 2

    def _slots_of(self, hashes: Hashes | npt.NDArray[np.int32]) -> npt.NDArray[np.signedinteger]:
        """The slots of hashes: their last bits, one bit less if that slot does not exist yet."""
        slots = hashes & self._bound - 1
        return np.where(slots < self._slots, slots, slots - self._bound // 2)

    def grow(self, capacity: int) -> None:
        """Extend the index to this many rows and as many slots.

        Slots are split in order, each into itself and the one half a bound after it (linear
        hashing, Litwin 1980), so that only the rows of these slots are linked again.
        """
        self._key = grow_array(self._key, capacity)
        self._hash = grow_array(self._hash, capacity)
        self._next = grow_array(self._next, capacity, NO_ROW)
        self._first = grow_array(self._first, capacity, NO_ROW)
        while self._slots < capacity:
            if self._slots == self._bound:
                self._bound *= 2
            upto = min(capacity, self._bound)
            half = self._bound // 2
            rows = self._take_off(slice(self._slots - half, upto - half))
            self._slots = upto
            self._link(rows)

    def _take_off(self, slots: slice) -> Rows:
        """Empty these slots and return their rows."""
        rows: Rows = self._first[slots].astype(np.intp)
        self._first[slots] = NO_ROW
        found = []
        while rows.size:
            rows = rows[rows >= 0]
            found.append(rows)
            rows = self._next[rows].astype(np.intp)
        return np.concatenate(found)

    def __getitem__(self, job_id: JobId) -> int:
        row = self.get(job_id)
        if row is None:
            raise KeyError(job_id)
        return row

    def __contains__(self, job_id: JobId) -> bool:
        return self.get(job_id) is not None

    def __len__(self) -> int:
        return self._count

    def items(self) -> Iterator[tuple[JobId, int]]:
        """All ids with their rows."""
        yield from self._irregular.items()
        for row in np.flatnonzero(self._key != b"").tolist():
            yield self.id_at(row), row


def unpack_ids(ids: PackedIds) -> list[JobId]:
    """The ids as strings."""
    found = ids.tolist()
    return cast("list[JobId]", found if ids.dtype == np.object_ else list(map(bytes.decode, found)))


def _hash(job_id: JobId) -> int:
    """`_hashes` of one id."""
    return hash(job_id.encode()) & _HASH_BITS


def _hashes(keys: Keys) -> Hashes:
    return np.fromiter(map(hash, keys.tolist()), np.int64, keys.size) & _HASH_BITS


def pack_equal_lengths(texts: Sequence[str], width: int) -> Keys | None:
    """Texts as an array of bytes; None if any is not ASCII or not `width` characters long.

    The joined text becomes the array without handling each text, which takes half the time.
    """
    joined = "".join(texts)
    if len(joined) != width * len(texts) or not joined.isascii():
        return None
    return np.frombuffer(joined.encode(), f"S{width}") if set(map(len, texts)) == {width} else None


def _keys(ids: Sequence[JobId]) -> Keys | None:
    """The ids as bytes; None if any of them is too long, empty or not ASCII."""
    usual = pack_equal_lengths(ids, JOB_ID_LENGTH)
    if usual is not None:
        return usual
    lengths = set(map(len, ids))
    if max(lengths) > JOB_ID_LENGTH or 0 in lengths:
        return None
    try:
        return np.array(ids, f"S{JOB_ID_LENGTH}")
    except UnicodeEncodeError:
        return None
