"""The one place that knows whether numba is there.

`kernel` marks a function over arrays and numbers that is compiled where numba is installed (extra
`fast`) and runs as ordinary Python where it is not. Both must give the same bits: kernels use no
fast-math, no parallel loops, and only integer and double arithmetic in a stated order.
Set NUMBA_CACHE_DIR (the service does) so that a second start does not compile again, and
NUMBA_DISABLE_JIT=1 to run them as Python on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

try:
    import numba
except ImportError:  # The plain install: the same source, as Python.
    numba = None

F = TypeVar("F", bound=Callable[..., Any])  # kernels have any signature; it must stay as it was

COMPILED: bool = numba is not None and not numba.config.DISABLE_JIT
"""Whether kernels run as machine code here."""


def kernel(function: F) -> F:
    """Compile `function` where numba is installed, else leave it as it is."""
    if numba is None:
        return function
    compiled: F = numba.njit(cache=True, nogil=True)(function)
    return compiled
