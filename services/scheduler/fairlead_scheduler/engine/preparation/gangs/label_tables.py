"""Tables over the values of labels when the round starts: what is free on the nodes of each value
(N7), and the domains of the topology in which gangs run (T2 to T4)."""

from __future__ import annotations

import numpy as np

from fairlead_scheduler.engine.preparation.gangs.gang_table import GangTable
from fairlead_scheduler.engine.preparation.pool.prepared_pool import PreparedPool
from fairlead_scheduler.engine.scheduling.gang_start import SEARCH_NUMBERS, VALUES_TRIED_MAX
from fairlead_scheduler.engine.snapshot import Int32, Snapshot
from fairlead_scheduler.engine.state import domain_tables
from fairlead_scheduler.engine.state.domain_tables import (
    DOMAINS_CONSIDERED_MAX,
    NO_DOMAIN,
    NOBODY,
    DomainTables,
)
from fairlead_scheduler.engine.state.round_model import ValueCapacity


def build_value_capacity(
    snapshot: Snapshot, start: PreparedPool, gangs: GangTable, position: Int32
) -> ValueCapacity:
    """Label values, ranked by what is free on their nodes together (N7); no values without
    gangs."""
    label = snapshot.node_label if gangs.present else None
    resources = snapshot.shape_request.shape[1]
    domains = build_domain_tables(snapshot, gangs)
    if label is None:
        return no_value_capacity(resources)._replace(domains=domains)
    count = int(label.max(initial=-1)) + 1
    size = 1 << max(count - 1, 0).bit_length()
    labels = label.shape[0]
    value = np.zeros((labels, count), np.int64)
    rank = np.full((labels, position.size), -1, np.int64)
    bits = np.zeros((labels, 2 * size), np.uint64)
    free = np.where(start.usable[:, None], np.maximum(start.free, 0), 0)
    for u in range(labels):
        has = (label[u] >= 0) & start.usable
        total = np.zeros((count, resources), np.int64)
        np.add.at(total, label[u][has], free[has])
        ranked = start.static.fit_order[::-1].tolist()
        value[u] = np.lexsort([np.arange(count), *[total[:, r] for r in ranked]])
        place = np.empty(count, np.int64)
        place[value[u]] = np.arange(count)
        at = position[has[position]]
        rank[u, has[position]] = place[label[u][at]]
        bits[u, size : size + count] = 1
        level = size
        while level > 1:  # the nodes of each level of the tree lie together
            level //= 2
            below = bits[u, 2 * level : 4 * level]
            bits[u, level : 2 * level] = below[::2] | below[1::2]
    return no_value_capacity(resources)._replace(
        rank=rank,
        value=value,
        bits=bits,
        free=np.zeros((labels, 2 * size, resources), np.int64),
        preemptible=np.zeros((labels, 2 * size, resources), np.int64),
        counted=np.zeros((2, position.size if labels else 0, resources), np.int64),
        domains=domains,
    )


def no_value_capacity(resources: int) -> ValueCapacity:
    """The table of a round without labels."""
    return ValueCapacity(
        rank=np.zeros((0, 0), np.int64),
        value=np.zeros((0, 0), np.int64),
        bits=np.zeros((0, 2), np.uint64),
        free=np.zeros((0, 2, resources), np.int64),
        preemptible=np.zeros((0, 2, resources), np.int64),
        counted=np.zeros((2, 0, resources), np.int64),
        least_waste=np.zeros(resources, np.int64),
        tried=np.zeros(VALUES_TRIED_MAX, np.int64),
        search=np.zeros(SEARCH_NUMBERS, np.int64),
        best_lost_work=np.zeros(1),
        domains=no_domain_tables(0),
    )


def no_domain_tables(gangs: int) -> DomainTables:
    """The tables of a round in which none of the gangs has a topology."""
    return DomainTables(
        label=np.zeros(0, np.int64),
        mode=np.zeros(gangs, np.uint8),
        widest=np.zeros(gangs, np.int64),
        whole=np.zeros(gangs, np.uint8),
        common=np.zeros((0, 0), np.int64),
        candidates=np.zeros(0, np.int64),
        freed=np.zeros(0, np.int64),
        search=np.zeros(domain_tables.SEARCH_NUMBERS, np.int64),
        best_lost_work=np.zeros(1),
    )


def build_domain_tables(snapshot: Snapshot, gangs: GangTable) -> DomainTables:
    """What gangs require or prefer of the topology, and the domains in which their members run."""
    topology = snapshot.topology
    if topology is None or not gangs.present:
        return no_domain_tables(gangs.size)
    label = np.zeros((0, 0), np.int32) if snapshot.node_label is None else snapshot.node_label
    common = np.full((gangs.roles.minimum.size, topology.label.size), NOBODY, np.int64)
    near = topology.gang_mode != 0
    mine = np.flatnonzero((gangs.of_job >= 0) & (snapshot.job_node >= 0))
    mine = mine[near[gangs.of_job[mine]]]
    gang = gangs.of_job[mine]
    whole = topology.gang_whole[gang] != 0
    scope = np.where(whole, gangs.roles.first[gang], gangs.roles.of_job[mine])
    node = snapshot.job_node[mine]
    for h, row in enumerate(topology.label.tolist()):
        domain = label[row, node].astype(np.int64)
        least = np.full(common.shape[0], np.iinfo(np.int64).max)
        np.minimum.at(least, scope, domain)
        np.maximum.at(common[:, h], scope, domain)
        common[(common[:, h] != least) & (common[:, h] != NOBODY), h] = NO_DOMAIN
    return DomainTables(
        label=topology.label.astype(np.int64),
        mode=topology.gang_mode,
        widest=topology.gang_level.astype(np.int64),
        whole=topology.gang_whole,
        common=common,
        candidates=np.zeros(DOMAINS_CONSIDERED_MAX, np.int64),
        freed=np.full(common.shape[0], NO_DOMAIN, np.int64),
        search=np.zeros(domain_tables.SEARCH_NUMBERS, np.int64),
        best_lost_work=np.zeros(1),
    )
