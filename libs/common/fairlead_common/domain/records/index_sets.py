"""Sets of the indexes of an array's tasks, as ranges: `0-999999:10,1000005`. Pure.

A set of a million indexes is mostly a few ranges, and operations cost per range. The ranges of a
set are ascending and do not interleave.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from operator import attrgetter
from typing import Final

import msgspec

RANGES_MAX: Final = 10_000
"""Most ranges of a set that is parsed."""
STEPPED_MAX: Final = RANGES_MAX
"""Most indexes with a step that an operation takes out of ranges with other steps: each of them
becomes a range, and divides one."""
INDEX_MAX: Final = 9_999_999
_RANGE: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?")


class IndexSet(msgspec.Struct, frozen=True):
    """Indexes as (first, last, step); `last` is in the set. Equal sets can differ in form."""

    ranges: tuple[tuple[int, int, int], ...] = ()

    def __len__(self) -> int:
        return sum((last - first) // step + 1 for first, last, step in self.ranges)

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self.ranges, (index, INDEX_MAX + 1, 0)) - 1
        if at < 0:
            return False
        first, last, step = self.ranges[at]
        return index <= last and (index - first) % step == 0

    def __iter__(self) -> Iterator[int]:
        for each in self.as_ranges():
            yield from each

    def __str__(self) -> str:
        return ",".join(map(_format, self.as_ranges()))

    def as_ranges(self) -> list[range]:
        """The ranges as `range` objects."""
        return [range(first, last + 1, step) for first, last, step in self.ranges]

    def split(self, count: int) -> tuple["IndexSet", "IndexSet"]:
        """The `count` smallest indexes (all, if there are fewer), and the others."""
        below: list[range] = []
        above: list[range] = []
        for each in self.as_ranges():
            below.append(each[:count])
            above.append(each[count:])
            count -= len(below[-1])
        return _make(below), _make(above)

    def minus(self, other: "IndexSet") -> "IndexSet":
        """The indexes that are not in the other set. Raises ValueError for too many ranges."""
        return _make(_combine(self, other, keep_common=False))

    def common(self, other: "IndexSet") -> "IndexSet":
        """The indexes that are in both sets. Raises ValueError for too many ranges."""
        return _make(_combine(self, other, keep_common=True))


NONE: Final = IndexSet()


def parse(text: str) -> IndexSet:
    """The set that a text describes: numbers, `first-last` or `first-last:step`, separated by
    commas, ascending. Raises ValueError with a message for the user.
    """
    parts = text.split(",", RANGES_MAX)
    if len(parts) > RANGES_MAX:
        raise ValueError(f"has more than {RANGES_MAX} ranges")
    made: list[range] = []
    for part in parts:
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                f"{part.strip()[:40]!r} is not a number up to {INDEX_MAX}, a range such as 0-99, or"
                " one with a step such as 0-99:10"
            )
        first, last, step = match[1], match[2] or match[1], match[3] or "1"
        if int(step) == 0 or int(last) < int(first):
            wrong = "has the step 0" if int(step) == 0 else "ends before it begins"
            raise ValueError(f"{part.strip()!r} {wrong}")
        made.append(range(int(first), int(last) + 1, int(step)))
        if len(made) > 1 and made[-1][0] <= made[-2][-1]:
            raise ValueError(
                f"{part.strip()!r} does not follow {_format(made[-2])!r}: ranges must be ascending"
                " and must not overlap"
            )
    return _make(made)


def make_full(count: int) -> IndexSet:
    """All indexes below `count`."""
    return _make([range(count)])


def collect(indexes: Iterable[int]) -> IndexSet:
    """The set of these indexes."""
    ordered = sorted(set(indexes))
    made: list[range] = []
    begin = 0
    while begin < len(ordered):
        end = begin + 1
        step = ordered[end] - ordered[begin] if end < len(ordered) else 1
        while end < len(ordered) and ordered[end] - ordered[end - 1] == step:
            end += 1
        if end == begin + 2 and step > 1:
            end -= 1
        made.append(range(ordered[begin], ordered[end - 1] + 1, step))
        begin = end
    return _make(made)


def _format(each: range) -> str:
    if len(each) == 1:
        return str(each[0])
    return f"{each[0]}-{each[-1]}" + (f":{each.step}" if each.step > 1 else "")


def _make(ranges: Iterable[range]) -> IndexSet:
    """A set of ascending ranges; empty ones are left out and neighbours joined."""
    made: list[tuple[int, int, int]] = []
    for each in ranges:
        if not each:
            continue
        first, last, step = each[0], each[-1], each.step if len(each) > 1 else 1
        if made and step == 1 and made[-1][2] == 1 and made[-1][1] + 1 == first:
            made[-1] = (made[-1][0], last, 1)
        else:
            made.append((first, last, step))
    return IndexSet(tuple(made))


def _combine(one: IndexSet, other: IndexSet, *, keep_common: bool) -> Iterator[range]:
    """The ranges of the first set, cut into what is common with the other and what is not.

    Raises ValueError before there are more than `STEPPED_MAX` indexes that divide a range.
    """
    others, divided = other.as_ranges(), 0
    for each in one.as_ranges():
        begin = 0
        for common in _find_common(each, others):
            at, end = each.index(common[0]), each.index(common[-1]) + 1
            blocks = [each[at:end]]
            if end - at != len(common):
                divided += len(common)
                if divided > STEPPED_MAX:
                    raise ValueError(
                        f"{_format(common)!r} and what precedes it divide {_format(each)!r} into"
                        f" more than {STEPPED_MAX} ranges; name the indexes in several requests"
                    )
                blocks = [range(index, index + 1) for index in common]
            for block in blocks:
                end = each.index(block[0])
                yield block if keep_common else each[begin:end]
                begin = end + len(block)
        if not keep_common:
            yield each[begin:]


def _find_common(each: range, others: Sequence[range]) -> Iterator[range]:
    """What the range has in common with each of the others, ascending."""
    at = max(bisect_right(others, each[0], key=attrgetter("start")) - 1, 0)
    while at < len(others) and others[at][0] <= each[-1]:
        common = _intersect(each, others[at])
        at += 1
        if common:
            yield common


def _intersect(one: range, other: range) -> range:
    """The indexes that two ranges have in common."""
    if len(one) == 1 or len(other) == 1:
        single, ranged = (one, other) if len(one) == 1 else (other, one)
        return single if single[0] in ranged else range(0)
    divisor = gcd(one.step, other.step)
    distance = other.start - one.start
    if distance % divisor:
        return range(0)
    step = one.step // divisor * other.step
    steps = distance // divisor * pow(one.step // divisor, -1, other.step // divisor)
    place = one.start + one.step * (steps % (other.step // divisor))
    begin = max(one.start, other.start)
    place += -((place - begin) // step) * step
    return range(place, min(one[-1], other[-1]) + 1, step)
