"""Makes the tables of a model whose initial values follow from their sizes alone."""

from __future__ import annotations

import numpy as np

from fairlead_scheduler.engine.state import victim_order as victim_orders
from fairlead_scheduler.engine.state.round_model import (
    AvoidedNodes,
    EvictedRuns,
    QueueOffers,
    RunTable,
)
from fairlead_scheduler.engine.state.victim_tables import LevelShares, VictimOrder


def avoided_nodes(jobs: int, pairs: int) -> AvoidedNodes:
    return AvoidedNodes(
        first=np.full(jobs if pairs else 0, -1, np.int64),
        link=np.full(pairs, -1, np.int64),
        position=np.zeros(pairs, np.int64),
    )


def queue_offers(queues: int) -> QueueOffers:
    return QueueOffers(
        kind=np.zeros(queues, np.uint8),
        job=np.zeros(queues, np.int64),
        heap=np.zeros(queues, np.int64),
        class_value=np.zeros(queues, np.int64),
        over_budget=np.zeros(queues, np.bool_),
        share=np.zeros(queues, np.float64),
        size=np.zeros(queues, np.float64),
        runs=np.zeros(queues, np.bool_),
        replaces_first=np.zeros(queues, np.bool_),
        fits_free_at=np.zeros(queues, np.int64),
    )


def run_table(jobs: int, nodes: int) -> RunTable:
    return RunTable(
        active=int(jobs > 0),
        state=np.zeros(jobs, np.uint8),
        position=np.zeros(jobs, np.int64),
        level=np.zeros(jobs, np.int64),
        preemption=np.zeros(jobs, np.uint8),
        lost_work=np.zeros(jobs, np.float64),
        started=np.zeros(jobs, np.int64),
        head=np.full(nodes, -1, np.int64),
        link=np.zeros(jobs, np.int64),
        tier=np.zeros(jobs, np.uint8),
        cause=np.zeros(jobs, np.uint8),
        preemptor=np.zeros(jobs, np.int64),
        share_before=np.zeros(jobs, np.float64),
        state_before=np.zeros(jobs, np.int64),
        urgency_loss=np.zeros(jobs, np.float64),
    )


def evicted_runs(jobs: int, queues: int, gangs: int) -> EvictedRuns:
    return EvictedRuns(
        rows=np.zeros(jobs, np.int64),
        end=np.zeros(queues, np.int64),
        cheapest=np.zeros(jobs, np.int64),
        cheapest_next=np.zeros(queues, np.int64),
        cheapest_first=np.zeros(queues + 1, np.int64),
        priority=np.zeros(queues, np.int64),
        gang_last=np.full(gangs, -1, np.int64),
        gang_returned=np.zeros(gangs, np.uint8),
    )


def level_shares(queues: int, levels: int, amounts: int) -> LevelShares:
    return LevelShares(
        held=np.zeros((queues, levels, amounts), np.int64),
        with_offer=np.zeros(levels, np.float64),
    )


def victim_order(nodes: int, levels: int, resources: int) -> VictimOrder:
    """What is not used by a round takes no memory."""
    trees = 2 * min(levels + 1, victim_orders.LEVELS_MAX)
    size = 1 << max(nodes - 1, 0).bit_length()
    return VictimOrder(
        made=np.zeros(trees + 1, np.int64),
        node=np.zeros(nodes, np.int64),
        place=np.zeros(nodes, np.int64),
        cheapest=np.zeros(nodes, np.int64),
        largest=np.zeros((levels, resources), np.int64),
        placed=np.zeros(levels, np.int64),
        types=np.zeros(2 * size, np.uint64),
        queues=np.zeros(2 * size, np.uint64),
        amounts=np.zeros((trees, 2 * size, resources), np.int64),
    )
