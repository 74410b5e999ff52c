"""Rules E read plainly: what the reasons of a plan must say, worked out row by row and job by job.

As in `plain`, nothing here uses the engine's own code.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from fairlead_scheduler.engine import Plan
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.snapshot import Bucket, Code, Match, NodeFlag, Preemption
from tests.properties.engine.plain import MARGIN, Amounts, Pool, after, plus
from tests.properties.engine.plain_progress import kind_of, strictest

WORDS = {Match.TAINT: Bucket.TAINT, Match.LABEL: Bucket.LABEL, Match.AFFINITY: Bucket.AFFINITY}


def check_reasons(pool: Pool, plan: Plan) -> None:
    """E1 and E3 of every (queue, shape) that waits."""
    node, value = after(pool, plan)
    used = pool.used(node)
    nodes = range(len(pool.snapshot.node_number))
    free = [plus(pool.allocatable(n), used[n], -1) for n in nodes]
    reasons = plan.reasons
    for row in range(reasons.code.size):
        if reasons.gang[row] >= 0 or reasons.waiting[row] <= 0:
            continue
        shape = int(reasons.shape[row])
        counted = Counter(ruled_out_by(pool, shape, n, free[n]) for n in nodes)
        node_counts = {Bucket(b): c for b, c in enumerate(reasons.counts[row].tolist()) if c}
        assert node_counts == dict(counted), f"nodes of row {row}"
        code = Code(int(reasons.code[row]))
        if code in (Code.INSUFFICIENT_RESOURCES, Code.OVER_FAIR_SHARE):
            want = share_would_do(pool, plan, row, node, value, free)
            assert want is None or want == (code is Code.OVER_FAIR_SHARE), f"row {row}: {code}"
        if code is Code.OVER_FAIR_SHARE:
            check_sentence(pool, plan, row, node)


def check_sentence(pool: Pool, plan: Plan, row: int, node: list[int]) -> None:
    """E1: what the sentence says of other queues and of the queue's own share is so."""
    q = int(plan.reasons.queue[row])
    text = reason_texts.describe_reason(pool.snapshot, plan, row)
    held = [(0,) * len(pool.whole[0]) for _ in pool.snapshot.queue_names]
    could_go = set()
    for k, n in enumerate(node):
        if n >= 0 and not pool.lost(n):
            held[pool.queue(k)] = plus(held[pool.queue(k)], pool.whole[k])
            if pool.node[k] >= 0 and kind_of(pool, strictest(pool), k) == Preemption.ANY:
                could_go.add(pool.queue(k))
    shapes = pool.snapshot.job_shape.tolist()
    whole = pool.whole[shapes.index(int(plan.reasons.shape[row]))]
    mine, weights = pool.cost(plus(held[q], whole)), pool.weights()
    above = pool.settings.protected_fraction
    for other in could_go - {q}:
        entitled = max(plan.shares.fair[other], plan.shares.weight[other])
        if pool.cost(pool.held()[other]) <= above * entitled + MARGIN:
            continue
        more = pool.cost(held[other]) / weights[other] - mine / weights[q]
        assert "hold no more" not in text or more < MARGIN, f"row {row}: {other} holds more"
    if "would exceed its fair share" in text:
        assert mine > plan.shares.fair[q] - MARGIN, f"row {row}: queue {q} stays within its share"


def ruled_out_by(pool: Pool, shape: int, n: int, free: Amounts) -> Bucket:
    """E3: the first thing that rules the node out."""
    s = pool.snapshot
    flags = int(s.node_flags[n])
    if flags & NodeFlag.LOST:
        return Bucket.LOST
    if flags & NodeFlag.AVOIDED:
        return Bucket.AVOIDED
    if flags & NodeFlag.CORDONED:
        return Bucket.CORDONED
    if pool.overfull(n):
        return Bucket.OVERFULL
    if flags & NodeFlag.LAGGING:
        return Bucket.LAGGING
    matches = s.shape_match[shape, :, s.node_type[n]].tolist()
    if Match.ELIGIBLE not in matches:
        return WORDS[Match(matches[0])]
    request = s.shape_request[shape].tolist()
    if any(r > a for r, a in zip(request, pool.allocatable(n), strict=True)):
        return Bucket.TOO_SMALL
    return Bucket.BUSY if any(r > f for r, f in zip(request, free, strict=True)) else Bucket.OPEN


def share_would_do(
    pool: Pool, plan: Plan, row: int, node: list[int], value: list[int], free: list[Amounts]
) -> bool | None:
    """E1, `over-fair-share`: a node would have room if runs that a share could give were gone.

    None where shares are so close that only the engine's tolerance decides.
    """
    s, strict = pool.snapshot, strictest(pool)
    q, shape = int(plan.reasons.queue[row]), int(plan.reasons.shape[row])
    own = int(s.class_value[s.shape_class[shape]])
    held = [(0,) * len(pool.whole[0]) for _ in s.queue_names]
    for k, n in enumerate(node):
        if n >= 0 and not pool.lost(n):
            held[pool.queue(k)] = plus(held[pool.queue(k)], pool.whole[k])
    before, weights = pool.held(), pool.weights()
    whole = next(pool.whole[j] for j, at in enumerate(s.job_shape.tolist()) if at == shape)
    mine = pool.cost(plus(held[q], whole)) / weights[q]
    close = False
    for n in range(len(s.node_number)):
        eligible = s.shape_match[shape, 0, s.node_type[n]] == Match.ELIGIBLE
        if not eligible or s.node_flags[n] or pool.overfull(n):
            continue
        free_capacity = free[n]
        for k, at in enumerate(node):
            other = pool.queue(k)
            soft = kind_of(pool, strict, k) == Preemption.ANY
            if at != n or other == q or not soft or value[k] > own:
                continue
            entitled = max(plan.shares.fair[other], plan.shares.weight[other])
            above = pool.cost(before[other]) - pool.settings.protected_fraction * entitled
            more = pool.cost(held[other]) / weights[other] - mine
            ran = pool.node[k] >= 0
            close |= abs(more) < MARGIN or (ran and abs(above) < MARGIN)
            if (ran and above > 0) or more <= 0:
                free_capacity = plus(free_capacity, pool.request[k])
        if all(r <= f for r, f in zip(s.shape_request[shape].tolist(), free_capacity, strict=True)):
            return None if close else True
    return None if close else False


def check_preemptors(pool: Pool, plan: Plan) -> None:
    """No run was preempted for a further member of a gang (E5, N8): for members of a gang that
    runs, and for no more members than it needs to start. Members that were left over when their
    gang had ended are offers of their own (N9)."""
    s = pool.snapshot
    if s.gang_min is None or s.gang_started is None:
        return
    runs = {pool.gang(j) for j, n in enumerate(pool.node) if n >= 0}
    preemptors: dict[int, set[int]] = defaultdict(set)
    for j, preemptor in zip(plan.preempted_job.tolist(), plan.preemptor_job.tolist(), strict=True):
        g = pool.gang(preemptor)
        if g < 0 or (s.gang_started[g] and g not in runs):
            continue
        preemptors[g].add(preemptor)
        most = 0 if g in runs else int(s.gang_min[g])
        assert len(preemptors[g]) <= most, f"{j} was preempted for a further member (N8)"
