"""Converts the arrays of a snapshot to the one form for which the kernels are compiled.

Kernels are compiled per type of array: a sliced, read-only or narrower column would cost another
compilation of everything in the middle of a round. Arrays that already have the form are not
copied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.snapshot import TOTAL_MAX, Snapshot

DTYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "Bool": np.bool_,
        "Byte": np.uint8,
        "Int8": np.int8,
        "Int32": np.int32,
        "Int64": np.int64,
        "Float": np.float64,
    }
)
"""The element types by the names of the array types in snapshot.py."""

COLUMNS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        field.name: DTYPES[str(field.type).split(" ")[0]]
        for field in fields(Snapshot)
        if str(field.type).split(" ")[0] in DTYPES
    }
)


def convert_arrays(snapshot: Snapshot) -> Snapshot:
    """The same snapshot with every column contiguous, writeable and of its own type."""
    return replace_columns(snapshot, convert_columns(snapshot, COLUMNS))


def convert_columns(snapshot: Snapshot, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """The columns among these that have to be converted, in the form that kernels need.

    Where the nodes' total exceeds `TOTAL_MAX`, each node counts as at most its even part of that.
    """
    changed: dict[str, npt.NDArray[Any]] = {}
    for name in names:
        column = getattr(snapshot, name)
        if column is None or (column.dtype == COLUMNS[name] and column.flags.carray):
            continue
        changed[name] = np.require(column, COLUMNS[name], ["C", "W"])
    if "node_allocatable" in names:
        nodes = changed.get("node_allocatable", snapshot.node_allocatable)
        if nodes.size and int(nodes.max()) * nodes.shape[0] >= TOTAL_MAX:
            over = nodes.sum(axis=0, dtype=np.float64) >= TOTAL_MAX
            most = np.where(over, TOTAL_MAX // nodes.shape[0], np.iinfo(np.int64).max)
            changed["node_allocatable"] = np.minimum(nodes, most)
    return changed


def replace_columns(snapshot: Snapshot, columns: Mapping[str, Any]) -> Snapshot:
    """The same snapshot with these columns."""
    return replace(snapshot, **columns) if columns else snapshot
