"""Arrays with a row for each job that grow without a pause.

An array that doubles is copied: with two million jobs all columns together take half a second, in
the middle of a fold. So from `LARGE` rows on the addresses of `RESERVED` rows are set aside. That
costs no memory: a page is given when something is first written to it. What is used is the
beginning of that, and growing is taking more of it.
"""

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

LARGE: Final = 1 << 16
"""Below so many rows arrays double; tests and small sites never have more."""
STEP: Final = 1 << 14
"""Rows that large arrays grow by."""
RESERVED: Final = 1 << 24
"""Rows that addresses are set aside for; who has more copies now and then."""

S = TypeVar("S", bound=np.generic)


def grow_array(array: npt.NDArray[S], rows: int, fill: int = 0) -> npt.NDArray[S]:
    """The array with room for so many rows at least; new ones hold `fill`.

    It takes the place of the array given, which shares its memory or is left as it was: only the
    longest may grow again. Arrays of equal size that grow to the same rows stay of equal size.
    """
    if rows <= array.size:
        return array
    size = max(rows, 2 * array.size) if rows <= LARGE else -(-rows // STEP) * STEP
    whole = array if array.base is None else array.base  # numpy's views know the first array only
    if not isinstance(whole, np.ndarray) or whole.size < size:
        whole = _set_aside(size, array.dtype)
        whole[: array.size] = array
    found: npt.NDArray[S] = whole[:size]
    if fill:  # the rest is zero, and not touched to stay so
        found[array.size :] = fill
    return found


def _set_aside(size: int, dtype: np.dtype[S]) -> npt.NDArray[S]:
    """Zeros, many more than `size` where that is large and the system gives addresses freely."""
    if size <= LARGE:
        return np.zeros(size, dtype)
    try:
        return np.zeros(max(RESERVED, 2 * size), dtype)
    except MemoryError:  # addresses count as memory here: a limit, or no overcommit
        return np.zeros(2 * size, dtype)
