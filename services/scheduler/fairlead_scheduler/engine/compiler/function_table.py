"""Kernels that are compiled once each, and call each other through a table of addresses.

numba copies what a function calls into it and optimises all of that again, at each level of a
chain of calls. A kernel declared here is compiled by itself, with the signature of its annotations
(`numba.cfunc`). A kernel that calls it sees an address in a table and nothing of its code. So a
change of one costs one, and everything is optimised once.

The table has an entry per kernel and type of the model. Entries have an address from the start, and
are filled by `load_kernels`, which must come before the first kernel is called: what was compiled
earlier is read from the disk and calls through the table without asking.
"""

# mypy: disable-error-code="no-untyped-call, untyped-decorator"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from typing import Any, Final, get_type_hints

import numba
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

Function = Callable[..., Any]

_NUMBERS: Final = {
    int: types.int64,
    float: types.float64,
    bool: types.boolean,
    type(None): types.none,
}

_functions: list[Function] = []
"""Every declared kernel, in the order of declaration."""
_entries: dict[str, ctypes.c_void_p] = {}
"""The table: the address of each kernel's machine code, by the symbol of the entry."""
_compiled: list[Any] = []
"""What owns the machine code."""
_loaded: dict[Any, int] = {}
"""How many of `_functions` are in the table, by the type of the model."""


def declare(function: Function) -> Any:
    """What kernels call in place of `function`, whose first parameter is the model."""
    _functions.append(function)

    def find_type(typing_context: Any, *arguments: Any) -> Any:
        symbol = _symbol(function, arguments[0])
        return _signature(
            function, arguments[0]
        ), lambda context, builder, signature, values: _call_entry(
            context, builder, signature, values, symbol
        )

    parameters = list(inspect.signature(find_type).parameters.values())[:1]
    parameters += inspect.signature(function).parameters.values()
    vars(find_type)["__signature__"] = inspect.Signature(parameters)
    find_type.__name__ = function.__name__
    return intrinsic(find_type)


def load_kernels(model: Any) -> None:
    """Compile every declared kernel for models of this type, or read what was compiled earlier."""
    kind = numba.typeof(model)
    if _loaded.get(kind) == len(_functions):
        return
    declared = list(_functions)
    missing = declared[_loaded.get(kind, 0) :]
    for function in missing:
        entry = _entries.setdefault(_symbol(function, kind), ctypes.c_void_p())
        binding.add_symbol(_symbol(function, kind), ctypes.addressof(entry))
    for function in missing:
        compile_: Any = numba.cfunc
        compiled = compile_(_signature(function, kind), cache=True, _nrt=False)(function)
        _compiled.append(compiled)
        _entries[_symbol(function, kind)].value = compiled.address
    _loaded[kind] = len(declared)


def _symbol(function: Function, kind: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}:{kind}"


def _signature(function: Function, kind: Any) -> Any:
    hints = list(get_type_hints(function).values())
    result = types.none if hints[-1] is None else _type_of(hints[-1])
    return result(kind, *[_type_of(hint) for hint in hints[1:-1]])


def _type_of(hint: Any) -> Any:
    if hint in _NUMBERS:
        return _NUMBERS[hint]
    assert issubclass(hint, tuple), f"a kernel in the table takes and returns no {hint}"
    parts = [_type_of(part) for part in get_type_hints(hint).values()]
    if len(set(parts)) == 1:
        return types.NamedUniTuple(parts[0], len(parts), hint)
    return types.NamedTuple(parts, hint)


def _call_entry(context: Any, builder: Any, signature: Any, values: Any, symbol: str) -> Any:
    form = ir.FunctionType(
        context.get_value_type(signature.return_type),
        [context.get_value_type(kind) for kind in signature.args],
    )
    entry = builder.module.globals.get(symbol)
    if entry is None:
        entry = ir.GlobalVariable(builder.module, form.as_pointer(), symbol)
    address = builder.load(entry)
    address.set_metadata("invariant.load", builder.module.add_metadata([]))
    return builder.call(address, values)
