"""Kernels that call each other through the table of addresses do what they do as Python.

Where numba is not installed or not used, these are ordinary functions, and the tests hold as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from fairlead_scheduler.engine.compiler.decorators import (
    by_address,
    entry_point,
    inlined,
    separate,
)
from fairlead_scheduler.engine.snapshot import Byte, Int32, Int64


@by_address
class Accounts(NamedTuple):
    """A model with arrays of 8, 32 and 64 bits."""

    balance: Int64
    owner: Int32
    kind: Byte


class Transfer(NamedTuple):
    """What a kernel returns: numbers of different types."""

    amount: int
    part: float
    done: bool


@separate
def transfer_all(model: Accounts, source: int, target: int) -> Transfer:
    """Calls a kernel that is declared after it."""
    amount = withdraw(model, source, model.balance[source])
    model.balance[target] += amount
    return Transfer(amount, amount / model.balance[target], True)


@separate
def withdraw(model: Accounts, account: int, amount: int) -> int:
    """Take this from an account, and return it."""
    model.balance[account] -= amount
    return amount


@separate
def part_of(model: Accounts, amount: int, whole: int) -> float:
    """Fails where the whole is 0."""
    return amount / whole


@separate
def close_account(model: Accounts, account: int) -> None:
    """Returns nothing."""
    model.balance[account] = 0


@separate
def half(model: Accounts, amount: float) -> float:
    """Takes whole numbers too, as its annotation says."""
    return amount / 2


@inlined
def share(model: Accounts, amount: int, whole: int) -> float:
    """What calls this calls a kernel of the table."""
    return part_of(model, amount, whole)


@entry_point
def move(model: Accounts, source: int, target: int) -> float:
    """Transfer everything and close the source."""
    result = transfer_all(model, source, target)
    close_account(model, source)
    return result.amount * 100 + result.part + result.done


@entry_point
def sum_halves(model: Accounts, account: int) -> float:
    """Pass numbers that were read from arrays of 8 and 32 bits, and a constant."""
    return half(model, model.owner[account]) + half(model, model.kind[account]) + half(model, 5)


@entry_point
def find_share(model: Accounts, amount: int, whole: int) -> float:
    """Fails where the whole is 0, two calls further down."""
    return share(model, amount, whole)


def accounts() -> Accounts:
    return Accounts(
        balance=np.array([30, 10]),
        owner=np.array([7, 8], np.int32),
        kind=np.array([200, 1], np.uint8),
    )


def test_kernels_change_the_model_and_return_several_values() -> None:
    model = accounts()
    assert move(model, 0, 1) == 30 * 100 + 30 / 40 + 1
    assert model.balance.tolist() == [0, 40]


def test_numbers_are_passed_as_annotations_say() -> None:
    assert sum_halves(accounts(), 0) == 3.5 + 100 + 2.5


def test_an_error_in_a_separate_kernel_is_raised_in_python() -> None:
    model = accounts()
    with pytest.raises(ZeroDivisionError):
        find_share(model, 1, 0)
    assert find_share(model, 1, 4) == 0.25


def test_kernels_are_loaded_again_for_every_form_of_the_model() -> None:
    assert move(accounts(), 1, 0) == 10 * 100 + 10 / 40 + 1
    wide = accounts()._replace(owner=np.array([7, 8]))
    assert sum_halves(wide, 1) == 4 + 0.5 + 2.5
