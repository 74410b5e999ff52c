"""Small pools for tests: groups of jobs as the worked cases write them, as the engine gets them."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_scheduler.cases.case_file import Case
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot
from fairlead_scheduler.engine.snapshot import Code

CORES = [{"name": "n", "count": 2, "resources": {"cpu": 4, "memory": "64Gi"}}]
BALANCE = EngineSettings(protected_fraction=0.0)


def world(*groups: dict[str, Any], nodes: Any = CORES, **case: Any) -> World:
    """A world at second 10 in which these groups were submitted."""
    turn = {"at": 10, "submit": [{"memory": "1Gi", **group} for group in groups]}
    settings = {"name": "pool", "nodes": nodes, "rounds": [turn], **case}
    made = World(msgspec.convert(settings, Case))
    made.begin(made.case.rounds[0], 0)
    return made


def pool(*groups: dict[str, Any], nodes: Any = CORES, **case: Any) -> tuple[Snapshot, list[str]]:
    """A snapshot of these groups, and the names of its jobs by row."""
    made = world(*groups, nodes=nodes, **case)
    built = made.build()
    rows = range(built.snapshot.job_node.size)
    return built.snapshot, [str(made.view.jobs.rows.id_at(row)) for row in rows]


def run(id_: str, queue: str, node: str, **more: Any) -> dict[str, Any]:
    """A group of one job (or `count`) that has been running since second 0."""
    return {"id": id_, "queue": queue, "running": {"onNode": node, "since": 0}, **more}


def placed(plan: Plan, names: list[str]) -> list[str]:
    """Who starts."""
    return sorted(names[j] for j in plan.placed_job)


def preempted(plan: Plan, names: list[str]) -> list[str]:
    """Who stops."""
    return sorted(names[j] for j in plan.preempted_job)


def codes(plan: Plan) -> set[Code]:
    """The reasons that somebody waits for."""
    return {Code(int(code)) for code in plan.reasons.code}
