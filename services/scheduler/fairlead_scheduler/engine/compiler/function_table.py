"""Kernels that are compiled once each, and call each other through a table of addresses.

numba copies what a function calls into it and optimises all of that again, at each level of a
chain of calls. A kernel declared here is compiled by itself, with the signature of its annotations.
A kernel that calls it sees an address in a table and nothing of its code. So a change of one costs
one, and everything is optimised once. The call is one of numba's own, so an error in the kernel is
raised in its caller.

The table has an entry per kernel and type of the model. Entries have an address from the start, and
are filled by `load_kernels`, which must come before the first kernel is called: what was compiled
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

from fairlead_scheduler.engine.compiler import address_types, signatures
from fairlead_scheduler.engine.compiler.signatures import CallWriter, Function, find_signature

_functions: list[tuple[Function, dict[str, bool]]] = []
"""Every declared kernel with its options, in the order of declaration."""
_entries: dict[str, ctypes.c_void_p] = {}
"""The table: the address of each kernel's machine code, by the symbol of the entry."""
_compiled: list[Any] = []
"""What owns the machine code."""
_loaded: dict[Any, int] = {}
"""How many of `_functions` are in the table, by the type of the model."""


def declare(function: Function, **options: bool) -> Any:
    """What kernels call in place of `function`, whose first parameter is the model and whose others
    are numbers, compiled with these options of numba."""
    _functions.append((function, options))

    def prepare(signature: Any) -> CallWriter:
        symbol = _symbol(function, signature.args[0])
        return lambda context, builder, signature, values: _call_entry(
            context, builder, signature, values, symbol
        )

    return signatures.declare(function, prepare)


def load_kernels(model: Any) -> None:
    """Compile every kernel that is declared for models of this class, or read what was compiled
    earlier. The model can be packed already."""
    packed = address_types.pack_for_kernels(model)
    kind = packed.kind
    if _loaded.get(kind) == len(_functions):
        return
    new = _functions[_loaded.get(kind, 0) :]
    _loaded[kind] = len(_functions)
    missing = [each for each in new if _model_class(each[0]) is packed.tuple_class]
    for function, _ in missing:
        entry = _entries.setdefault(_symbol(function, kind), ctypes.c_void_p())
        binding.add_symbol(_symbol(function, kind), ctypes.addressof(entry))
    for function, options in missing:
        signature = find_signature(function, (kind,))
        compile_: Any = numba.njit  # its options beginning with _ are not in its annotations
        compiled = compile_(forceinline=False, cache=True, **options)(function)
        result = compiled.get_compile_result(signature)
        _compiled.append(compiled)
        _entries[_symbol(function, kind)].value = result.library.get_pointer_to_function(
            result.fndesc.llvm_func_name
        )


def _model_class(function: Function) -> Any:
    return next(iter(get_type_hints(function).values()))


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
