"""What the kernels of a round share, in structures of arrays.

Each structure has one purpose, and says which modules write it after the preparation. Kernels take
the whole `RoundModel`, which is one address (see address_types.py), so a call costs the same
whatever the callee needs.

Nodes are numbered by *position*: the order of N3 at the start of the round, which is also the order
of the leaves of the capacity tree. Letters for shapes of arrays are as in snapshot.py; W = 1+K,
home and the away entries; L levels, the distinct values that anything runs at; P ranks of what a
shape prefers.
"""

from __future__ import annotations

from typing import NamedTuple

from fairlead_scheduler.engine.compiler.decorators import by_address
from fairlead_scheduler.engine.snapshot import Bool, Byte, Float, Int32, Int64
from fairlead_scheduler.engine.state.capacity_tree import Bits
from fairlead_scheduler.engine.state.domain_tables import DomainTables


@by_address
class ShapeTable(NamedTuple):
    """What jobs of each shape need and where they can run; constant during a round."""

    request: Int64
    """[S, R] what a job needs of its node"""
    full_request: Int64
    """[S, R+F] with floating resources"""
    cost: Float
    """[S] cost of one job"""
    priority_class: Int64
    """[S]"""
    class_value: Int64
    """[S]"""
    preemption: Byte
    """[S] `Preemption`"""
    type_rank: Byte
    """[S, W, T] rank of the node type in what the shape prefers, 0 first; P or more where the type
    is not eligible"""
    type_bits: Bits
    """[S, W, P] eligible types as bits, for each of P ranks"""
    level: Int64
    """[S, W] row of the value that a job runs at, home or away; -1 = no such entry"""
    least_request: Int64
    """[R] the least that any shape needs"""


@by_address
class NodeTable(NamedTuple):
    """The nodes by position; constant during a round."""

    node_type: Int64
    """[N]"""
    number: Int64
    """[N] the node's number for life"""
    waste_order: Int64
    """Resource rows in the order in which waste is compared (N3)"""
    value_first: Int64
    """[U, V+1] where the positions with a label value begin in `value_positions`"""
    value_positions: Int64
    """[U, N] positions by label value, in the order of N3"""


@by_address
class RoundJobs(NamedTuple):
    """The jobs and the order of R3; constant during a round."""

    shape: Int32
    """[J]"""
    queue: Int32
    """[J]"""
    gang: Int32
    """[J] or -1"""
    role: Int32
    """[J] number in `RoleTables`, -1 for jobs of no gang"""
    priority: Int64
    """[J] see surplus.py"""
    submission: Int64
    order: Int32
    """Queued rows in the order of R3, queue by queue"""
    order_end: Int64
    """[Q] where each queue's rows end in `order`"""


@by_address
class Entitlements(NamedTuple):
    """What queues are entitled to, and the limits; constant during a round."""

    cost_factor: Float
    """[R+F]"""
    weight: Float
    """[Q]"""
    budget: Float
    """[Q] fair share / weight"""
    initial_share: Float
    """[Q] actual share / weight when the round started"""
    entitled_share: Float
    """[Q] max(fair share, weight share)"""
    class_limit: Float
    """[Q, C, R+F] or [0, 0, 0] (L2)"""
    round_limit: Float
    """[R+F] L3 in amounts"""
    floating_left: Int64
    """[R+F] what is left of floating resources (L7) when the round starts; a huge number for
    resources of nodes"""
    now_ms: int
    lookback: int


@by_address
class NodeCapacity(NamedTuple):
    """What is free on nodes, and what preemption could free.

    Written by run_states.py; `cursor` by placement.py.
    """

    tree: Int64
    """[2*size, R] of capacity_tree.py: free capacity"""
    tree_types: Bits
    """[2*size] node types below each tree node, as bits"""
    cursor: Int64
    """[S, W, P] no position of this rank before it has capacity for the shape"""
    preemptible: Int64
    """[N, L, R] held by preemptible runs that are not evicted"""
    evicted: Int64
    """[N, L, R] held by evicted runs"""
    runs_at_level: Int64
    """[L] preemptible runs by level, evicted or not"""


@by_address
class QueueUsage(NamedTuple):
    """What queues hold, and the tokens that are left. Written by run_states.py."""

    held: Int64
    """[Q, R+F] with evicted runs that were not taken yet (R13)"""
    counted: Int64
    """[Q, R+F] as R4 counts: evicted runs only once they have returned"""
    by_class: Int64
    """[Q, C, R+F] for L2"""
    started: Int64
    """[R+F] new in this round (L3)"""
    tokens: Float
    """[1+Q+1] left in the global bucket (first), in each queue's, and for preemption (last)"""
    share_steps: Int64
    """[Q] held / entitled share in steps of 1e-9 (N2b)"""
    evicted_runs: Int64
    """[Q] evicted runs that have not returned"""


@by_address
class QueueProgress(NamedTuple):
    """How far each queue has come in its order, and what it no longer tries.

    Written by offers.py, queue_selection.py and scheduling_pass.py; `skip_code`, `unfit_queues`,
    `jobs_left` and `open_shapes` by round_state.py, and by placement.py where capacity was freed.
    """

    skip_code: Byte
    """[Q, S] why jobs of this shape are skipped, 0 = they are not"""
    unfit_queues: Int64
    """[S] how many queues skip the shape because no node has capacity"""
    jobs_left: Int32
    """[Q, S] jobs not handled yet, members of gangs aside"""
    open_shapes: Int64
    """[Q] shapes with jobs not handled yet and not skipped"""
    members_left: Int64
    """[Q] queued members of gangs not passed in the order yet"""
    stop_code: Byte
    """[Q] the code by which the queue stopped alone, 0 = it did not"""
    examined: Int64
    """[Q] L5"""
    next_queued: Int64
    """[Q] place in `RoundJobs.order` of the offer, or where the search for one continues"""
    next_within: Int64
    """[Q] place in `RoundJobs.order` where the search for an offer within budget continues"""
    handled: Byte
    """[J] whether the job was handled before an earlier one of its queue"""
    unfit: Int64
    """[Q, 2] the first offer that was last found not to fit on free capacity (its job, -1), and
    counters[N_PREEMPTED] then"""
    next_evicted: Int64
    """[Q] place in `EvictedRuns.rows`"""
    next_member: Int64
    """[Q] place in `GangTables.members` of the gang's further members that the queue offers now"""
    members_end: Int64
    """[Q]"""


@by_address
class QueueOffers(NamedTuple):
    """What each queue offers, and the heap of queues by R4.

    Written by offers.py and queue_selection.py.
    """

    kind: Byte
    """[Q]"""
    job: Int64
    """[Q] the job, or a member of the gang"""
    heap: Int64
    """[Q] queues that have an offer, as a binary heap by R4"""
    class_value: Int64
    """[Q] R4 (1)"""
    over_budget: Bool
    """[Q] whether the queue is over budget with the offer"""
    share: Float
    """[Q] current where within budget, proposed where over it"""
    size: Float
    """[Q] cost x weight of the offer"""
    runs: Bool
    """[Q] whether the offer is of evicted runs"""
    replaces_first: Bool
    """[Q] whether the offer is one within budget, from behind the first"""
    fits_free_at: Int64
    """[Q] counters[N_PLACED] + 1 when the offer, over budget, was last found to fit on free
    capacity while an offer within budget is behind it; 0 for all other offers"""


@by_address
class Placements(NamedTuple):
    """What was placed, filled up to counters[N_PLACED]. Written by run_states.py."""

    job: Int32
    position: Int32
    away: Int32
    """column of W"""


@by_address
class RunTable(NamedTuple):
    """Runs and new placements: their state, and what preempted them.

    Written by run_states.py; `urgency_loss` by placement.py.
    """

    active: int
    """0 when nothing can be preempted and there are no gangs: then nothing of runs, evicted runs,
    gangs or victims is read"""
    state: Byte
    """[J]"""
    position: Int64
    """[J] meaningless for a job without a run, as the next four are"""
    level: Int64
    """[J] row of the value it runs at"""
    preemption: Byte
    """[J] `Preemption`, the strictest of its gang (also before it runs), NONE for a run that is
    stopping"""
    lost_work: Float
    """[J] R9, in steps of `eviction.LOST_STEPS`"""
    started: Int64
    """[J] when its run started; the time of the round for new placements"""
    head: Int64
    """[N] last run of each position, -1"""
    link: Int64
    """[J] the run before it on the same position, -1"""
    tier: Byte
    """[J] of what is new"""
    cause: Byte
    """[J] why it was preempted"""
    preemptor: Int64
    """[J] the job that it was preempted for"""
    share_before: Float
    """[J] E5: how far its queue was above its share before the run was taken"""
    state_before: Int64
    """[J] state before it was preempted"""
    urgency_loss: Float
    """[J] work that would be lost for what was placed on top of less urgent runs"""


@by_address
class EvictedRuns(NamedTuple):
    """The runs that R2 evicted, in the order of R3 and as single victims.

    Only `cheapest_next` changes: victim_search.py moves it on, run_states.py resets it.
    """

    rows: Int64
    end: Int64
    cheapest: Int64
    """by queue, level, gangs last, lost work, start, id: N4 for a single victim"""
    cheapest_next: Int64
    """[Q] the first of them that may still be evicted"""
    cheapest_first: Int64
    """[Q+1]"""
    priority: Int64
    """[Q] the priority of all the queue's evicted runs; a huge number where they differ"""


@by_address
class GangTables(NamedTuple):
    """Gangs: their members, what they need, and their progress.

    Written by gang_placement.py; `value` by gang_start.py, `code` and `returned` by
    scheduling_pass.py, `live` by run_states.py.
    """

    first: Int64
    """[G+1] where a gang's members begin in `members`: first live runs, then queued jobs, as R3"""
    queued_first: Int64
    """[G] where its queued members begin"""
    members: Int64
    min_size: Int64
    rest: Byte
    live: Int64
    """[G] live runs"""
    last_evicted: Int64
    """[G] the last of the evicted members that it needs in the order of R3, of a gang that is no
    group the last of all; -1 for none"""
    returned: Byte
    """[G] whether the evicted members that it needs were handled"""
    last_queued: Int64
    """[G] the last of its queued members in the order of R3, surplus aside, -1 for none"""
    mode: Byte
    """[G]"""
    code: Byte
    """[G] why it waits, 0 = not tried"""
    label: Int64
    value: Int64
    """[G] value of the label that the gang is bound to, -1 = free to choose"""
    waiting_request: Int64
    """[R] what the queued members of the gang at hand need of nodes"""
    offer_request: Int64
    """[R+F] what the offer of the gang at hand needs"""


@by_address
class GroupTables(NamedTuple):
    """Which gangs are groups, and what holds of these. scheduling_pass.py writes `frozen`."""

    grouped: Byte
    """[G] whether it is a group: its surplus members have places of their own in the order"""
    frozen: Byte
    """[G] G7: `FROZEN` and `PROTECTED` of run_states.py"""
    gives_once: Byte
    """[G] whether it is frozen as soon as it gave surplus to an offer (G10)"""
    weighted_time: Float
    """[G] G9, of groups with surplus in queues with `order: fair`, else 0"""
    level: Int64
    """[G] the lowest level of the members that it needs: they preempt as jobs of that level. Above
    all levels for a gang that is not a group"""
    surplus_runs: Int64
    """surplus members that ran when the round started, by queue, in the order of G5 and G10"""
    surplus_first: Int64
    """[Q+1] where each queue begins in them"""


@by_address
class RoleTables(NamedTuple):
    """Roles of gangs; a plain gang has one. The roles of a gang are adjacent rows, the role with
    the costliest members first (G1).

    `live` is written by run_states.py, `left` and `fitting` by gang_placement.py, `assumed` by
    node_victims.py, `full` and `step_left` by scheduling_pass.py.
    """

    first: Int64
    """[G+1] where a gang's roles begin"""
    minimum: Int64
    """[K] members that the gang needs"""
    need: Int64
    """[K] how many must be live for it to go on: the minimum, or as many as ran when fewer did"""
    live: Int64
    """[K] live runs"""
    left: Int64
    """[K] members that the gang at hand still needs"""
    fitting: Int64
    """[K] how many of the needed members were placed when the role did not fit (G11), else -1"""
    assumed: Int64
    """[K] how many members would go"""
    full: Int64
    """[K] counters[N_PREEMPTED] + 1 when no free capacity was found for a member, 0 = not tried"""
    step_left: Int64
    """[K] surplus members that can still start in this round (G8)"""
    base: Byte
    """[J] whether the live run is one of those that its gang needs; all of a gang that is no
    group"""


@by_address
class ValueCapacity(NamedTuple):
    """N7: what is free, and what preemption could free, on the nodes of each label value.

    Values are ranked by what was free when the round started, least first. Written by
    value_capacity.py; `least_waste` and what follows it by gang_start.py.
    """

    rank: Int64
    """[U, N] rank of the value that each position has, -1 = has none or gets nothing new"""
    value: Int64
    """[U, V] values by rank"""
    bits: Bits
    """[U, 2*size] 1 where there are values at or below the tree node"""
    free: Int64
    """[U, 2*size, R] tree over the ranks: what is free on the nodes of each value together"""
    preemptible: Int64
    """[U, 2*size, R] the same with what preemptible runs hold, greatest rank first"""
    counted: Int64
    """[2, N, R] what each position adds: free, with preemptible runs"""
    least_waste: Int64
    """[R] what stays free on the best value so far"""
    tried: Int64
    """values that were tried for the gang at hand"""
    search: Int64
    """[SEARCH_NUMBERS of gang_start.py] how far the search for a value has come"""
    best_lost_work: Float
    """[1] work that would be lost on the best value so far"""
    domains: DomainTables


@by_address
class AvoidedNodes(NamedTuple):
    """N10: nodes that jobs avoid, linked by job; constant during a round."""

    first: Int64
    """[J] last pair of the job, -1; [0] when there are no pairs"""
    link: Int64
    position: Int64


@by_address
class VictimChoice(NamedTuple):
    """The victims on the present node (N2b) and on the best node so far (N4).

    Written by node_victims.py; `chosen` and `chosen_takes_gang` by victim_search.py.
    """

    candidates: Int64
    mark: Byte
    """[J] whether it is assumed to be preempted"""
    taken: Int64
    takes_gang: Int64
    """whether all members of the gang go with `taken`"""
    chosen: Int64
    chosen_takes_gang: Int64
    assumed_held: Int64
    """[Q, R+F] what each queue would lose"""
    need: Int64
    """[R] what is still lacking on the node at hand"""
    examined: Int64
    """positions that the search at hand examined"""


@by_address
class VictimOrder(NamedTuple):
    """The order in which N4 examines nodes, and what preemption could free on each.

    Written by victim_order.py.
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
    """[trees, 2*size, R] trees over the order, for tier (b), then for tier (c): what is free after
    the preemption of all runs below a level"""


@by_address
class RoundModel(NamedTuple):
    """The model of a round: what was prepared, and what the scheduling pass changes."""

    shapes: ShapeTable
    nodes: NodeTable
    jobs: RoundJobs
    entitlements: Entitlements
    avoided: AvoidedNodes
    capacity: NodeCapacity
    usage: QueueUsage
    progress: QueueProgress
    offers: QueueOffers
    placements: Placements
    runs: RunTable
    evicted: EvictedRuns
    gangs: GangTables
    groups: GroupTables
    roles: RoleTables
    values: ValueCapacity
    victims: VictimChoice
    victim_order: VictimOrder
    journal: Int64
    """row + 1 placed, -row - 1 preempted: what an offer did, to undo it or to update what depends
    on it"""
    counters: Int64
    """[COUNTERS] scalars by the N_ constants of round_state.py"""
