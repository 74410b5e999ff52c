"""The roles of gangs when the round starts (rules G). A plain gang, which is not a group, has
one."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.preparation.pool.prepared_pool import PreparedPool
from fairlead_scheduler.engine.snapshot import Byte, Int32, Int64, Snapshot
from fairlead_scheduler.engine.state.surplus import find_surplus

ANY_NUMBER: Final = np.int64(1 << 60)
IntP = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoleTable:
    """K roles, numbered by gang and the cost of their members, greatest first (G1)."""

    of_job: Int32
    """[J] the role of each job, -1 for a job without a gang; [0] when there are no gangs."""
    first: Int64
    """[G+1] where a gang's roles begin."""
    minimum: Int64
    """[K]"""
    row: Int32
    """[K] row of the role in the snapshot; -1 for the role of a plain gang."""
    grouped: Byte
    """[G] whether the gang is a group."""
    step: Int64
    """[K] the most surplus members that start in a round (G8); `ANY_NUMBER` = no limit."""


@functools.cache
def no_roles() -> RoleTable:
    """The table of a pool without gangs."""
    empty = np.zeros(0, np.int32)
    return RoleTable(
        of_job=empty,
        first=np.zeros(1, np.int64),
        minimum=empty.astype(np.int64),
        row=empty,
        grouped=empty.astype(np.uint8),
        step=empty.astype(np.int64),
    )


def build_role_table(snapshot: Snapshot, start: PreparedPool, of_job: Int32) -> RoleTable:
    """Number the roles. `of_job`: [J] the gang of each job, -1 for a job without a gang.

    The minimum of a plain gang is 0 once a member that ran has ended: the others neither start nor
    stop together any more (N9).
    """
    assert snapshot.gang_min is not None, "a snapshot with gangs has all their columns"
    assert snapshot.gang_started is not None, "a snapshot with gangs has all their columns"
    least = np.where(snapshot.gang_started, 0, snapshot.gang_min).astype(np.int64)
    gangs = least.size
    if snapshot.job_role is None:
        return RoleTable(
            of_job=of_job,
            first=np.arange(gangs + 1),
            minimum=least,
            row=np.full(gangs, -1, np.int32),
            grouped=np.zeros(gangs, np.uint8),
            step=np.full(gangs, ANY_NUMBER),
        )
    assert snapshot.role_gang is not None, "a snapshot with roles has all their columns"
    assert snapshot.role_min is not None, "a snapshot with roles has all their columns"
    assert snapshot.role_place is not None, "a snapshot with roles has all their columns"
    row = np.flatnonzero(snapshot.role_gang >= 0)
    grouped = np.zeros(gangs, np.uint8)
    grouped[snapshot.role_gang[row]] = 1
    plain = np.flatnonzero(grouped == 0)
    gang = np.concatenate([snapshot.role_gang[row], plain])
    members = np.flatnonzero((of_job >= 0) & (snapshot.job_node >= -1))
    role = snapshot.job_role[members]
    cost = np.zeros(snapshot.role_gang.size)
    shape = snapshot.job_shape[members[role >= 0]]
    np.maximum.at(cost, role[role >= 0], start.capacity.shape_cost[shape])
    nothing = np.zeros(plain.size)
    order = np.lexsort(
        [
            np.concatenate([snapshot.role_place[row], nothing]),
            -np.concatenate([cost[row], nothing]),
            gang,
        ]
    )
    number = np.empty(order.size, np.int32)
    number[order] = np.arange(order.size)
    of_role = np.full(snapshot.role_gang.size, -1, np.int32)
    of_role[row] = number[: row.size]
    of_plain = np.full(gangs, -1, np.int32)
    of_plain[plain] = number[row.size :]
    roles_of_job = np.full(of_job.size, -1, np.int32)
    roles_of_job[members] = np.where(role >= 0, of_role[role], of_plain[of_job[members]])
    return RoleTable(
        of_job=roles_of_job,
        first=np.searchsorted(gang[order], np.arange(gangs + 1)).astype(np.int64),
        minimum=np.concatenate([snapshot.role_min[row], least[plain]])[order].astype(np.int64),
        row=np.concatenate([row, np.full(plain.size, -1)])[order].astype(np.int32),
        grouped=grouped,
        step=_find_steps(snapshot, row, plain.size)[order],
    )


def _find_steps(snapshot: Snapshot, row: IntP, plain: int) -> Int64:
    """`RoleTable.step` of the roles in these rows, followed by that of `plain` plain gangs."""
    step = np.full(row.size + plain, ANY_NUMBER)
    if snapshot.role_step is not None:
        limited = snapshot.role_step[row] > 0
        step[: row.size][limited] = snapshot.role_step[row][limited]
    return step


def place_in_role(role: Int32) -> Int64:
    """For each element, the number of earlier elements with the same role."""
    order = np.argsort(role, kind="stable")
    place = np.empty(role.size, np.int64)
    place[order] = np.arange(role.size) - np.searchsorted(role[order], role[order])
    return place


def count_needed(table: RoleTable, waiting: Int32, priority: Int64) -> Int64:
    """[K] how many of these queued members count for the minimum of their role: all but surplus
    members."""
    needed = waiting[~find_surplus(priority[waiting])]
    return np.bincount(table.of_job[needed], minlength=table.minimum.size)


def find_short_gangs(table: RoleTable, count: Int64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[G] gangs with a role that has fewer members (`count`, [K]) than its minimum."""
    short = np.concatenate([[0], np.cumsum(count < table.minimum)])
    return np.asarray(short[table.first[1:]] > short[table.first[:-1]])
