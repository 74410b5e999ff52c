"""Nothing starves in a queue with `order: fair` (G9): small clusters over a long virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np

from fairlead_common.domain.ids import JobId
from fairlead_scheduler.cases.case_file import (
    Case,
    CaseRound,
    Group,
    GroupRole,
    Nodes,
    Queue,
    RoleGroup,
    Settings,
)
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.state.jobs.job_table import LIVE_RUN

HOUR_S = 3_600
LEVELS = (10, 100, 1_000, 10_000)


@dataclass
class Cluster:
    """A queue A with `order: fair` beside others, and what waits since which hour."""

    nodes: int
    cpus: int
    needed: set[str] = field(default_factory=set)
    waits_since: dict[str, int] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    longest: int = 0

    def __post_init__(self) -> None:
        node = Nodes(name="n", count=self.nodes, resources={"cpu": self.cpus})
        self.world = World(
            Case(
                name="long",
                nodes=[node],
                rounds=[],
                settings=Settings(requeue_preempted=True),
                queues={"A": Queue(order="fair")},
            )
        )

    def play(self, hour: int, turn: CaseRound, needed: set[str]) -> None:
        """A round at this hour. `needed`: the new jobs that are no surplus members."""
        self.world.begin(msgspec.structs.replace(turn, at=float(hour * HOUR_S)), 0)
        self.needed |= needed
        self.waits_since |= dict.fromkeys(needed, hour)
        decided = self.world.decide()
        for name in decided.preempted:
            if self.started.pop(name, None) is not None and name in self.needed:
                self.waits_since[name] = hour
        for name in decided.placed:
            self.started[name] = hour
            self.longest = max(self.longest, hour - self.waits_since.pop(name, hour))

    def runs(self, name: str) -> bool:
        jobs = self.world.view.jobs
        row = jobs.rows.get(JobId(name))
        return row is not None and bool(LIVE_RUN[jobs.run_state[row]])


def test_a_job_that_ran_long_comes_back_although_new_jobs_never_stop_coming() -> None:
    """Each new job has no running time, so it would go first for ever; what a job has waited takes
    off what it ran."""
    cluster = Cluster(nodes=2, cpus=1)
    ran_h, back = 10, None
    long = Group(id="long", queue="A", cpu=1)
    cluster.play(0, CaseRound(submit=[long]), {"long0"})
    assert cluster.runs("long0")
    for hour in range(1, 40):
        ended = [name for name, at in cluster.started.items() if name != "long0" and at < hour]
        ended = [name for name in ended if cluster.runs(name)]
        new = Group(id=f"new{hour}x", queue="A", count=3, cpu=1)
        turn = CaseRound(submit=[new], finish=ended)
        if hour == ran_h:
            away = cluster.world.get_node_of("long0")
            assert away is not None
            keep = [name for name in ended if cluster.world.get_node_of(name) != away]
            turn.finish, turn.remove_nodes = keep, [away]
            turn.add_nodes = [Nodes(name="m", resources={"cpu": 1})]
        cluster.play(hour, turn, set())
        if hour > ran_h and back is None and cluster.runs("long0"):
            back = hour
    assert back is not None, "new jobs went first for ever"
    assert ran_h < back <= 2 * ran_h + 1
    assert len(cluster.world.queued()) > 10, "the queue was overloaded all the time"


def test_nothing_starves_in_a_virtual_month() -> None:
    """Jobs of the four levels and elastic groups; online services take half of it every day."""
    chance = np.random.default_rng(16)
    cluster = Cluster(nodes=2, cpus=4)
    hours = 30 * 24
    ends_after: dict[str, int] = {}
    groups: dict[str, list[str]] = {}
    for hour in range(hours):
        turn, needed = CaseRound(), set()
        for name, at in list(cluster.started.items()):
            if name in ends_after and hour - at >= ends_after[name]:
                del cluster.started[name]
                members = groups.pop(name, [name])
                turn.finish += [one for one in members if cluster.runs(one)]
                turn.cancel += [
                    one
                    for one in members
                    if not cluster.runs(one) and one in cluster.world.queued()
                ]
        if hour % 24 == 8:
            services = Group(id=f"web{hour}x", queue="B", count=4, cpu=1, priority_class="p3np")
            turn.submit.append(services)
            ends_after |= {f"web{hour}x{n}": 10 for n in range(4)}
        if hour < hours - 48 and chance.random() < 0.7:
            job = Group(id=f"j{hour}x", queue="A", cpu=1, priority=int(chance.choice(LEVELS)))
            turn.submit.append(job)
            needed.add(f"j{hour}x0")
            ends_after[f"j{hour}x0"] = int(chance.integers(1, 7))
        if hour < hours - 48 and chance.random() < 0.16:
            least, most = int(chance.integers(1, 4)), int(chance.integers(4, 9))
            group = RoleGroup(
                id=f"g{hour}",
                queue="A",
                roles=[GroupRole(name="w", min=least, max=most, cpu=1)],
                priority=int(chance.choice(LEVELS)),
                freeze_seconds=HOUR_S // 2,
            )
            turn.groups.append(group)
            first = f"g{hour}/w-0"
            groups[first] = [f"g{hour}/w-{n}" for n in range(most)]
            ends_after[first] = int(chance.integers(2, 9))
            needed.add(first)
        cluster.play(hour, turn, needed)
    assert not cluster.waits_since, "these never started"
    assert cluster.longest <= 24
