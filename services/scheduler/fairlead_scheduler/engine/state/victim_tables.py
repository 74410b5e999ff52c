"""The search for victims in the model of a round (N2b, N4). Letters are as in round_model.py."""

from __future__ import annotations

from typing import NamedTuple

from fairlead_scheduler.engine.compiler.decorators import by_address
from fairlead_scheduler.engine.snapshot import Byte, Float, Int64
from fairlead_scheduler.engine.state.capacity_tree import Bits


@by_address
class VictimOrder(NamedTuple):
    """The order in which N4 examines nodes, and what preemption could free on each.

    Written by victim_order.py; `placed` by run_states.py.
    """

    made: Int64
    """[trees+1] whether each tree was made, and last whether the order was"""
    node: Int64
    """[N] positions in the order"""
    place: Int64
    """[N] place of each position in the order"""
    cheapest: Int64
    """[N] the cheapest run of each position when the round started, -1"""
    largest: Int64
    """[L, R] the greatest request of any run at each level when the round started"""
    placed: Int64
    """[L] whether a preemptible job was placed at each level in this round"""
    types: Bits
    """[2*size] node types below each tree node, as bits"""
    queues: Bits
    """[2*size] queues that had preemptible runs below each tree node, as bits (queue modulo 64)"""
    amounts: Int64
    """[trees, 2*size, R] free after preemption: trees of tier (b) by level, then of tier (c)"""


@by_address
class LevelShares(NamedTuple):
    """What R13 compares for an offer over budget: shares of what runs at a level or above.

    `held` is written by run_states.py and node_victims.py, `with_offer` by strict_gain.py.
    """

    held: Int64
    """[Q, L, R+F] what live runs hold by the level at which they run, without the assumed
    victims"""
    with_offer: Float
    """[L] the share / weight of the preempting queue with its whole offer, of what runs at each
    level or above"""


@by_address
class VictimChoice(NamedTuple):
    """The victims on the present node (N2b) and on the best node so far (N4).

    Written by node_victims.py; `chosen`, `chosen_takes_gang`, `examined` by victim_search.py and
    own_surplus.py; `need` also by victim_search.py, `mark` by oversubscription.py.
    """

    candidates: Int64
    """runs on the present node that can be victims"""
    mark: Byte
    """[J] whether it is assumed to be preempted: `UNTOUCHED` to `MATE` of node_victims.py"""
    taken: Int64
    """victims on the present node, in the order taken; -1 - run: one that was spared"""
    takes_gang: Int64
    """whether the whole gang is preempted with each of `taken`"""
    chosen: Int64
    """victims on the best node so far"""
    chosen_takes_gang: Int64
    """whether the whole gang is preempted with each of `chosen`"""
    need: Int64
    """[R] what is still lacking on the present node"""
    examined: Int64
    """positions that the present search has examined"""
    order: VictimOrder
    shares: LevelShares
