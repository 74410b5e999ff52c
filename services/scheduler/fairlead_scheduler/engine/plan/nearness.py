"""How close the members of gangs with a topology are after a round (T5), and what no domain has for
those that wait for a required one (G11)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.preparation.round_context import RoundContext
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.snapshot import Int32, Int64
from fairlead_scheduler.engine.state.round_state import PLACED, QUEUED, RUNNING
from fairlead_scheduler.engine.state.run_states import GANG_WAITS
from fairlead_scheduler.engine.state.surplus import find_surplus
from fairlead_scheduler.engine.topology import NO_LEVEL, Nearness, Topology, TopologyMode

IntP = npt.NDArray[np.intp]


def measure_nearness(round_: RoundContext, free: Int64, clock: RoundClock) -> Nearness | None:
    """`Plan.nearness`. `free`: [N, R] free capacity when the round ends, by row of the snapshot.

    When time is up (L6) nothing is said about gangs that wait.
    """
    topology = round_.snapshot.topology
    if topology is None:
        return None
    gangs = topology.gang_mode.size
    found = Nearness(
        role_hops=_measure_roles(round_, topology),
        lacking=np.full(gangs, -1, np.int32),
        needed=np.zeros(gangs, np.int64),
        most=np.zeros(gangs, np.int64),
        domain=np.full(gangs, -1, np.int32),
    )
    if round_.gangs.present and not clock.check():
        _find_lacking(round_, topology, free, found)
    return found


def _measure_roles(round_: RoundContext, topology: Topology) -> Int32:
    """`Nearness.role_hops`."""
    snapshot, gangs, model = round_.snapshot, round_.gangs, round_.model
    roles = 0 if snapshot.role_gang is None else snapshot.role_gang.size
    result = np.full(roles, -1, np.int32)
    if snapshot.job_role is None or not gangs.present:
        return result
    state = model.runs.state[gangs.members]
    live = gangs.members[(state >= RUNNING) & (state <= PLACED)]
    live = live[(topology.gang_mode[gangs.of_job[live]] != 0) & (snapshot.job_role[live] >= 0)]
    if not live.size:
        return result
    live = live[np.argsort(snapshot.job_role[live], kind="stable")]
    role, first = np.unique(snapshot.job_role[live], return_index=True)
    node = round_.position[model.runs.position[live]]
    hops = np.full(role.size, topology.hops[-1])
    for h, row in enumerate(topology.label.tolist()):
        assert snapshot.node_label is not None, "a level is a row of it"
        hops[_find_equal(snapshot.node_label[row, node], first)] = topology.hops[h]
    hops[_find_equal(node, first)] = 0
    result[role] = hops
    return result


def _find_equal(values: Int32, first: IntP) -> npt.NDArray[np.bool_]:
    """Whether the values from each place in `first` on are one, and at least 0."""
    least = np.minimum.reduceat(values, first)
    return np.asarray((least >= 0) & (least == np.maximum.reduceat(values, first)))


def _find_lacking(round_: RoundContext, topology: Topology, free: Int64, found: Nearness) -> None:
    """Write what no domain has enough of, for gangs that wait for a required domain."""
    gangs, model, snapshot = round_.gangs, round_.model, round_.snapshot
    waits = (model.gangs.mode == GANG_WAITS) & (model.gangs.live == 0)
    waits &= (topology.gang_mode == TopologyMode.REQUIRED) & (topology.gang_level != NO_LEVEL)
    chosen = np.flatnonzero(waits)
    if not chosen.size or snapshot.node_label is None:
        return
    members = gangs.members[waits[gangs.of_job[gangs.members]]]
    members = members[model.runs.state[members] == QUEUED]
    members = members[~find_surplus(snapshot.job_priority[members])]
    scope = np.full(gangs.size, -1, np.int64)
    scope[chosen] = _find_misfits(round_, chosen)
    gang, role = gangs.of_job[members], gangs.roles.of_job[members]
    inside = (scope[gang] == role) | (topology.gang_whole[gang] != 0)
    gang, shape = gang[inside], snapshot.job_shape[members[inside]]
    need = _sum_rows(gang, snapshot.shape_request[shape], gangs.size)
    usable = np.where(round_.start.usable[:, None], np.maximum(free, 0), 0)
    for level in np.unique(topology.gang_level[chosen]).tolist():
        domain = snapshot.node_label[int(topology.label[level])]
        count = len(topology.domains[level])
        if not count:
            continue
        total = _sum_rows(domain[domain >= 0], usable[domain >= 0], count)
        mine = chosen[topology.gang_level[chosen] == level]
        most = total.max(axis=0)
        for r in round_.start.static.fit_order[::-1].tolist():  # the first resource is written last
            short = mine[need[mine, r] > most[r]]
            found.lacking[short] = r
            found.needed[short] = need[short, r]
            found.most[short] = most[r]
            found.domain[short] = int(total[:, r].argmax())


def _sum_rows(place: Int32, amounts: Int64, places: int) -> Int64:
    """[places, R] the sum of the rows of amounts at each place; exact below 2**53."""
    columns = [np.bincount(place, amounts[:, r], places) for r in range(amounts.shape[1])]
    return np.stack(columns, axis=1).astype(np.int64)


def _find_misfits(round_: RoundContext, gangs: IntP) -> Int64:
    """The number of the role of each gang that did not fit; for a gang that is one scope, the
    number of any of its roles."""
    roles, model = round_.gangs.roles, round_.model
    misfit = np.flatnonzero(model.gangs.roles.fitting >= 0)
    at = np.searchsorted(misfit, roles.first[gangs])
    number = np.append(misfit, roles.minimum.size)[at]
    return np.where(number < roles.first[gangs + 1], number, roles.first[gangs]).astype(np.int64)
