"""Crowded clusters from a seed, whose preempted jobs are queued again.

Queues of both orders, groups of roles with a topology or a freeze, gangs whose members differ in
class, single jobs and small arrays: more than the nodes can hold, and of classes that preempt each
other.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from fairlead_common.domain.ids import JobId, array_id, client_job_id
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.cases.case_file import Case, CaseRound, Group
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.rules.array_tasks import TaskCounts, decide_arrays
from fairlead_scheduler.snapshots import BuiltSnapshot

CLASSES: Final = ("p0", "p0", "p0", "p1", "p1", "p2", "p3", "p2u", "p2np", "away", "home")
LEVELS: Final = (["zone", "rack", "hostname"], ["zone", "rack"], ["rack"])
FREEZES_S: Final = (0, 0, 0, 15)


class CrowdedWorld(World):
    """A case of which `add_array` submits arrays: their tasks are released before each round."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._counts = TaskCounts()

    def add_array(self, job: Group, running_max: int | None) -> None:
        """Submit an array of as many tasks as the group has jobs."""
        array = array_id(client_job_id(0, job.queue, "s", job.id))
        template = ev.JobSubmitted(
            job_id=JobId(array),
            shape=job.shape(),
            spec=msgspec.Raw(b"{}"),
            digest="",
            priority=job.priority,
            priority_class=job.priority_class,
        )
        submitted = ev.ArraySubmitted(
            array=array,
            template=template,
            count=job.count,
            indexes=f"0-{job.count - 1}" if job.count > 1 else "0",
            running_max=running_max,
        )
        self.append(job.queue, [submitted])

    def build(self) -> BuiltSnapshot:
        """The snapshot, after tasks were released."""
        for batch in decide_arrays(self.view, self._counts):
            for job_set, fact in batch.facts:
                self.append(job_set.queue, [fact])
        self._counts.update(self.view)
        self.builder.update(self.now_ms)
        return self.builder.build(
            "default",
            now_ms=self.now_ms,
            buckets=self.buckets,
            waiting_tasks=self._counts.waiting,
        )


class Storm:
    """What happens in the cluster of a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._queues = "ABCD"[: self._chance.randint(1, 4)]
        self._made = 0
        self.surplus = 0
        """Surplus members of groups that grow step by step."""
        self.world = CrowdedWorld(msgspec.convert(self._make_case(), Case))

    def _make_case(self) -> dict[str, Any]:
        chance = self._chance
        nodes = [self._make_nodes(number) for number in range(chance.randint(1, 4))]
        queues = {
            queue: {"weight": chance.choice((1, 1, 2)), "order": chance.choice(("fifo", "fair"))}
            for queue in self._queues
        }
        settings = {
            "protectedFractionOfFairShare": chance.choice((0, 0, 0.5, 1.0)),
            "requeuePreempted": True,
            "topology": chance.choice(LEVELS),
            "placement": chance.choice(("best-fit", "best-fit", "spread", "pack")),
        }
        named = {"name": "storm", "settings": settings, "rounds": []}
        return {**named, "nodes": nodes, "queues": queues}

    def _make_nodes(self, number: int) -> dict[str, Any]:
        chance = self._chance
        nodes: dict[str, Any] = {
            "name": f"n{number}x",
            "count": chance.randint(1, 2),
            "resources": {"cpu": chance.randint(2, 8), "memory": f"{chance.randint(4, 16)}Gi"},
            "labels": {"zone": chance.choice("yz"), "rack": chance.choice("abc")},
        }
        if chance.random() < 0.15:
            nodes["taints"] = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
        return nodes

    def submit(self) -> None:
        """Add a few jobs, gangs, groups and arrays."""
        chance = self._chance
        jobs: list[dict[str, Any]] = []
        groups: list[dict[str, Any]] = []
        arrays: list[dict[str, Any]] = []
        for _ in range(chance.randint(2, 6)):
            self._made += 1
            match chance.choice(("jobs", "gang", "mixed", "group", "group", "array")):
                case "jobs":
                    jobs.append(self._make_jobs(f"j{self._made}x"))
                case "gang":
                    jobs.append(self._make_gang(f"e{self._made}x"))
                case "mixed":
                    jobs += self._make_mixed_gang(f"m{self._made}x")
                case "group":
                    groups.append(self._make_group(f"g{self._made}"))
                case "array":
                    arrays.append(self._make_jobs(f"a{self._made}"))
        self.world.begin(msgspec.convert({"submit": jobs, "groups": groups}, CaseRound), 0)
        for array in arrays:
            self.world.add_array(msgspec.convert(array, Group), chance.choice((None, 1, 2)))

    def end_some(self) -> None:
        """Some running jobs succeed, and some groups leave with all their members."""
        world, turn = self.world, CaseRound()
        rows, ends = world.view.jobs.rows, dict[str, bool]()
        queued = world.queued()
        for name in map(rows.id_at, world.view.live_rows().tolist()):
            is_running = world.get_node_of(name) is not None
            if ends.setdefault(name.split("/")[0], self._chance.random() < 0.3):
                if is_running:
                    turn.finish.append(name)
                elif "/" in name and name in queued:
                    turn.cancel.append(name)
        world.begin(turn, 0)

    def pass_time(self, seconds: float) -> None:
        """The time of the next round; nothing else happens."""
        self.world.begin(CaseRound(at=self.world.now_ms / 1000 + seconds), 0)

    def _make_jobs(self, name: str, count_max: int = 6) -> dict[str, Any]:
        chance = self._chance
        return {
            "id": name,
            "queue": chance.choice(self._queues),
            "count": chance.randint(1, count_max),
            "cpu": chance.randint(1, 4),
            "memory": f"{chance.randint(1, 4)}Gi",
            "priorityClass": chance.choice(CLASSES),
            "priority": chance.choice((0, 0, 1, 10)),
        }

    def _make_gang(self, name: str) -> dict[str, Any]:
        chance, jobs = self._chance, self._make_jobs(name)
        gang: dict[str, Any] = {"minSize": chance.randint(1, jobs["count"])}
        if chance.random() < 0.4:
            gang["uniformityLabel"] = "rack"
        return {**jobs, "gang": gang}

    def _make_mixed_gang(self, name: str) -> list[dict[str, Any]]:
        """A gang whose members differ in class and size."""
        parts = [self._make_jobs(f"{name}{part}", 2) for part in "vw"]
        size = sum(part["count"] for part in parts)
        gang = {"name": name, "size": size, "minSize": self._chance.randint(1, size)}
        queue, priority = parts[0]["queue"], parts[0]["priority"]
        return [{**part, "queue": queue, "priority": priority, "gang": gang} for part in parts]

    def _make_group(self, name: str) -> dict[str, Any]:
        chance, roles = self._chance, []
        for letter in "rst"[: chance.randint(1, 3)]:
            least = chance.randint(0, 2)
            role: dict[str, Any] = {
                "name": letter,
                "min": least,
                "max": chance.randint(max(least, 1), least + 3),
                "cpu": chance.randint(1, 3),
                "memory": f"{chance.randint(1, 3)}Gi",
            }
            if chance.random() < 0.3:
                role["priorityClass"] = chance.choice(CLASSES)
            roles.append(role)
        group: dict[str, Any] = {
            "id": name,
            "queue": chance.choice(self._queues),
            "roles": roles,
            "priorityClass": chance.choice(CLASSES),
            "priority": chance.choice((0, 1, 10, 1_000)),
            "freezeSeconds": chance.choice(FREEZES_S),
            "stepMax": chance.choice((0, 0, 0, 1)),
        }
        if group["freezeSeconds"] or group["stepMax"]:
            self.surplus += sum(role["max"] - role["min"] for role in roles)
        if chance.random() < 0.5:
            group["topology"] = {
                "level": chance.choice(("rack", "rack", "zone", "hostname")),
                "mode": chance.choice(("required", "required", "preferred")),
                "scope": chance.choice(("role", "group")),
            }
        return group
