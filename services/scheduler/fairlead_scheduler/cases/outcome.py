"""The decisions of one round of a case by name, as `--json` prints them."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_common.domain.ids import JobId
from fairlead_scheduler.engine import Plan
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.rules import plan_batches
from fairlead_scheduler.snapshots import BuiltSnapshot
from fairlead_scheduler.state.jobs.job_index import JobIndex


class RoundResult(msgspec.Struct, rename="camel", omit_defaults=False):
    """The decisions of one round, as `--json` prints them."""

    case: str
    round: int
    placed: dict[str, str]
    preempted: dict[str, dict[str, str]]
    waiting: dict[str, str]
    sentences: dict[str, str]
    """Why each job that waits does, in words."""
    rejected: dict[str, str]
    failed: dict[str, str]
    shares: dict[str, dict[str, float]]
    ms: float
    hops: dict[str, int] | UnsetType = UNSET
    """By `group/role`, the distance of its farthest members (T5); unset without a topology."""


def name_decisions(
    case: str, number: int, names: JobIndex, built: BuiltSnapshot, plan: Plan, ms: float
) -> RoundResult:
    """The plan with the names of jobs and nodes; `names` is the index of the view."""
    ids = names.ids_at(range(built.snapshot.job_node.size))
    placed = zip(plan.placed_job.tolist(), plan.placed_node.tolist(), strict=True)
    preempted = zip(
        plan.preempted_job.tolist(),
        plan.preempted_cause.tolist(),
        plan.preemptor_job.tolist(),
        strict=True,
    )
    reasons = _find_reasons(built, plan, ids)
    codes = plan.reasons.code.tolist()
    sentences = {
        row: reason_texts.describe_reason(built.snapshot, plan, row) for row in {*reasons.values()}
    }
    return RoundResult(
        case=case,
        round=number,
        placed={ids[job]: built.nodes[node].node for job, node in placed},
        preempted={
            ids[job]: {
                "cause": plan_batches.CAUSES[engine.Cause(cause)].value,
                "for": ids[preemptor],
            }
            for job, cause, preemptor in preempted
        },
        waiting=_coded(reasons, [codes[row] for row in reasons.values()]),
        sentences={name: sentences[row] for name, row in reasons.items()},
        rejected=_coded(
            map(ids.__getitem__, plan.rejected_job.tolist()), plan.rejected_code.tolist()
        ),
        failed=_coded(map(ids.__getitem__, plan.failed_job.tolist()), plan.failed_code.tolist()),
        shares=_shares(built, plan),
        ms=round(ms, 3),
        hops=_hops(built, plan),
    )


def _hops(built: BuiltSnapshot, plan: Plan) -> dict[str, int] | UnsetType:
    snapshot = built.snapshot
    if plan.nearness is None or snapshot.role_gang is None:
        return UNSET
    roles = zip(snapshot.role_gang.tolist(), plan.nearness.role_hops.tolist(), strict=True)
    return {
        f"{built.gangs[gang].name}/{snapshot.role_names[row]}": hops
        for row, (gang, hops) in enumerate(roles)
        if hops >= 0
    }


def _shares(built: BuiltSnapshot, plan: Plan) -> dict[str, dict[str, float]]:
    kinds = ("weight", "fair", "uncapped", "actual", "demand")
    return {
        name: {kind: float(getattr(plan.shares, kind)[row]) for kind in kinds}
        for row, name in enumerate(built.snapshot.queue_names)
    }


def _coded(names: Iterable[str], codes: Iterable[int]) -> dict[str, str]:
    return {
        name: reason_texts.CODE_NAMES[engine.Code(code)]
        for name, code in zip(names, codes, strict=True)
    }


def _find_reasons(built: BuiltSnapshot, plan: Plan, ids: Sequence[JobId]) -> dict[str, int]:
    """The row of the reason of every queued job that still waits after the round."""
    snapshot, reasons = built.snapshot, plan.reasons
    columns = (reasons.queue.tolist(), reasons.shape.tolist(), reasons.gang.tolist())
    row_of = {key: row for row, key in enumerate(zip(*columns, strict=True))}
    done = {*plan.placed_job.tolist(), *plan.rejected_job.tolist(), *plan.failed_job.tolist()}
    waiting: dict[str, int] = {}
    for job, node in enumerate(snapshot.job_node.tolist()):
        if node != -1 or job in done:  # it runs, or the row is free
            continue
        queue, shape = int(snapshot.job_queue[job]), int(snapshot.job_shape[job])
        gang = -1 if snapshot.job_gang is None else int(snapshot.job_gang[job])
        row = row_of.get((queue, -1, gang)) if gang >= 0 else None
        row = row_of.get((queue, shape, -1)) if row is None else row
        if row is not None:
            waiting[ids[job]] = row
    return waiting
