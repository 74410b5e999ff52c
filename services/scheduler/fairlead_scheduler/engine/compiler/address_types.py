"""Named tuples of arrays that kernels pass on by address.

numba passes a tuple by value, and each array in it as about eight numbers. With the tuples of a
round, a call had a thousand arguments, which cost more to compile than everything else together. An
instance of a class given to `register` is packed by Python (`pack_for_kernels`) when Python calls a
kernel, and kernels pass on its address. The packed words never change while a kernel runs, and LLVM
knows that: it can keep in registers what it reads from them.

The packed words have 64 bits. They are, field by field: a whole number; the address of the data of
an array, and its shape; the words of a tuple within the tuple. table_types.py has the types by
which kernels read them.

Only `machine_code.py` imports this.
"""

# mypy: disable-error-code="misc, no-untyped-call, override, untyped-decorator"
# (numba has hardly any annotations for how it is extended; Any is what its functions take and give)

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, typeof_impl, unbox

from fairlead_scheduler.engine.compiler import function_table
from fairlead_scheduler.engine.compiler.table_types import TableArray, TableType

Form = tuple[tuple[str, int], ...]
"""Per field the type and the number of dimensions of its array, ("", 0) for a whole number; the
name of its `TableType` and -1 for a tuple within the tuple."""

_WORDS: Final = ir.IntType(64).as_pointer()
_ADDRESS: Final = "address"
"""The attribute of `PackedTuple` with the address of its words."""
_CONTIGUOUS: Final = "arrays that kernels share are contiguous and writeable"
_WITHIN: Final = -1
_kinds: dict[type, dict[Form, TableType]] = {}
"""By the class of the tuple and its form."""
_by_name: dict[str, TableType] = {}


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
                if within.kind is not self.kind.fields[field]:
                    return None
                words = within.words
            else:
                words = [part]
            changes.append((self.kind.places[field], words))
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
def _type_of_packed(packed: PackedTuple, _context: Any) -> TableType:
    return packed.kind


_NOTHING_KNOWN: Final[Mapping[str, Words]] = MappingProxyType({})


def pack_for_kernels(value: Any, known: Mapping[str, Words] = _NOTHING_KNOWN) -> PackedTuple:
    """The tuple packed; the value itself if it is packed already.

    `known`: by field, packed tuples that are used where the value contains the same object.
    """
    return value if isinstance(value, PackedTuple) else PackedTuple(value, known)


def _write(
    value: Any, known: Mapping[str, Words], parts: dict[str, Words]
) -> tuple[TableType, list[int]]:
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
        kinds[key] = made = _make_type(type(value), key)
        _by_name[made.name] = made
        function_table.load_kernels(type(value), made)
    return kinds[key], words


def _make_type(tuple_class: Any, form: Form) -> TableType:
    fields = dict(zip(tuple_class._fields, map(_find_field_type, form), strict=True))
    digest = hashlib.sha256(repr((tuple_class._fields, form)).encode()).hexdigest()
    return TableType(f"{tuple_class.__name__}-{digest[:12]}", fields)


def _find_field_type(part: tuple[str, int]) -> Any:
    kind, ndim = part
    if ndim == _WITHIN:
        return _by_name[kind]
    return TableArray(numba.from_dtype(np.dtype(kind)), ndim) if kind else types.int64


def _find_address(array: Any) -> int:
    """Where the data of a contiguous, writeable array is, 0 for one without data: in a fifth of the
    time of `array.ctypes.data`, which is for arrays of any kind."""
    if not array.size:
        return 0
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


@unbox(TableType)
def _find_words(_kind: TableType, value: Any, c: Any) -> Any:
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
    place = cgutils.alloca_once_value(builder, ir.Constant(_WORDS, None))
    with builder.if_then(builder.not_(failed)):
        number = pyapi.long_as_longlong(builder.load(address))
        builder.store(builder.inttoptr(number, _WORDS), place)
        pyapi.decref(builder.load(address))
    return NativeValue(
        builder.load(place), is_error=failed, cleanup=lambda: pyapi.decref(builder.load(packed))
    )
