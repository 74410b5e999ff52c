"""Why gangs and their members wait after a round (E2)."""

from __future__ import annotations

import numpy as np

from fairlead_scheduler.engine.preparation.round_context import RoundContext, find_stop_code
from fairlead_scheduler.engine.snapshot import Byte, Code, Int32, Int64
from fairlead_scheduler.engine.state.round_state import DISPLACED, QUEUED
from fairlead_scheduler.engine.state.run_states import GANG_WAITS


def find_gangs(round_: RoundContext, rows: Int32) -> Int32:
    """The gang of each job; -1 without one, and for members that were left over (N9)."""
    if not round_.gangs.present:
        return np.full(rows.size, -1, np.int32)
    return round_.gangs.of_job[rows]


def list_refused_gangs(
    round_: RoundContext, refused: Int32, code: Byte, waiting: Int64
) -> tuple[Int64, Int64, Byte]:
    """Gangs whose queued members were all refused: their rows, one member of each, and its code."""
    gangs, at = np.unique(find_gangs(round_, refused), return_index=True)
    alone = waiting[gangs] == 0
    at = at[alone]
    return gangs[alone].astype(np.int64), refused[at].astype(np.int64), code[at]


def list_waiting_members(round_: RoundContext, rejected: Int32) -> tuple[Int32, Int64]:
    """Queued members of gangs that wait after the round, by gang; and how many per gang."""
    gangs, model = round_.gangs, round_.model
    if not gangs.present:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    members = gangs.members
    waits = (round_.snapshot.job_node[members] == -1) & np.isin(
        model.runs.state[members], [QUEUED, DISPLACED]
    )
    members = members[waits]
    members = members[~np.isin(members, rejected)]
    return members, np.bincount(gangs.of_job[members], minlength=gangs.size)


def find_first_members(round_: RoundContext, members: Int32, gangs: Int64) -> Int64:
    """One waiting member of each gang: of a group that does not fit one of the role that does not,
    of one that runs the surplus member that is next. `members`: those that wait, by gang."""
    gang, roles = round_.gangs.of_job[members], round_.model.gangs.roles
    first = members[np.searchsorted(gang, gangs)].astype(np.int64)
    if round_.snapshot.job_role is None:
        return first
    live = round_.model.gangs.live[gang] > 0
    blocks = ~live & (roles.fitting[round_.gangs.roles.of_job[members]] >= 0)
    order = np.lexsort([-round_.snapshot.job_priority[members], ~blocks, gang])
    ranked = members[order]
    chosen = ranked[np.searchsorted(gang[order], gangs)]
    return np.where(round_.model.gangs.groups.grouped[gangs] != 0, chosen, first).astype(np.int64)


def find_roles(round_: RoundContext, gangs: Int64, first_member: Int64) -> tuple[Int32, Int32]:
    """`Reasons.role` and `Reasons.role_members` of the rows of these gangs."""
    model = round_.model
    if not gangs.size or round_.snapshot.job_role is None:
        return np.full(gangs.size, -1, np.int32), np.zeros(gangs.size, np.int32)
    number = round_.gangs.roles.of_job[first_member]
    fits = np.maximum(model.gangs.roles.fitting[number], 0)
    count = np.where(model.gangs.live[gangs] > 0, model.gangs.roles.live[number], fits)
    row = round_.gangs.roles.row[number]
    runs = (model.gangs.live[gangs] > 0) | (model.gangs.roles.fitting[number] >= 0)
    return np.where(runs, row, -1).astype(np.int32), count.astype(np.int32)


def find_gang_codes(round_: RoundContext, gangs: Int64, first_member: Int64) -> Byte:
    """Why these gangs, or their further members, wait."""
    model = round_.model
    if not gangs.size:
        return np.zeros(0, np.uint8)
    snapshot = round_.snapshot
    code = model.gangs.code[gangs].astype(np.uint8)
    pair = model.progress.skip_code[
        snapshot.job_queue[first_member], snapshot.job_shape[first_member]
    ]
    further = (model.gangs.mode[gangs] != GANG_WAITS) | (model.gangs.live[gangs] > 0)
    code = np.where((code == 0) & further, pair, code)
    alone = model.progress.stop_code[snapshot.job_queue[first_member]]
    rest = np.where(further, Code.INSUFFICIENT_RESOURCES, Code.GANG_DOES_NOT_FIT)
    if find_stop_code(round_) != Code.NONE:
        rest = np.full(gangs.size, Code.NOT_REACHED)
    return np.where(code != 0, code, np.where(alone != 0, alone, rest)).astype(np.uint8)
