"""Named tuples of arrays that kernels pass on by address.

numba passes a tuple by value, and each array in it as about eight numbers. With the tuples of a
round, a call had a thousand arguments, which cost more to compile than everything else together. An
instance of a class given to `register` is packed by Python (`pack_for_kernels`) when Python calls a
kernel, and kernels pass on its address. The packed words never change while a kernel runs, and LLVM
knows that: it can keep in registers what it reads from them.

The packed words have 64 bits. They are, field by field: a whole number; the address of the data of
an array, and its shape; the words of a tuple within the tuple. In kernels such an array can be
indexed, whole or in part, and has `size` and `shape`; nothing else. Negative indexes do not count
from the end. Bounds are checked if NUMBA_BOUNDSCHECK=1 is set, as in arrays of numba.

Only `decorators.py` imports this, and only where numba is.
"""

# mypy: disable-error-code="misc, no-untyped-call, override, untyped-decorator"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

import ctypes
import functools
import hashlib
import operator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.core.imputils import lower_builtin, lower_getattr, lower_getattr_generic
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.np import numpy_support
from numba.np.arrayobj import populate_array

Form = tuple[tuple[str, int], ...]
"""Per field the type and the number of dimensions of its array, ("", 0) for a whole number; the
name of its `Shared` and -1 for a tuple within the tuple."""

_WORD: Final = ir.IntType(64)
_NARROW: Final = (types.uint8, types.int8, types.int32)

_CONTIGUOUS: Final = "arrays that kernels share are contiguous and writeable"
_WITHIN: Final = -1
_ADDRESS: Final = "address"
"""The attribute of `PackedTuple` with the address of its words."""
_kinds: dict[type, dict[Form, Shared]] = {}
"""By the class of the tuple and its form."""
_by_name: dict[str, Shared] = {}


class Shared(types.Type):
    """The address of a named tuple whose arrays have this form."""

    def __init__(self, name: str, fields: tuple[str, ...], form: Form) -> None:
        self.kinds = dict(zip(fields, [_kind(part) for part in form], strict=True))
        self.place = dict[str, int]()  # of each field, in words
        self.words = 0
        for field, kind in self.kinds.items():
            self.place[field] = self.words
            self.words += _count_words(kind)
        digest = hashlib.sha256(repr((fields, form)).encode()).hexdigest()
        super().__init__(name=f"{name}-{digest[:12]}")


class SharedArray(types.Type):
    """The address of the words of an array. A whole number that is read from it has 64 bits, as in
    annotations, so that what it is passed to is compiled once."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.item = types.intp if array.dtype in _NARROW else array.dtype
        super().__init__(name=f"Shared{array}")


def _kind(part: tuple[str, int]) -> Any:
    kind, ndim = part
    if ndim == _WITHIN:
        return _by_name[kind]
    if not kind:
        return types.int64
    return SharedArray(types.Array(numpy_support.from_dtype(np.dtype(kind)), ndim, "C"))


def _count_words(kind: Any) -> int:
    if isinstance(kind, Shared):
        return kind.words
    return 1 + int(kind.array.ndim) if isinstance(kind, SharedArray) else 1


def register(tuple_class: Any) -> None:
    """Pass instances of this NamedTuple to kernels by address, alone or within another one."""
    _kinds[tuple_class] = {}
    typeof_impl.register(tuple_class)(lambda value, _context: Words(value, {}).kind)


class Words:
    """The words of a tuple, for a later tuple that contains it."""

    def __init__(self, value: Any, known: Mapping[str, Words]) -> None:
        self.value = value
        self.parts: dict[str, Words] = {}
        """By field, the tuples within it."""
        self.kind, self.words = _write(value, known, self.parts)

    def replace(self, value: Any) -> Words:
        """The words of another tuple of this class; only the fields that are other objects than
        here are written again."""
        parts = dict(self.parts)
        changes = self._find_changes(value, parts)
        if changes is None:
            return Words(value, parts)
        made = Words.__new__(Words)
        made.value, made.kind, made.parts = value, self.kind, parts
        made.words = self.words.copy()
        for place, replaced in changes:
            made.words[place : place + len(replaced)] = replaced
        return made

    def _find_changes(
        self, value: Any, parts: dict[str, Words]
    ) -> list[tuple[int, list[int]]] | None:
        """Where which words of the other tuple differ; None if its type is another one. Tuples
        within it are replaced in `parts`."""
        changes: list[tuple[int, list[int]]] = []
        for field, part, before in zip(value._fields, value, self.value, strict=True):
            if part is before:
                continue
            if isinstance(part, np.ndarray):
                if part.dtype != before.dtype or part.ndim != before.ndim:
                    return None
                assert part.flags.carray, _CONTIGUOUS
                words = [_find_address(part), *part.shape]
            elif type(part) in _kinds:
                within = parts[field] = self.parts[field].replace(part)
                if within.kind is not self.kind.kinds[field]:
                    return None
                words = within.words
            else:
                words = [part]
            changes.append((self.kind.place[field], words))
        return changes


class PackedTuple(Words):
    """The words of a tuple; kernels accept it instead of the tuple."""

    def __init__(self, value: Any, known: Mapping[str, Words]) -> None:
        super().__init__(value, known)
        self.tuple_class = type(value)
        self._set_packed(np.array(self.words, np.int64))

    def _set_packed(self, packed: Any) -> None:
        self._packed = packed
        self.address = _find_address(packed)
        self._numba_type_ = self.kind
        """By this attribute numba knows the type of an object without asking Python."""

    @functools.cached_property
    def words(self) -> list[int]:
        """As in `Words`; most repacked tuples are in no later tuple."""
        words: list[int] = self._packed.tolist()
        return words

    def repack(self, value: Any) -> PackedTuple:
        """Another tuple of this class packed: only the fields that are other objects than here."""
        parts = dict(self.parts)
        changes = self._find_changes(value, parts)
        if changes is None:
            return PackedTuple(value, parts)
        if not changes:
            return self
        packed = self._packed.copy()
        for place, replaced in changes:
            packed[place : place + len(replaced)] = replaced
        made = PackedTuple.__new__(PackedTuple)
        made.value, made.tuple_class, made.kind, made.parts = value, type(value), self.kind, parts
        made._set_packed(packed)
        return made


@typeof_impl.register(PackedTuple)
def _type_of_packed(packed: PackedTuple, _context: Any) -> Shared:
    return packed.kind


_NOTHING_KNOWN: Final[Mapping[str, Words]] = MappingProxyType({})


def pack_for_kernels(value: Any, known: Mapping[str, Words] = _NOTHING_KNOWN) -> PackedTuple:
    """The tuple packed; the value itself if it is packed already.

    `known`: by field, packed tuples that are used where the value contains the same object.
    """
    return value if isinstance(value, PackedTuple) else PackedTuple(value, known)


def _write(
    value: Any, known: Mapping[str, Words], parts: dict[str, Words]
) -> tuple[Shared, list[int]]:
    """The type of a tuple, and its words. The tuples within it are added to `parts`."""
    form: list[tuple[str, int]] = []
    words: list[int] = []
    for field, part in zip(value._fields, value, strict=True):
        if isinstance(part, np.ndarray):
            assert part.flags.carray, _CONTIGUOUS
            form.append((part.dtype.char, part.ndim))
            words.append(_find_address(part))
            words += part.shape
        elif type(part) in _kinds:
            packed = known.get(field)
            if packed is None or packed.value is not part:
                packed = Words(part, _NOTHING_KNOWN)
            parts[field] = packed
            form.append((packed.kind.name, _WITHIN))
            words += packed.words
        else:
            form.append(("", 0))
            words.append(part)
    kinds, key = _kinds[type(value)], tuple(form)
    if key not in kinds:
        made = Shared(type(value).__name__, value._fields, key)
        kinds[key] = _by_name[made.name] = made
    return kinds[key], words


def _find_address(array: Any) -> int:
    """Where the data of a contiguous, writeable array is, 0 for one without data: in a fifth of the
    time of `array.ctypes.data`, which is for arrays of any kind."""
    if not array.size:
        return 0
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


@register_model(Shared)
@register_model(SharedArray)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


@unbox(Shared)
def _find_words(_kind: Shared, value: Any, c: Any) -> Any:
    """The address of the packed tuple, which exists until the call ends. A tuple that is not packed
    has no address and is packed for this call."""
    builder, pyapi = c.builder, c.pyapi
    packed = cgutils.alloca_once_value(builder, value)
    pyapi.incref(value)
    address = cgutils.alloca_once_value(builder, pyapi.object_getattr_string(value, _ADDRESS))
    with builder.if_then(cgutils.is_null(builder, builder.load(address)), likely=False):
        pyapi.err_clear()
        function = pyapi.unserialize(pyapi.serialize_object(pack_for_kernels))
        made = pyapi.call_function_objargs(function, (value,))
        pyapi.decref(function)
        pyapi.decref(value)
        builder.store(made, packed)
        with builder.if_then(cgutils.is_not_null(builder, made)):
            builder.store(pyapi.object_getattr_string(made, _ADDRESS), address)
    failed = cgutils.is_null(builder, builder.load(address))
    place = cgutils.alloca_once_value(builder, ir.Constant(_WORD.as_pointer(), None))
    with builder.if_then(builder.not_(failed)):
        number = pyapi.long_as_longlong(builder.load(address))
        builder.store(builder.inttoptr(number, _WORD.as_pointer()), place)
        pyapi.decref(builder.load(address))
    return NativeValue(
        builder.load(place), is_error=failed, cleanup=lambda: pyapi.decref(builder.load(packed))
    )


@infer_getattr
class _Fields(AttributeTemplate):
    key = Shared

    def generic_resolve(self, kind: Shared, name: str) -> Any:
        return kind.kinds.get(name)


@lower_getattr_generic(Shared)
def _field(_context: Any, builder: Any, kind: Shared, address: Any, name: str) -> Any:
    place = _add_words(builder, address, kind.place[name])
    return _read(builder, place) if kind.kinds[name] == types.int64 else place


@infer_getattr
class _ArrayFields(AttributeTemplate):
    key = SharedArray

    def resolve_size(self, _kind: SharedArray) -> Any:
        return types.intp

    def resolve_shape(self, kind: SharedArray) -> Any:
        return types.UniTuple(types.intp, kind.array.ndim)


@lower_getattr(SharedArray, "size")
def _size(_context: Any, builder: Any, kind: SharedArray, address: Any) -> Any:
    size, *more = _read_shape(builder, kind, address)
    for axis in more:
        size = builder.mul(size, axis)
    return size


@lower_getattr(SharedArray, "shape")
def _shape(context: Any, builder: Any, kind: SharedArray, address: Any) -> Any:
    shape = _read_shape(builder, kind, address)
    return context.make_tuple(builder, types.UniTuple(types.intp, kind.array.ndim), shape)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, _kws: Any) -> Any:
        kind, index = args
        wide = _index_type(kind, index)
        if wide is None:
            return None
        left = kind.array.ndim - _count_numbers(wide)
        return signature(kind.array.copy(ndim=left) if left else kind.item, kind, wide)


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, _kws: Any) -> Any:
        kind, index, _value = args
        wide = _index_type(kind, index)
        if wide is None or kind.array.ndim != _count_numbers(wide):
            return None
        return signature(types.none, kind, wide, kind.array.dtype)


def _index_type(kind: Any, index: Any) -> Any:
    """The type that an index of an array is converted to; None for any other index."""
    if isinstance(kind, SharedArray):
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


@lower_builtin(operator.getitem, SharedArray, types.Any)
def _get_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index = sig.args
    item, left = _find_item(context, builder, kind, args[0], index, args[1])
    if not left:
        number = context.unpack_value(builder, kind.array.dtype, item)
        return context.cast(builder, number, kind.array.dtype, kind.item)
    itemsize = context.get_abi_sizeof(context.get_data_type(kind.array.dtype))
    strides = [ir.Constant(_WORD, itemsize)]
    for size in reversed(left[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(sig.return_type)(context, builder)
    populate_array(array, item, left, strides, itemsize, None)
    return array._getvalue()


@lower_builtin(operator.setitem, SharedArray, types.Any, types.Any)
def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index, _value = sig.args
    item, _left = _find_item(context, builder, kind, args[0], index, args[1])
    context.pack_value(builder, kind.array.dtype, args[2], item)
    return context.get_dummy_value()


def _find_item(
    context: Any, builder: Any, kind: SharedArray, address: Any, index: Any, value: Any
) -> tuple[Any, list[Any]]:
    """Where an item is, or the part that begins there; and the shape of the part."""
    numbers = [value]
    if isinstance(index, types.UniTuple):
        numbers = cgutils.unpack_tuple(builder, value, index.count)
    if config.BOUNDSCHECK:  # type: ignore[attr-defined]
        _check_bounds(context, builder, kind, numbers, _read_shape(builder, kind, address))
    left = kind.array.ndim - len(numbers)
    offset = numbers[0]
    shape = _read_shape(builder, kind, address, 1)
    for axis, size in enumerate(shape, 1):
        offset = builder.mul(offset, size)
        if axis < len(numbers):
            offset = builder.add(offset, numbers[axis])
    pointer = context.get_data_type(kind.array.dtype).as_pointer()
    data = _read(builder, builder.bitcast(address, pointer.as_pointer()))
    return builder.gep(data, [offset], inbounds=True), shape[len(shape) - left :]


def _check_bounds(
    context: Any, builder: Any, kind: SharedArray, numbers: list[Any], shape: list[Any]
) -> None:
    for number, size in zip(numbers, shape, strict=False):
        outside = builder.icmp_unsigned(">=", number, size)  # below zero is huge without its sign
        with builder.if_then(outside, likely=False):
            message = f"index out of bounds of an array of {kind.array.ndim} dimensions"
            context.call_conv.return_user_exc(builder, IndexError, (message,))


def _read_shape(builder: Any, kind: SharedArray, address: Any, first: int = 0) -> list[Any]:
    return [
        _read(builder, _add_words(builder, address, 1 + axis))
        for axis in range(first, kind.array.ndim)
    ]


def _add_words(builder: Any, address: Any, words: int) -> Any:
    return builder.gep(address, [ir.Constant(_WORD, words)], inbounds=True) if words else address


def _read(builder: Any, address: Any) -> Any:
    loaded = builder.load(address)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded
