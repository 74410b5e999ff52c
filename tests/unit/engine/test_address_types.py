"""Named tuples of arrays that kernels pass on by address read as they do in Python."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import pytest

from fairlead_scheduler.engine.compiler.decorators import (
    by_address,
    entry_point,
    inlined,
    is_compiled,
    pack_for_kernels,
    repack,
)
from fairlead_scheduler.engine.snapshot import Bool, Byte, Float, Int64

pytestmark = pytest.mark.skipif(not is_compiled(), reason="kernels run as Python here")


@by_address
class Held(NamedTuple):
    """One array of each kind, and a number."""

    flag: Bool
    kind: Byte
    share: Float
    amount: Int64
    now_ms: int


@by_address
class Outer(NamedTuple):
    """Two tuples within a tuple, and an array."""

    first: Held
    second: Held
    total: Int64


@entry_point
def add_up(outer: Outer) -> None:
    """Write to one inner tuple what another holds, and let a kernel work on the second."""
    outer.total[0] = outer.first.amount[1, 0, 1] + outer.second.now_ms
    raise_row(outer.second, 0, 1)


@entry_point
def raised(held: Held, by: int) -> float:
    """Raise the last amounts of each row; all amounts together, by digits of their place."""
    total = float(held.now_ms) + held.flag[1]
    for i in range(held.amount.shape[0]):
        raise_row(held, i, by)
        for k in range(held.amount.shape[1]):
            for r in range(held.amount.shape[2]):
                total += held.amount[i, k, r] * 10.0 ** (4 * i + 2 * k + r)
        total += held.share[i] * held.kind[i]
    return float(total)


@inlined
def raise_row(held: Held, i: int, by: int) -> None:
    """Raise what stands in one row."""
    held.share[i] += by
    row = held.amount[i, held.amount.shape[1] - 1]
    row[row.size - 1] += by


@entry_point
def squared(held: Held, i: int) -> int:
    """The square of a kind."""
    square: int = held.kind[i] * held.kind[i]
    return square


def held() -> Held:
    return Held(
        flag=np.array([True, False]),
        kind=np.array([3, 200], np.uint8),
        share=np.array([0.5, 0.25]),
        amount=np.arange(8, dtype=np.int64).reshape(2, 2, 2),
        now_ms=-7,
    )


def test_a_kernel_and_what_it_calls_read_and_change_the_arrays() -> None:
    mine = held()
    assert raised(mine, 1) == 86544210 - 7 + 1.5 * 3 + 1.25 * 200
    assert mine.share.tolist() == [1.5, 1.25]
    assert mine.amount.tolist() == [[[0, 1], [2, 4]], [[4, 5], [6, 8]]]


def test_a_noncontiguous_array_is_refused() -> None:
    with pytest.raises(AssertionError, match="contiguous"):
        raised(held()._replace(share=np.zeros(4)[::2]), 1)


def test_tuples_within_a_tuple_are_read_and_changed_in_place() -> None:
    outer = Outer(held(), held(), np.zeros(1, np.int64))
    add_up(outer)
    assert outer.total.tolist() == [-2]
    assert outer.second.amount[0].tolist() == [[0, 1], [2, 4]]
    assert outer.first.amount[0].tolist() == [[0, 1], [2, 3]]


def test_a_call_retains_no_array() -> None:
    outer = Outer(held(), held(), np.zeros(1, np.int64))
    uses = sys.getrefcount(outer.first.amount), sys.getrefcount(outer.total)
    for _ in range(3):
        add_up(outer)
    assert uses == (sys.getrefcount(outer.first.amount), sys.getrefcount(outer.total))


def test_what_was_written_down_once_serves_several_calls() -> None:
    outer = Outer(held(), held(), np.zeros(1, np.int64))
    written = pack_for_kernels(outer)
    add_up(written)
    add_up(written)
    assert outer.second.amount[0].tolist() == [[0, 1], [2, 5]]


def test_fields_that_are_other_objects_are_packed_again() -> None:
    outer = Outer(held(), held(), np.zeros(1, np.int64))
    packed = pack_for_kernels(outer)
    changed = outer._replace(
        second=held()._replace(now_ms=5, amount=np.zeros((1, 1, 2), np.int64)),
        total=np.zeros(3, np.int64),
    )
    add_up(repack(changed, packed))
    assert changed.total.tolist() == [5 + 5, 0, 0]
    assert changed.second.amount.tolist() == [[[0, 1]]]
    assert outer.total.tolist() == [0]
    add_up(repack(outer, packed))
    assert outer.total.tolist() == [5 - 7]


def test_a_tuple_within_a_tuple_is_packed_again_where_it_changed() -> None:
    outer = Outer(held(), held(), np.zeros(1, np.int64))
    packed = pack_for_kernels(outer)
    longer = outer._replace(second=outer.second._replace(amount=np.zeros((3, 1, 2), np.int64)))
    again = repack(longer, packed)
    add_up(again)
    assert longer.second.amount.tolist() == [[[0, 1]], [[0, 0]], [[0, 0]]]
    assert outer.second.amount[0].tolist() == [[0, 1], [2, 3]]
    add_up(repack(longer._replace(second=longer.second._replace(now_ms=9)), again))
    assert outer.total.tolist() == [5 + 9]
    add_up(repack(outer, again))
    assert outer.second.amount[0].tolist() == [[0, 1], [2, 4]]


def test_a_whole_number_of_8_bits_is_passed_with_64() -> None:
    mine = held()
    assert squared(mine, 1) == 200 * 200
