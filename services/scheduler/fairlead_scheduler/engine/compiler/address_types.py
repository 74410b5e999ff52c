"""Named tuples of arrays that kernels pass on by address.

numba passes a tuple by value: each array in it as some eight numbers. For the tuples of a round
that were a thousand arguments per call, which cost more to compile than all the rest together. A
class given to `register` is written down once per call from Python, as data pointer and shape per
array, and is an address from there on. What is written down never changes while a kernel runs, and
LLVM knows that: what is read from there can stay in a register.

Only `decorators.py` imports this, and only where numba is.
"""

# mypy: disable-error-code="misc, no-untyped-call, override, untyped-decorator"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.np import numpy_support
from numba.np.arrayobj import populate_array

Form = tuple[Any, ...]
"""Per field the type and the number of dimensions of its array, ("", 0) for a whole number, or the
`Shared` of a tuple within the tuple."""

_type_of: dict[type, Callable[[Any], Shared]] = {}


class Shared(types.Type):
    """The address of a named tuple whose arrays have this form."""

    def __init__(self, name: str, fields: tuple[str, ...], form: Form) -> None:
        self.fields = fields
        self.kinds = tuple([_kind(part) for part in form])
        digest = hashlib.sha256(repr((fields, form)).encode()).hexdigest()
        super().__init__(name=f"{name}-{digest[:12]}")


def _kind(part: Any) -> Any:
    if isinstance(part, Shared):
        return part
    kind, ndim = part
    return types.Array(numpy_support.from_dtype(np.dtype(kind)), ndim, "C") if kind else types.int64


def register(tuple_class: Any) -> None:
    """Have kernels take instances of this NamedTuple by address, alone or within another one."""
    known: dict[Form, Shared] = {}

    def type_of(value: Any) -> Shared:
        form = tuple([_form(part) for part in value])
        if form not in known:
            known[form] = Shared(tuple_class.__name__, tuple_class._fields, form)
        return known[form]

    _type_of[tuple_class] = type_of
    typeof_impl.register(tuple_class)(lambda value, _context: type_of(value))


def _form(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        assert part.flags.carray, "arrays that kernels share are contiguous and writeable"
        return part.dtype.char, part.ndim
    of_tuple = _type_of.get(type(part))
    return ("", 0) if of_tuple is None else of_tuple(part)


@register_model(Shared)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Shared) -> None:
        super().__init__(manager, kind, cgutils.voidptr_t)


def _layout(context: Any, kind: Shared) -> Any:
    """What is stored at the address, per field: a number, a data pointer and a shape, or the same
    for the fields of a tuple within the tuple."""
    return ir.LiteralStructType([_part_layout(context, part) for part in kind.kinds])


def _part_layout(context: Any, part: Any) -> Any:
    number = ir.IntType(64)
    if isinstance(part, Shared):
        return _layout(context, part)
    if isinstance(part, types.Array):
        pointer = context.get_data_type(part.dtype).as_pointer()
        return ir.LiteralStructType([pointer, ir.ArrayType(number, part.ndim)])
    return number


@unbox(Shared)
def _write_down(kind: Shared, value: Any, c: Any) -> Any:
    builder = c.builder
    place = cgutils.alloca_once(builder, _layout(c.context, kind))
    failed = cgutils.alloca_once_value(builder, cgutils.false_bit)
    _write_fields(kind, value, place, failed, c)
    return NativeValue(builder.bitcast(place, cgutils.voidptr_t), is_error=builder.load(failed))


def _write_fields(kind: Shared, value: Any, place: Any, failed: Any, c: Any) -> None:
    builder = c.builder
    for i, part in enumerate(kind.kinds):
        item = c.pyapi.tuple_getitem(value, i)
        if isinstance(part, Shared):
            _write_fields(part, item, cgutils.gep_inbounds(builder, place, 0, i), failed, c)
            continue
        native = c.unbox(part, item)
        with builder.if_then(native.is_error, likely=False):
            builder.store(cgutils.true_bit, failed)
        if isinstance(part, types.Array):
            array = c.context.make_array(part)(c.context, builder, native.value)
            builder.store(array.data, cgutils.gep_inbounds(builder, place, 0, i, 0))
            builder.store(array.shape, cgutils.gep_inbounds(builder, place, 0, i, 1))
            if c.context.enable_nrt:  # unboxing counts a use, which nobody else would end
                with builder.if_then(builder.not_(native.is_error)):
                    c.context.nrt.decref(builder, part, native.value)
        else:
            builder.store(native.value, cgutils.gep_inbounds(builder, place, 0, i))


@infer_getattr
class _Fields(AttributeTemplate):
    key = Shared

    def generic_resolve(self, kind: Shared, name: str) -> Any:
        return kind.kinds[kind.fields.index(name)] if name in kind.fields else None


@lower_getattr_generic(Shared)
def _field(context: Any, builder: Any, kind: Shared, address: Any, name: str) -> Any:
    i = kind.fields.index(name)
    part = kind.kinds[i]
    place = builder.bitcast(address, _layout(context, kind).as_pointer())
    if isinstance(part, Shared):
        return builder.bitcast(cgutils.gep_inbounds(builder, place, 0, i), cgutils.voidptr_t)

    def read(*at: int) -> Any:
        loaded = builder.load(cgutils.gep_inbounds(builder, place, 0, i, *at))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if not isinstance(part, types.Array):
        return read()
    itemsize = context.get_abi_sizeof(context.get_data_type(part.dtype))
    shape = [read(1, axis) for axis in range(part.ndim)]
    strides = [ir.Constant(ir.IntType(64), itemsize)]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(part)(context, builder)
    populate_array(array, read(0), shape, strides, itemsize, None)
    return array._getvalue()
