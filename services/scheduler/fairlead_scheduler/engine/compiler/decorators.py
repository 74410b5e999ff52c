"""The one place that knows whether numba is there.

`entry_point`, `separate` and `inlined` mark functions over arrays and numbers that are compiled
where numba is installed (extra `fast`) and run as ordinary Python where it is not. Both give the
same bits: no fast-math, no parallel loops, only integer and double arithmetic in a stated order.

What is compiled is kept where `kernel_cache` says. NUMBA_DISABLE_JIT=1 runs everything as Python on
purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from fairlead_scheduler.kernels import kernel_cache

try:
    import numba
    from llvmlite import binding
except ImportError:  # The plain install: the same source, as Python.
    numba = None  # type: ignore[assignment]

C = TypeVar("C", bound=type)
T = TypeVar("T", bound=tuple[Any, ...])
F = TypeVar("F", bound=Callable[..., Any])  # kernels have any signature; it must stay as it was

_NOTHING_KNOWN: Final[Mapping[str, Any]] = MappingProxyType({})
_ONLY_FOR_KERNELS: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of kernels that Python does not call, and that make no arrays."""

COMPILED: bool = numba is not None and not bool(vars(numba.config)["DISABLE_JIT"])
"""Whether kernels run as machine code here."""


def _keep_compiled() -> None:
    """Tell numba to keep what it compiles in a folder of this version of the sources."""
    config: Any = numba.config
    config.LOOP_VECTORIZE = 0  # an eighth of the time to compile, and the kernels' loops are short
    # Unrolled, each loop over a few resources would be several times as much code to optimise.
    binding.set_option("numba", "-unroll-runtime=false")
    folder = kernel_cache.folder()
    if folder is not None:
        config.CACHE_DIR = str(folder)


if COMPILED:
    _keep_compiled()


def by_address(tuple_class: C) -> C:
    """Mark a NamedTuple of arrays that kernels share (see address_types.py)."""
    if COMPILED:
        from fairlead_scheduler.engine.compiler import address_types

        address_types.register(tuple_class)
    return tuple_class


def pack_for_kernels(value: T, known: Mapping[str, Any] = _NOTHING_KNOWN) -> T:
    """A tuple that is passed by address, packed for many calls of kernels: each call would pack it
    again.

    `known`: by field, earlier results for tuples that the value possibly still contains.
    """
    if not COMPILED:
        return value
    from fairlead_scheduler.engine.compiler import address_types

    packed: Any = address_types.pack_for_kernels(
        value, known
    )  # kernels cannot tell it from the tuple
    result: T = packed
    return result


def repack(value: T, before: T) -> T:
    """`pack_for_kernels`; only the fields that are other objects than in the packed tuple `before`
    are packed."""
    if not COMPILED:
        return value
    packed: Any = before
    result: T = packed.repack(value)
    return result


class Repacked(Generic[T]):
    """Packs one tuple of a class after the other, each time only what changed."""

    def __init__(self) -> None:
        self._packed: T | None = None

    def pack(self, value: T) -> T:
        """The tuple packed for kernels."""
        before = self._packed
        self._packed = pack_for_kernels(value) if before is None else repack(value, before)
        return self._packed


def entry_point(function: F) -> F:
    """Compile a function that Python calls. It makes no arrays, but writes to those it is given:
    they are never counted as in use, which would cost more than what is done with them."""
    if not COMPILED:
        return function
    compile_: Any = numba.njit  # its options beginning with _ are not in its annotations
    options = {"nogil": True, "cache": True, "no_cfunc_wrapper": True, "_nrt": False}
    # Left unsaid, a function would be inlined because the first that calls it is.
    compiled: F = compile_(forceinline=False, **options)(function)
    return compiled


def separate(function: F) -> F:
    """For what only other kernels call, with the model of the round first and then numbers: it is
    compiled once, by itself, and called through a table (see function_table.py)."""
    if not COMPILED:
        return function
    from fairlead_scheduler.engine.compiler import function_table

    declared: F = function_table.declare(function, **_ONLY_FOR_KERNELS)
    return declared


def load_kernels(model: tuple[Any, ...]) -> None:
    """Make the `separate` kernels ready for this model; needed before any kernel is called."""
    if COMPILED:
        from fairlead_scheduler.engine.compiler import function_table

        function_table.load_kernels(model)


def inlined(function: F) -> F:
    """For what only other kernels call and what is small: it is inlined into each of them."""
    if not COMPILED:
        return function
    from fairlead_scheduler.engine.compiler import inlining

    declared: F = inlining.declare(function, **_ONLY_FOR_KERNELS)
    return declared
