"""Node types as columns: a requirement is evaluated for all types at once.

`fairlead_common.domain.scheduling.node_eligibility` evaluates it for a single node. Here the same
rules are applied to columns; a property test compares the two.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.scheduling.node_eligibility import NODE_NAME, integer
from fairlead_common.domain.scheduling.shapes import Requirement, SelectorTerm, Taint

Bool: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)


class NodeType(NamedTuple):
    """What nodes of one type have in common: blocking taints, relevant labels and, if relevant, the
    name. `soft_taints`: taints that only rank (PreferNoSchedule)."""

    taints: tuple[Taint, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    name: str = ""
    soft_taints: tuple[Taint, ...] = ()


class Column(Generic[T]):
    """A property of each type, as the number of its value among the distinct values."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}
        self._codes: list[int] = []
        self._array = np.zeros(0, np.int32)

    def add(self, value: T, times: int = 1) -> None:
        """Add the value of the next type, or of the next `times` types."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        self._codes += [number] * times

    def spread(self, answers: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """[T] for each type, the answer for its value; `answers`: by number of the value."""
        if len(self._array) < len(self._codes):
            self._array = np.array(self._codes, np.int32)
        return answers[self._array]

    def of(self, answer: Callable[[T], int]) -> npt.NDArray[np.int64]:
        """[T] for each type, the answer for its value; `answer` is called once per distinct
        value."""
        return self.spread(np.fromiter(map(answer, self.values), np.int64, len(self.values)))

    def among(self, values: Iterable[T]) -> Bool:
        """[T] whether the type has one of these values."""
        holds = np.zeros(len(self.values), np.bool_)
        holds[[self._numbers[value] for value in values if value in self._numbers]] = True
        return self.spread(holds)


class LabelColumn(Column[str | None]):
    """The values of a label or field; None for a type without it."""

    def __init__(self) -> None:
        super().__init__()
        self._integers = np.zeros(0, np.int64)
        self._are_integers = np.zeros(0, np.bool_)

    def beyond(self, bound: int, *, greater: bool) -> Bool:
        """[T] whether the value is an integer above the bound, or without `greater` below it."""
        fresh = [integer(value or "") for value in self.values[len(self._integers) :]]
        if fresh:
            numbers = np.array([number or 0 for number in fresh], np.int64)
            self._integers = np.concatenate([self._integers, numbers])
            are = np.array([number is not None for number in fresh], np.bool_)
            self._are_integers = np.concatenate([self._are_integers, are])
        is_beyond = self._integers > bound if greater else self._integers < bound
        return self.spread(is_beyond & self._are_integers)

    def meets(self, requirement: Requirement) -> Bool:
        """[T] whether the type meets the requirement."""
        match requirement.operator:
            case "In":
                return self.among(requirement.values)
            case "NotIn":
                return ~self.among(requirement.values)
            case "Exists":
                return ~self.among((None,))
            case "DoesNotExist":
                return self.among((None,))
            case "Gt" | "Lt" if len(requirement.values) == 1:
                bound = integer(requirement.values[0])
                if bound is not None:
                    return self.beyond(bound, greater=requirement.operator == "Gt")
        return self.among(())


class Types:
    """Node types by number, and their columns. `relevant`: the labels by which they can differ."""

    def __init__(self, relevant: frozenset[str] = frozenset()) -> None:
        self.relevant: Final = relevant
        self.taints: Column[tuple[Taint, ...]] = Column()
        self.soft_taints: Column[tuple[Taint, ...]] = Column()
        self._names = LabelColumn()
        self._absent = LabelColumn()
        self._labels: dict[str, LabelColumn] = {}
        """Columns of labels that any type has. Jobs can name any number of others."""
        self._numbers: dict[NodeType, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, kind: NodeType) -> int:
        """The number of a type; a new type gets the next number."""
        found = self._numbers.get(kind)
        if found is not None:
            return found
        labels = dict(kind.labels)
        for key in labels.keys() - self._labels.keys():
            self._labels[key] = LabelColumn()
            self._labels[key].add(None, len(self))
        for key, column in self._labels.items():
            column.add(labels.get(key))
        self.taints.add(kind.taints)
        self.soft_taints.add(kind.soft_taints)
        self._names.add(kind.name)
        self._absent.add(None)
        return self._numbers.setdefault(kind, len(self))

    def label(self, key: str) -> LabelColumn:
        """The values of a relevant label."""
        return self._labels.get(key, self._absent)

    def meet(self, term: SelectorTerm) -> Bool:
        """[T] whether the type meets all requirements of a term. No type meets an empty term."""
        fields = {NODE_NAME: self._names}
        asked = [(self.label(r.key), r) for r in term.match_expressions]
        asked += [(fields.get(r.key, self._absent), r) for r in term.match_fields]
        result = np.full(len(self), bool(asked))
        for column, requirement in asked:
            result &= column.meets(requirement)
        return result
