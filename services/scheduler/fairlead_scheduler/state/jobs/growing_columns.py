"""Columns of the job table, which grow without a pause.

Doubling an array copies it: with two million jobs, copying all columns takes half a second in the
middle of a fold. So an array of `LARGE` rows or more reserves addresses for `RESERVED` rows. The
system assigns a page of memory when it is first written to, so the reservation costs nothing, and
growing means using more of it.
"""

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

LARGE: Final = 1 << 16
"""Arrays below this number of rows double; tests and small installations stay below it."""
STEP: Final = 1 << 14
"""Rows that large arrays grow by."""
RESERVED: Final = 1 << 24
"""Rows whose addresses are reserved; a larger array is copied when it grows."""

S = TypeVar("S", bound=np.generic)


def grow_array(array: npt.NDArray[S], rows: int, fill: int = 0) -> npt.NDArray[S]:
    """Return the array with at least this many rows; new rows hold `fill`.

    The result replaces the given array and can share its memory: only the longest of both is
    allowed to grow again. Arrays of equal size that grow to the same number of rows have equal
    sizes afterwards.
    """
    if rows <= array.size:
        return array
    size = max(rows, 2 * array.size) if rows <= LARGE else -(-rows // STEP) * STEP
    whole = array if array.base is None else array.base  # numpy's views know the first array only
    if not isinstance(whole, np.ndarray) or whole.size < size:
        whole = _reserve(size, array.dtype)
        whole[: array.size] = array
    found: npt.NDArray[S] = whole[:size]
    if fill:  # new rows are zero already
        found[array.size :] = fill
    return found


def _reserve(size: int, dtype: np.dtype[S]) -> npt.NDArray[S]:
    """Zeros: `size` of them; if that is large, many more, as far as the system reserves
    addresses."""
    if size <= LARGE:
        return np.zeros(size, dtype)
    try:
        return np.zeros(max(RESERVED, 2 * size), dtype)
    except MemoryError:  # addresses count as memory here: a limit, or no overcommit
        return np.zeros(2 * size, dtype)
