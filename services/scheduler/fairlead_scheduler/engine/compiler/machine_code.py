"""What `decorators.py` calls once kernels are compiled; imports numba.

The entry points, and the small kernels that are inlined into each kernel that calls them. Kernels
that are called through a table are in function_table.py.
"""

# mypy: disable-error-code="no-untyped-call"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding

from fairlead_scheduler.engine.compiler import function_table, signatures
from fairlead_scheduler.engine.compiler.address_types import pack_for_kernels, register
from fairlead_scheduler.engine.compiler.signatures import ONLY_FOR_KERNELS, Function

__all__ = [
    "compile_entry_point",
    "configure",
    "declare_inlined",
    "declare_separate",
    "pack_for_kernels",
    "register",
]

declare_separate = function_table.declare


def configure(folder: Path | None) -> None:
    """Set how numba compiles, and where it keeps what it has compiled."""
    config: Any = numba.config
    config.LOOP_VECTORIZE = 0  # an eighth of the time to compile, and the kernels' loops are short
    # Unrolled, each loop over a few resources would be several times as much code to optimise.
    binding.set_option("numba", "-unroll-runtime=false")
    if folder is not None:
        config.CACHE_DIR = str(folder)


def compile_entry_point(function: Function) -> Any:
    """A function that Python calls."""
    compile_: Any = numba.njit  # its options beginning with _ are not in its annotations
    options = {"nogil": True, "cache": True, "no_cfunc_wrapper": True, "_nrt": False}
    # Left unsaid, a function would be inlined because the first that calls it is.
    return compile_(forceinline=False, **options)(function)


def declare_inlined(function: Function) -> None:
    """Compile this function into each kernel that calls it."""
    compile_: Any = numba.njit
    compiled = compile_(forceinline=True, **ONLY_FOR_KERNELS)(function)

    @functools.cache
    def compile_for(signature: Any) -> Any:
        return compiled.get_compile_result(signature)

    def write_call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        result = compile_for(signature)
        context.add_linking_libs((result.library,))
        return context.call_internal(builder, result.fndesc, signature, values)

    signatures.declare(function, write_call)
