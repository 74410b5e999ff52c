"""How one kernel calls another: with the types that its annotations say.

A kernel that only other kernels call stays a Python function. The types of its calls, and how they
are written, are registered with numba. So each has one version per type of the arrays that it is
given: numbers have the type of their annotation, whether they are constants or were read from an
array of 32 bits. (numba itself compiles a function again for each of these.)
"""

# mypy: disable-error-code="no-untyped-call, untyped-decorator"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, get_type_hints

from numba import types
from numba.extending import lower_builtin, type_callable

Function = Callable[..., Any]
CallWriter = Callable[[Any, Any, Any, Any], Any]
"""Writes a call: of context, builder, signature and values, as for `lower_builtin`."""

ONLY_FOR_KERNELS: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of kernels that Python does not call, and that make no arrays."""
_NUMBERS: Final = {
    int: types.int64,
    float: types.float64,
    bool: types.boolean,
    type(None): types.none,
}
_TUPLES: Final = (types.NamedTuple, types.NamedUniTuple)


def declare(function: Function, write_call: CallWriter) -> None:
    """Let kernels call `function`."""

    @functools.cache
    def find_type(*arguments: Any) -> Any:
        return find_signature(function, arguments)

    vars(find_type)["__signature__"] = inspect.signature(function)
    type_callable(function)(lambda _context: find_type)
    lower_builtin(function, types.VarArg(types.Any))(write_call)


def find_signature(function: Function, arguments: tuple[Any, ...]) -> Any:
    """The signature for arguments of these types. Only the types of arrays are taken as they are:
    numbers, tuples of numbers and the result have those of the annotations, also where no type is
    given."""
    hints = get_type_hints(function)
    result = _type_of(hints.pop("return"))
    given = [*arguments, *[None] * (len(hints) - len(arguments))]
    return result(*[_choose_type(*pair) for pair in zip(hints.values(), given, strict=True)])


def _choose_type(hint: Any, given: Any) -> Any:
    by_annotation = given is None or hint in _NUMBERS or isinstance(given, _TUPLES)
    return _type_of(hint) if by_annotation else types.unliteral(given)


def _type_of(hint: Any) -> Any:
    if hint in _NUMBERS:
        return _NUMBERS[hint]
    assert issubclass(hint, tuple), f"a kernel that kernels call returns no {hint}"
    parts = [_type_of(part) for part in get_type_hints(hint).values()]
    if len(set(parts)) == 1:
        return types.NamedUniTuple(parts[0], len(parts), hint)
    return types.NamedTuple(parts, hint)
