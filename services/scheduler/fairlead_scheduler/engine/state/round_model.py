"""The model of a round: the structures of arrays that its kernels share.

Each structure has one purpose, and its docstring names the modules that write it after the
preparation. Every kernel takes the whole `RoundModel`, which is passed as one address (see
address_types.py), so a call costs the same whatever the callee reads.

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
from fairlead_scheduler.engine.state.victim_tables import VictimChoice


@by_address
class ShapeTable(NamedTuple):
    """What jobs of each shape request and where they can run; constant during a round."""

    request: Int64
    """[S, R] what a job requests of its node"""
    full_request: Int64
    """[S, R+F] the same with floating resources"""
    cost: Float
    """[S] cost of one job"""
    priority_class: Int64
    """[S]"""
    class_value: Int64
    """[S]"""
    preemption: Byte
    """[S] `Preemption`"""
    type_rank: Byte
    """[S, W, T] rank of the node type for the shape, 0 preferred most; P or more = not eligible"""
    type_bits: Bits
    """[S, W, P] eligible types as bits, for each of P ranks"""
    level: Int64
    """[S, W] level of the value at which a job runs, home or away; -1 = no such entry"""
    least_request: Int64
    """[R] the least that any shape needs"""


@by_address
class NodeTable(NamedTuple):
    """The nodes by position; constant during a round."""

    node_type: Int64
    """[N]"""
    number: Int64
    """[N] the permanent number of the node"""
    waste_order: Int64
    """resources in the order in which waste is compared (N3)"""
    value_first: Int64
    """[U, V+1] where the positions with a label value begin in `value_positions`"""
    value_positions: Int64
    """[U, N] positions by label value, in the order of N3"""


@by_address
class AvoidedNodes(NamedTuple):
    """N10: the nodes that jobs avoid, as linked lists; constant during a round."""

    first: Int64
    """[J] a pair of the job, -1 = none; [0] if there are no pairs"""
    link: Int64
    """[A] the next pair of the same job, -1 = none"""
    position: Int64
    """[A] the position of the avoided node"""


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
    """[J] number in `RoleTables`, -1 for a job without a gang"""
    priority: Int64
    """[J] lowered for surplus members, see surplus.py"""
    submission: Int64
    order: Int32
    """rows of queued jobs in the order of R3, queue by queue"""
    order_end: Int64
    """[Q] where the rows of each queue end in `order`"""
    avoided: AvoidedNodes
    level_max: Int64
    """[J] the highest level at which a member of a gang preempts (N8, G6); empty without gangs"""


@by_address
class Entitlements(NamedTuple):
    """What queues are entitled to, the limits, and the time ([1]); constant during a round."""

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
    """[R+F] L7: what is left when the round starts; a huge number for resources of nodes"""
    now_ms: Int64
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
    """[S, W, P] no earlier position of this rank has free capacity for the shape"""
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
    """[Q, R+F] what live runs hold, including evicted runs that were not preempted yet (R13),
    without the victims that node_victims.py assumes"""
    counted: Int64
    """[Q, R+F] the same as R4 counts it: evicted runs only once they have returned"""
    by_class: Int64
    """[Q, C, R+F] what live runs hold by priority class (L2)"""
    started: Int64
    """[R+F] what jobs that start in this round request (L3)"""
    tokens: Float
    """[1+Q+1] tokens left: in the global bucket, in the bucket of each queue, for preemptions"""
    share_steps: Int64
    """[Q] held / entitled share in steps of 1e-9 (N2b)"""
    evicted_runs: Int64
    """[Q] evicted runs that have neither returned nor been preempted"""


@by_address
class QueueProgress(NamedTuple):
    """How far each queue has come in its order, and what it no longer tries.

    Written by offers.py, queue_selection.py and scheduling_pass.py; `skip_code`, `unfit_queues`,
    `jobs_left` and `open_shapes` by round_state.py, and by placement.py where capacity was freed.
    """

    skip_code: Byte
    """[Q, S] why jobs of this shape are skipped, 0 = they are not"""
    unfit_queues: Int64
    """[S] how many queues skip the shape because no node has capacity for it"""
    jobs_left: Int32
    """[Q, S] single queued jobs that were not handled yet"""
    open_shapes: Int64
    """[Q] shapes that are not skipped and have jobs left"""
    members_left: Int64
    """[Q] queued members of gangs behind `next_queued`"""
    stop_code: Byte
    """[Q] why the queue alone stopped, 0 = it did not"""
    examined: Int64
    """[Q] queued jobs that were examined (L5)"""
    next_queued: Int64
    """[Q] place in `RoundJobs.order` of the first offer, or where the search for it continues"""
    next_within: Int64
    """[Q] place in `RoundJobs.order` where the search for an offer within budget continues"""
    handled: Byte
    """[J] whether the job was handled before an earlier one of its queue"""
    unfit: Int64
    """[Q, 2] job of the offer that last did not fit on free capacity, counters[N_PREEMPTED] then"""
    next_evicted: Int64
    """[Q] place in `EvictedRuns.rows`"""
    next_member: Int64
    """[Q] place in `GangTables.members` of the next further member of the gang at hand"""
    members_end: Int64
    """[Q] where these further members end"""


@by_address
class QueueOffers(NamedTuple):
    """What each queue offers, and the heap of queues by R4.

    Written by offers.py and queue_selection.py.
    """

    kind: Byte
    """[Q] `NEW_JOB` to `NO_OFFER` of round_state.py"""
    job: Int64
    """[Q] the job, or the last member of the gang that the offer contains"""
    heap: Int64
    """[Q] queues that have an offer, as a binary heap by R4"""
    class_value: Int64
    """[Q] R4 (1)"""
    over_budget: Bool
    """[Q] whether the queue is over budget with the offer"""
    share: Float
    """[Q] the current share if the offer is within budget, the proposed share if it is over it"""
    size: Float
    """[Q] cost x weight of the offer"""
    runs: Bool
    """[Q] whether the offer is of evicted runs"""
    replaces_first: Bool
    """[Q] whether the offer is within budget and replaces the first offer of the queue"""
    fits_free_at: Int64
    """[Q] counters[N_PLACED] + 1 when the offer, over budget and before one within budget, was last
    found to fit on free capacity; 0 for all other offers"""


@by_address
class Placements(NamedTuple):
    """What was placed, and what can be undone of the present offer. Written by run_states.py.

    Filled up to counters[N_PLACED], the journal up to counters[N_JOURNAL].
    """

    job: Int32
    position: Int32
    away: Int32
    """column of W: 0 at home, else 1 + the away entry"""
    journal: Int32
    """what the present offer did: row + 1 of a placed job, -row - 1 of a preempted run"""


@by_address
class RunTable(NamedTuple):
    """Runs and placements: their state, and the job for which each was preempted.

    Written by run_states.py; `urgency_loss` by placement.py.
    """

    active: int
    """0 if nothing can be preempted and there are no gangs: then no table of these is read"""
    state: Byte
    """[J]"""
    position: Int64
    """[J] meaningless for a job without a run, as the next four are"""
    level: Int64
    """[J] level of the value at which it runs"""
    preemption: Byte
    """[J] `Preemption`, the strictest of its gang; NONE for a run that is stopping"""
    lost_work: Float
    """[J] R9, in steps of `eviction.LOST_STEPS`"""
    started: Int64
    """[J] when its run started; the time of the round for new placements"""
    head: Int64
    """[N] the run that was linked to each position last, -1 = none"""
    link: Int64
    """[J] the run that was linked to the same position before, -1 = none"""
    tier: Byte
    """[J] the tier of a placement"""
    cause: Byte
    """[J] why it was preempted"""
    preemptor: Int64
    """[J] the job that it was preempted for"""
    share_before: Float
    """[J] E5: held / entitled share of its queue before it was preempted"""
    state_before: Int64
    """[J] its state before it was preempted"""
    urgency_loss: Float
    """[J] work that would be lost for a placement on tier (c)"""


@by_address
class EvictedRuns(NamedTuple):
    """The runs that R2 evicted, in the order of R3 and as single victims.

    Only two of them change: `cheapest_next`, which victim_search.py advances and run_states.py
    resets, and `gang_returned`, which scheduling_pass.py sets.
    """

    rows: Int64
    """[J] in the order of R3, queue by queue, as many as there are"""
    end: Int64
    """[Q] where each queue ends in `rows`"""
    cheapest: Int64
    """[J] the same runs by queue, then as single victims of N4, the cheapest first"""
    cheapest_next: Int64
    """[Q] place in `cheapest` before which no run of the queue is evicted any more"""
    cheapest_first: Int64
    """[Q+1] where each queue begins in `cheapest`"""
    priority: Int64
    """[Q] the priority of all the queue's evicted runs; a huge number where they differ"""
    gang_last: Int64
    """[G] the last one, in the order of R3, of the evicted members that each gang needs; -1 =
    none"""
    gang_returned: Byte
    """[G] whether the evicted members that each gang needs were handled"""


@by_address
class GroupTables(NamedTuple):
    """Properties of gangs that are groups. scheduling_pass.py writes `frozen`."""

    grouped: Byte
    """[G] whether the gang is a group: its surplus members are offered one by one"""
    frozen: Byte
    """[G] G7: `FROZEN` and `PROTECTED` of run_states.py"""
    gives_once: Byte
    """[G] whether it freezes as soon as it lost a surplus member to an offer (G10)"""
    weighted_time: Float
    """[G] G9, of groups with surplus in queues with `order: fair`, else 0"""
    surplus_runs: Int64
    """surplus members that ran when the round started, by queue, in the order of G5 and G10"""
    surplus_first: Int64
    """[Q+1] where each queue begins in `surplus_runs`"""


@by_address
class RoleTables(NamedTuple):
    """Roles of gangs, in adjacent rows, costliest members first (G1); a plain gang has one.

    `live` is written by run_states.py, `left` and `fitting` by gang_placement.py, `assumed` by
    node_victims.py, `full` and `step_left` by scheduling_pass.py.
    """

    first: Int64
    """[G+1] where a gang's roles begin"""
    minimum: Int64
    """[K] members that the gang needs"""
    need: Int64
    """[K] how many must be live to continue: the minimum, or as many as ran if fewer did"""
    live: Int64
    """[K] live runs"""
    left: Int64
    """[K] scratch: members that the present gang still needs"""
    fitting: Int64
    """[K] how many of the needed members were placed when the role did not fit (G11), else -1"""
    assumed: Int64
    """[K] how many members are assumed to be preempted"""
    full: Int64
    """[K] counters[N_PREEMPTED] + 1 when no free capacity was found for a member last, 0 = never"""
    step_left: Int64
    """[K] surplus members that can still start in this round (G8)"""
    base: Byte
    """[J] whether its gang needs the live run; True for all members of a plain gang"""


@by_address
class GangTables(NamedTuple):
    """Gangs: their members, what they need, and their progress.

    Written by gang_placement.py; `value` by gang_start.py, `code` by scheduling_pass.py, `live` by
    run_states.py.
    """

    first: Int64
    """[G+1] where the members of each gang begin in `members`, live ones before queued ones"""
    queued_first: Int64
    """[G] where its queued members begin"""
    members: Int64
    min_size: Int64
    rest: Byte
    live: Int64
    """[G] live runs"""
    last_queued: Int64
    """[G] the last one, in the order of R3, of its queued members, surplus aside; -1 = none"""
    mode: Byte
    """[G] how its queued members are offered: `GANG_WAITS` and others of run_states.py"""
    code: Byte
    """[G] why it waits, 0 = it was not tried"""
    label: Int64
    """[G] row of its uniformity label, -1 = none"""
    value: Int64
    """[G] value of the label to which it is bound, -1 = it can choose"""
    waiting_request: Int64
    """[R] scratch: what queued members of the present gang request of nodes together"""
    offer_request: Int64
    """[R+F] scratch: what the offer of the present gang requests"""
    groups: GroupTables
    roles: RoleTables


@by_address
class ValueCapacity(NamedTuple):
    """N7: what is free, and what preemption could free, on the nodes of each label value.

    Values are ranked by what was free when the round started, least first. Written by
    value_capacity.py; `least_waste` and what follows it by gang_start.py.
    """

    rank: Int64
    """[U, N] rank of the value of each position, -1 = it has none or accepts no new jobs"""
    value: Int64
    """[U, V] values by rank"""
    bits: Bits
    """[U, 2*size] 1 where there are values at or below the tree node"""
    free: Int64
    """[U, 2*size, R] tree over the ranks: what is free on the nodes of each value together"""
    preemptible: Int64
    """[U, 2*size, R] the same with what preemptible runs hold, the greatest rank first"""
    counted: Int64
    """[2, N, R] what each position adds to `free` (0) and to `preemptible` (1)"""
    least_waste: Int64
    """[R] what would stay free on the best value so far"""
    tried: Int64
    """values that were tried on free capacity for the present gang"""
    search: Int64
    """[SEARCH_NUMBERS of gang_start.py] how far the search for a value has come"""
    best_lost_work: Float
    """[1] work that would be lost on the best value so far"""
    domains: DomainTables


@by_address
class RoundModel(NamedTuple):
    """The model of a round: what was prepared, and what the scheduling pass changes."""

    shapes: ShapeTable
    nodes: NodeTable
    jobs: RoundJobs
    entitlements: Entitlements
    capacity: NodeCapacity
    usage: QueueUsage
    progress: QueueProgress
    offers: QueueOffers
    placements: Placements
    runs: RunTable
    evicted: EvictedRuns
    gangs: GangTables
    values: ValueCapacity
    victims: VictimChoice
    counters: Int64
    """[COUNTERS] scalars by the N_ constants of round_state.py"""
