"""Kernels that are compiled once each, and call each other through a table of addresses.

numba copies what a function calls into it and optimises all of that again, at each level of a
chain of calls. A kernel declared here is compiled by itself, with the signature of its annotations.
A kernel that calls it sees an address in a table and nothing of its code. So a change of one costs
one, and everything is optimised once. The call is one of numba's own, so an error in the kernel is
raised in its caller.

The table has an entry per kernel and type of the model. They are filled when a tuple of that type
is packed for the first time, which is before the first kernel for it is called: what was compiled
earlier is read from the disk and calls through the table without asking.
"""

# mypy: disable-error-code="no-untyped-call"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

import ctypes
from typing import Any, get_type_hints

import numba
from llvmlite import binding, ir
from numba.core import cgutils

from fairlead_scheduler.engine.compiler import signatures
from fairlead_scheduler.engine.compiler.signatures import (
    ONLY_FOR_KERNELS,
    Function,
    find_signature,
)

_functions: dict[Any, list[Function]] = {}
"""The declared kernels by the class of their model, in the order of declaration."""
_loaded: set[Any] = set()
"""The classes of models for whose types kernels were loaded."""
_compiled: list[Any] = []
"""What owns the machine code."""


def declare(function: Function) -> None:
    """Compile this function, whose first parameter is the model and whose others are numbers, for
    calls through the table."""
    model_class = next(iter(get_type_hints(function).values()))
    assert model_class not in _loaded, f"{function.__qualname__} is declared too late"
    _functions.setdefault(model_class, []).append(function)

    def write_call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        symbol = _symbol(function, signature.args[0])
        return _call_entry(context, builder, signature, values, symbol)

    signatures.declare(function, write_call)


def load_kernels(model_class: Any, kind: Any) -> None:
    """Compile every kernel that is declared for models of this class, or read what was compiled
    earlier, for the type `kind`."""
    _loaded.add(model_class)
    entries = {function: ctypes.c_void_p() for function in _functions.get(model_class, ())}
    for function, entry in entries.items():
        binding.add_symbol(_symbol(function, kind), ctypes.addressof(entry))
    for function, entry in entries.items():
        compile_: Any = numba.njit  # its options beginning with _ are not in its annotations
        compiled = compile_(forceinline=False, cache=True, **ONLY_FOR_KERNELS)(function)
        result = compiled.get_compile_result(find_signature(function, (kind,)))
        name = result.fndesc.llvm_func_name
        entry.value = result.library.get_pointer_to_function(name)
        _compiled.append((compiled, entry))


def _symbol(function: Function, kind: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}:{kind}"


def _call_entry(context: Any, builder: Any, signature: Any, values: Any, symbol: str) -> Any:
    convention = context.call_conv
    form = convention.get_function_type(signature.return_type, signature.args)
    entry = builder.module.globals.get(symbol)
    if entry is None:
        entry = ir.GlobalVariable(builder.module, form.as_pointer(), symbol)
    address = builder.load(entry)
    address.set_metadata("invariant.load", builder.module.add_metadata([]))
    status, result = convention.call_function(
        builder, address, signature.return_type, signature.args, values
    )
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return result
