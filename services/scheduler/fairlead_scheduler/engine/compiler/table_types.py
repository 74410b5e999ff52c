"""The types by which kernels read packed tables (address_types.py says how they are packed).

A table is the address of its words. An array in a table, or a part of it, is the address of its
data and the address of the words with its shape. Such an array can be indexed, whole or in part,
and has `size` and `shape`; nothing else. Negative indexes do not count from the end. Bounds are
checked if NUMBA_BOUNDSCHECK=1 is set, as in arrays of numba.

The types are made with `numba.extending`, numba's interface for types of one's own.
"""

# mypy: disable-error-code="misc, no-untyped-call, override, untyped-decorator"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr,
    lower_getattr_generic,
    models,
    register_model,
    type_callable,
)

_WORD: Final = ir.IntType(64)
_NARROW: Final = (types.uint8, types.int8, types.int32)
_DATA: Final = 0
_SHAPE: Final = 1
"""The members of an array."""


class TableType(types.Type):
    """The address of the words of a table."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        """`fields`: their types, in the order of their words."""
        self.fields = fields
        self.places = dict[str, int]()
        """Of each field, in words."""
        self.words = 0
        for field, kind in fields.items():
            self.places[field] = self.words
            self.words += _count_words(kind)
        super().__init__(name=name)


class TableArray(types.Type):
    """An array in a table, or a part of one. A whole number that is read from it has 64 bits, as in
    annotations, so that what it is passed to is compiled once."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim
        self.item = types.intp if dtype in _NARROW else dtype
        super().__init__(name=f"TableArray({dtype}, {ndim})")


def _count_words(kind: Any) -> int:
    if isinstance(kind, TableType):
        return kind.words
    return 1 + kind.ndim if isinstance(kind, TableArray) else 1


@register_model(TableType)
class _TableModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: TableType) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


@register_model(TableArray)
class _ArrayModel(models.StructModel):
    def __init__(self, manager: Any, kind: TableArray) -> None:
        members = [("data", types.CPointer(kind.dtype)), ("shape", types.CPointer(types.intp))]
        super().__init__(manager, kind, members)


@infer_getattr
class _Fields(AttributeTemplate):
    key = TableType

    def generic_resolve(self, table: TableType, name: str) -> Any:
        return table.fields.get(name)


@lower_getattr_generic(TableType)
def _read_field(context: Any, builder: Any, table: TableType, address: Any, name: str) -> Any:
    kind, place = table.fields[name], _add_words(builder, address, table.places[name])
    if isinstance(kind, TableType):
        return place
    if not isinstance(kind, TableArray):
        return _read_constant(builder, place)
    pointer = context.get_value_type(types.CPointer(kind.dtype))
    data = _read_constant(builder, builder.bitcast(place, pointer.as_pointer()))
    return _make_array(context, builder, kind, data, _add_words(builder, place, 1))


@infer_getattr
class _ArrayFields(AttributeTemplate):
    key = TableArray

    def resolve_size(self, _kind: TableArray) -> Any:
        return types.intp

    def resolve_shape(self, kind: TableArray) -> Any:
        return types.UniTuple(types.intp, kind.ndim)


@lower_getattr(TableArray, "size")
def _read_size(_context: Any, builder: Any, kind: TableArray, value: Any) -> Any:
    size, *more = _read_shape(builder, kind, value)
    for axis in more:
        size = builder.mul(size, axis)
    return size


@lower_getattr(TableArray, "shape")
def _read_shape_tuple(_context: Any, builder: Any, kind: TableArray, value: Any) -> Any:
    return cgutils.pack_array(builder, _read_shape(builder, kind, value))


@type_callable(operator.getitem)
def _type_getitem(_context: Any) -> Callable[[Any, Any], Any]:
    def find_type(array: Any, index: Any) -> Any:
        wide = _find_index_type(array, index)
        if wide is None:
            return None
        left = array.ndim - _count_numbers(wide)
        return (TableArray(array.dtype, left) if left else array.item)(array, wide)

    return find_type


@type_callable(operator.setitem)
def _type_setitem(_context: Any) -> Callable[[Any, Any, Any], Any]:
    def find_type(array: Any, index: Any, _value: Any) -> Any:
        wide = _find_index_type(array, index)
        if wide is None or array.ndim != _count_numbers(wide):
            return None
        return types.none(array, wide, array.dtype)

    return find_type


def _find_index_type(array: Any, index: Any) -> Any:
    """The type that an index of an array is converted to; None for any other index."""
    if isinstance(array, TableArray):
        if isinstance(index, types.Integer):
            return types.intp
        several: Any = types.BaseTuple  # its attributes are not in its annotations
        if isinstance(index, several):
            numbers = list(index.types)
            if all(isinstance(number, types.Integer) for number in numbers):
                return types.UniTuple(types.intp, len(numbers))
    return None


def _count_numbers(index: Any) -> int:
    return int(index.count) if isinstance(index, types.UniTuple) else 1


@lower_builtin(operator.getitem, TableArray, types.Any)
def _get_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index = sig.args
    place = _find_item(context, builder, kind, args[0], index, args[1])
    if not isinstance(sig.return_type, TableArray):
        number = context.unpack_value(builder, kind.dtype, place)
        return context.cast(builder, number, kind.dtype, kind.item)
    shape = builder.extract_value(args[0], _SHAPE)
    rest = _add_words(builder, shape, _count_numbers(index))
    return _make_array(context, builder, sig.return_type, place, rest)


@lower_builtin(operator.setitem, TableArray, types.Any, types.Any)
def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index, _value = sig.args
    place = _find_item(context, builder, kind, args[0], index, args[1])
    context.pack_value(builder, kind.dtype, args[2], place)
    return context.get_dummy_value()


def _find_item(
    context: Any, builder: Any, kind: TableArray, array: Any, index: Any, value: Any
) -> Any:
    """The address of an item, or of the part that begins there."""
    numbers = [value]
    if isinstance(index, types.UniTuple):
        numbers = cgutils.unpack_tuple(builder, value, index.count)
    if config.BOUNDSCHECK:  # type: ignore[attr-defined]
        _check_bounds(context, builder, numbers, _read_shape(builder, kind, array))
    offset = numbers[0]
    for axis, size in enumerate(_read_shape(builder, kind, array, 1), 1):
        offset = builder.mul(offset, size)
        if axis < len(numbers):
            offset = builder.add(offset, numbers[axis])
    return builder.gep(builder.extract_value(array, _DATA), [offset], inbounds=True)


def _check_bounds(context: Any, builder: Any, numbers: list[Any], shape: list[Any]) -> None:
    for number, size in zip(numbers, shape, strict=False):
        outside = builder.icmp_unsigned(">=", number, size)  # below zero is huge without its sign
        with builder.if_then(outside, likely=False):
            message = f"index out of bounds of an array of {len(shape)} dimensions"
            context.call_conv.return_user_exc(builder, IndexError, (message,))


def _make_array(context: Any, builder: Any, kind: TableArray, data: Any, shape: Any) -> Any:
    array = ir.Constant(context.get_value_type(kind), ir.Undefined)
    return builder.insert_value(builder.insert_value(array, data, _DATA), shape, _SHAPE)


def _read_shape(builder: Any, kind: TableArray, array: Any, first: int = 0) -> list[Any]:
    shape = builder.extract_value(array, _SHAPE)
    return [
        _read_constant(builder, _add_words(builder, shape, axis))
        for axis in range(first, kind.ndim)
    ]


def _add_words(builder: Any, address: Any, words: int) -> Any:
    return builder.gep(address, [ir.Constant(_WORD, words)], inbounds=True) if words else address


def _read_constant(builder: Any, address: Any) -> Any:
    """Read what never changes while a kernel runs."""
    loaded = builder.load(address)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded
