"""Numbers that stand for names in the records of the checkpoint. Pure.

They belong to the checkpoint. Each process assigns other numbers to names in its columns. Only the
leader assigns them; its transactions write them to the table `names`.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, assert_never

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.state.checkpoint import checkpoint_rows
from fairlead_scheduler.state.jobs import job_table

UNUSED_MAX: Final = 10_000
"""Names of a kind that no job has are dropped beyond this number and twice those in use."""

Name = str | job_table.JobSet | job_table.ShapeClass | job_table.NodeName
Numbers = npt.NDArray[np.signedinteger]


class SavedName(NamedTuple):
    """A row of the table `names`."""

    kind: str
    number: int
    parts: list[str]


class SavedNames:
    """Name -> its number in the checkpoint, by kind."""

    def __init__(self, saved: Iterable[SavedName] = (), unused_max: int = UNUSED_MAX) -> None:
        self._unused_max = unused_max
        self._numbers: dict[str, dict[Hashable, int]] = {kind: {} for kind in checkpoint_rows.NAMES}
        self._used = dict.fromkeys(checkpoint_rows.NAMES, 0)
        for kind, number, parts in saved:
            self._numbers[kind][decode_name(kind, parts)] = number
        self._free = {kind: _holes(known.values()) for kind, known in self._numbers.items()}
        self._added: list[SavedName] = []
        self._needed: dict[str, set[Name]] = {}
        """The names to which records can refer when the save ends, of kinds with many unused
        names."""

    def begin_save(self, used: Mapping[str, Iterable[Name]]) -> None:
        """All changes are saved now, in parts.

        `used`: of kinds with many unused names, those that the view has now. A record that the save
        leaves as it is refers to such a name, and one that it writes to a name it asks for.
        """
        self._needed = {kind: set(names) for kind, names in used.items()}

    def end_save(self) -> list[tuple[str, int]]:
        """Drop the names that nothing refers to once the last part is saved: kind and number."""
        dropped = [self._drop_unused(kind, needed) for kind, needed in self._needed.items()]
        self._needed = {}
        return list(chain.from_iterable(dropped))

    def column(self, kind: str, values: Sequence[Name], numbers: Numbers) -> Numbers:
        """The numbers in the checkpoint of `values[number]`; -1 (none) stays -1."""
        distinct, which = np.unique(numbers, return_inverse=True)
        saved = [
            -1 if number < 0 else self._number(kind, values[number]) for number in distinct.tolist()
        ]
        if kind in self._needed:
            self._needed[kind].update(values[number] for number in distinct.tolist() if number >= 0)
        return np.array(saved, np.int32)[which]

    def _number(self, kind: str, name: Name) -> int:
        known, free = self._numbers[kind], self._free[kind]
        found = known.get(name)
        if found is None:
            found = known[name] = free.pop() if free else len(known)
            self._added.append(SavedName(kind, found, _encode(name)))
        return found

    def take_added(self) -> list[SavedName]:
        """The names that were numbered since the last call."""
        added, self._added = self._added, []
        return added

    def has_many_unused(self, kind: str) -> bool:
        """Whether to look for names of a kind that no job has."""
        return len(self._numbers[kind]) > self._unused_max + 2 * self._used[kind]

    def _drop_unused(self, kind: str, needed: set[Name]) -> list[tuple[str, int]]:
        known = self._numbers[kind]
        dropped = [(name, number) for name, number in known.items() if name not in needed]
        for name, number in dropped:
            del known[name]
            self._free[kind].append(number)
        self._used[kind] = len(known)
        return [(kind, number) for _, number in dropped]


def _holes(numbers: Iterable[int]) -> list[int]:
    """The numbers below the greatest of these that are missing."""
    taken = set(numbers)
    return [number for number in range(max(taken, default=-1)) if number not in taken]


def _encode(name: Name) -> list[str]:
    match name:
        case str():
            return [name]
        case job_table.ShapeClass(raw, priority_class):
            return [raw.decode(), priority_class]
        case job_table.JobSet() | job_table.NodeName():
            return list(name)
    assert_never(name)


def decode_name(kind: str, parts: Sequence[str]) -> Name:
    """The name that a row of the table `names` holds."""
    match kind:
        case "pool":
            return parts[0]
        case "job_set":
            return job_table.JobSet(*parts)
        case "shape":
            return job_table.ShapeClass(parts[0].encode(), parts[1])
        case "node":
            return job_table.NodeName(*parts)
    raise AssertionError(f"{kind} is not a kind of name")
