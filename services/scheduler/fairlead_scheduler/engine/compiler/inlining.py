"""Small kernels that are inlined into each kernel that calls them."""

# mypy: disable-error-code="no-untyped-call"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

from typing import Any

import numba

from fairlead_scheduler.engine.compiler import signatures
from fairlead_scheduler.engine.compiler.signatures import CallWriter, Function


def declare(function: Function, **options: bool) -> Any:
    """What kernels call in place of `function`, compiled with these options of numba."""
    compile_: Any = numba.njit  # its options beginning with _ are not in its annotations
    compiled = compile_(forceinline=True, **options)(function)

    def prepare(signature: Any) -> CallWriter:
        result = compiled.get_compile_result(signature)

        def write_call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            context.add_linking_libs((result.library,))
            return context.call_internal(builder, result.fndesc, signature, values)

        return write_call

    return signatures.declare(function, prepare)
