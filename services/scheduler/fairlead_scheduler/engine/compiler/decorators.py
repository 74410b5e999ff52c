"""Marks for functions over arrays and numbers that are compiled, and the switch to machine code.

`entry_point`, `separate` and `inlined` mark kernels. They are ordinary Python functions, and stay
that under their names. After `use_machine_code` has been called, what Python calls through an
entry point is compiled; before, and where numba is not installed (extra `fast`), it is the Python
function. Both give the same bits: no fast-math, no parallel loops, only integer and double
arithmetic in a stated order. Only `use_machine_code` imports numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, Generic, ParamSpec, TypeVar

C = TypeVar("C", bound=type)
T = TypeVar("T", bound=tuple[Any, ...])
F = TypeVar("F", bound=Callable[..., Any])  # kernels have any signature; it must stay as it was
P = ParamSpec("P")
R = TypeVar("R")

_NOTHING_KNOWN: Final[Mapping[str, Any]] = MappingProxyType({})
_declarations: Final[list[Callable[[ModuleType], None]]] = []
"""What registers tuples and kernels with the compiler, in the order of declaration."""
_compiler: ModuleType | None = None
"""machine_code.py, once it is used."""


def use_machine_code(folder: Path | None) -> None:
    """From now on entry points are compiled when they are first called.

    What is compiled is read from `folder` and stored there. No kernel is allowed to run meanwhile.
    """
    global _compiler
    if _compiler is not None:
        return
    from fairlead_scheduler.engine.compiler import machine_code

    machine_code.configure(folder)
    for declare in _declarations:
        declare(machine_code)
    _declarations.clear()
    _compiler = machine_code


def is_compiled() -> bool:
    """Whether kernels run as machine code."""
    return _compiler is not None


def _declare(declare: Callable[[ModuleType], None]) -> None:
    if _compiler is None:
        _declarations.append(declare)
    else:
        declare(_compiler)


def by_address(tuple_class: C) -> C:
    """Mark a NamedTuple of arrays that kernels share (see address_types.py)."""
    _declare(lambda compiler: compiler.register(tuple_class))
    return tuple_class


def pack_for_kernels(value: T, known: Mapping[str, Any] = _NOTHING_KNOWN) -> T:
    """A tuple that is passed by address, packed for many calls of kernels: each call would pack it
    again. What is retained must be packed again when `is_compiled` has changed.

    `known`: by field, earlier results for tuples that the value possibly still contains.
    """
    if _compiler is None:
        return value
    result: T = _compiler.pack_for_kernels(value, known)  # kernels cannot tell it from the tuple
    return result


def repack(value: T, before: T) -> T:
    """`pack_for_kernels`; only the fields that are other objects than in the packed tuple `before`
    are packed."""
    if _compiler is None:
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


class EntryPoint(Generic[P, R]):
    """A kernel that Python calls."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.run = function
        """The function, or what it was compiled to."""
        self.__doc__ = function.__doc__
        _declare(self._compile)

    def _compile(self, compiler: ModuleType) -> None:
        self.run = compiler.compile_entry_point(self.run)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self.run(*arguments, **named)


def entry_point(function: Callable[P, R]) -> EntryPoint[P, R]:
    """Compile a function that Python calls. It makes no arrays, but writes to those it is given:
    they are never counted as in use, which would cost more than what is done with them."""
    return EntryPoint(function)


def separate(function: F) -> F:
    """For what only other kernels call, with the model of the round first and then numbers: it is
    compiled once, by itself, and called through a table (see function_table.py)."""
    _declare(lambda compiler: compiler.declare_separate(function))
    return function


def inlined(function: F) -> F:
    """For what only other kernels call and what is small: it is inlined into each of them."""
    _declare(lambda compiler: compiler.declare_inlined(function))
    return function
