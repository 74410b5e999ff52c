"""The one place that knows whether numba is there.

`kernel`, `entry_point`, `separate` and `inlined` mark functions over arrays and numbers that are
compiled where numba is installed (extra `fast`) and run as ordinary Python where it is not. Both
give the same bits: no fast-math, no parallel loops, only integer and double arithmetic in a stated
order.

What is compiled is kept where `kernel_cache` says. NUMBA_DISABLE_JIT=1 runs everything as Python on
purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fairlead_scheduler.kernels import kernel_cache

try:
    import numba
except ImportError:  # The plain install: the same source, as Python.
    numba = None  # type: ignore[assignment]

T = TypeVar("T", bound=type)
F = TypeVar("F", bound=Callable[..., Any])  # kernels have any signature; it must stay as it was

COMPILED: bool = numba is not None and not bool(vars(numba.config)["DISABLE_JIT"])
"""Whether kernels run as machine code here."""


def _keep_compiled() -> None:
    """Tell numba to keep what it compiles in a folder of this version of the sources."""
    config: Any = numba.config
    config.LOOP_VECTORIZE = 0  # an eighth of the time to compile, and the kernels' loops are short
    folder = kernel_cache.folder()
    if folder is not None:
        config.CACHE_DIR = str(folder)


if COMPILED:
    _keep_compiled()


def by_address(tuple_class: T) -> T:
    """Mark a NamedTuple of arrays that kernels share (see address_types.py)."""
    if COMPILED:
        from fairlead_scheduler.engine.compiler import address_types

        address_types.register(tuple_class)
    return tuple_class


def kernel(function: F) -> F:
    """Compile a function that may make arrays; callable from Python."""
    return _compile(function)


def entry_point(function: F) -> F:
    """Compile a function that makes no arrays: those it is given are never counted as in use.

    The counting (an atomic operation per array and use) would cost ten times what a placement
    costs, for the tuples that the kernels of a round share hold dozens of arrays.
    """
    return _compile(function, _nrt=False)


def separate(function: F) -> F:
    """For what only other kernels call, with the model of the round first and then numbers: it is
    compiled once, by itself, and called through a table (see function_table.py)."""
    if not COMPILED:
        return function
    from fairlead_scheduler.engine.compiler import function_table

    declared: F = function_table.declare(function)
    return declared


def load_kernels(model: tuple[Any, ...]) -> None:
    """Make the `separate` kernels ready for this model; needed before any kernel is called."""
    if COMPILED:
        from fairlead_scheduler.engine.compiler import function_table

        function_table.load_kernels(model)


def inlined(function: F) -> F:
    """For what only other kernels call and what is small: it is inlined into each of them."""
    return _compile(
        function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True
    )


def _compile(function: F, **options: bool | str) -> F:
    if not COMPILED:
        return function
    compile_: Any = numba.njit  # its options beginning with _ are not in its annotations
    types: Any = numba.types
    # Left unsaid, a function would be inlined because the first that calls it is.
    options.setdefault("forceinline", False)
    # What is inlined is part of the machine code of what calls it, and kept with that.
    options.setdefault("cache", not options["forceinline"])
    compiled = compile_(nogil=True, **options)(function)
    template = compiled.get_call_template

    def without_literals(args: Any, kws: Any) -> Any:  # numba's own types, which it does not export
        """One version per type of argument: not one more for every constant that is passed, nor for
        a number that was read from an array of 32 bits."""
        plain = [types.unliteral(argument) for argument in args]
        wide = tuple([types.int64 if kind is types.int32 else kind for kind in plain])
        return template(wide, kws)

    compiled.get_call_template = without_literals
    result: F = compiled
    return result
