"""The tournament tree over nodes: the first node in order with enough free capacity, in one
descent.

Leaves are nodes in the order of N3; an inner node holds, per resource, the greatest free amount of
any leaf below it, and which node types are below it as bits (type modulo 64). The greatest amounts
may belong to different leaves, so a descent may find nothing below a node that looked right; it
then goes on to the right. Leaves that get nothing new, and those that only fill the tree up to a
power of two, have no type bits and are never found.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import entry_point, inlined, is_compiled
from fairlead_scheduler.engine.snapshot import Int64

Bits = npt.NDArray[np.uint64]

N_WORK: Final = 7
"""Where a round counts its work in `RoundModel.counters` (L6)."""


def build_tree(free: Int64, bits: Bits) -> tuple[Int64, Bits]:
    """The tree ([2*size, R] amounts, [2*size] bits) over leaves with these amounts and bits."""
    leaves, resources = free.shape
    size = 1 << max(leaves - 1, 0).bit_length()
    tree = np.zeros((2 * size, resources), np.int64)
    types = np.zeros(2 * size, np.uint64)
    tree[size : size + leaves] = free
    types[size : size + leaves] = bits
    fill_inner_nodes(tree, types)
    return tree, types


def fill_inner_nodes(tree: Int64, types: Bits) -> None:
    """Compute the amounts and bits above all leaves."""
    fill_tree(tree)
    _fill_types(types)


def fill_tree(tree: Int64) -> None:
    """Compute the amounts above all leaves."""
    if is_compiled():
        _fill_amounts(tree)
        return
    size = tree.shape[0] // 2
    while size > 1:
        below = tree[size : 2 * size]
        size //= 2
        np.maximum(below[::2], below[1::2], out=tree[size : 2 * size])


def _fill_types(types: Bits) -> None:
    """Compute the bits above all leaves."""
    if is_compiled():
        _fill_bits(types)
        return
    size = types.size // 2
    while size > 1:
        below = types[size : 2 * size]
        size //= 2
        np.bitwise_or(below[::2], below[1::2], out=types[size : 2 * size])


@entry_point
def _fill_amounts(tree: Int64) -> None:
    """`fill_tree` for compiled kernels: without a call of numpy per level of the tree."""
    for i in range(tree.shape[0] // 2 - 1, 0, -1):
        for r in range(tree.shape[1]):
            tree[i, r] = max(tree[2 * i, r], tree[2 * i + 1, r])


@entry_point
def _fill_bits(types: Bits) -> None:
    for i in range(types.size // 2 - 1, 0, -1):
        types[i] = types[2 * i] | types[2 * i + 1]


@inlined
def find_first_fit(
    tree: Int64, types: Bits, request: Int64, bits: np.uint64, start: int, counters: Int64
) -> int:
    """The first leaf from `start` on where `request` fits and a type bit matches, or -1.

    The nodes of the tree that are examined are counted in counters[N_WORK].
    """
    return find_first_marked_fit(tree, types, request, bits, types, bits, start, counters)


@inlined
def find_first_marked_fit(
    tree: Int64,
    types: Bits,
    request: Int64,
    bits: np.uint64,
    marks: Bits,
    mark_bits: np.uint64,
    start: int,
    counters: Int64,
) -> int:
    """`find_first_fit` where one of `mark_bits` must match in `marks`, [2*size] as `types`, too."""
    size = types.size // 2
    resources = request.size
    if start >= size:
        return -1
    i = size + start
    while True:
        counters[N_WORK] += 1
        fits = (types[i] & bits) != 0 and (marks[i] & mark_bits) != 0
        if fits:
            for r in range(resources):
                if request[r] > tree[i, r]:
                    fits = False
                    break
        if fits:
            if i >= size:
                return i - size
            i = 2 * i
            continue
        while i & 1:
            i >>= 1
        if i == 0:
            return -1
        i += 1


@inlined
def subtract_request(tree: Int64, p: int, request: Int64, sign: int) -> None:
    """Subtract `sign` * `request` from what is free on leaf `p` (sign -1 gives it back)."""
    size = tree.shape[0] // 2
    resources = request.size
    i = size + p
    for r in range(resources):
        tree[i, r] -= sign * request[r]
    update_path(tree, p)


@inlined
def update_path(tree: Int64, p: int) -> None:
    """Compute the amounts above leaf `p` again after the leaf changed."""
    resources = tree.shape[1]
    i = (tree.shape[0] // 2 + p) >> 1
    while i:
        changed = False
        for r in range(resources):
            most = max(tree[2 * i, r], tree[2 * i + 1, r])
            if tree[i, r] != most:
                tree[i, r] = most
                changed = True
        if not changed:
            return
        i >>= 1
