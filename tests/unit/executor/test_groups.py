"""Members of groups on an executor: what they wait for, and what they read of the others."""

import json
from collections.abc import Sequence

import msgspec

from fairlead_common.domain.ids import GroupId, RunId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_common.domain.records.leases import (
    DesiredState,
    GroupMembers,
    Lease,
    LeasedMember,
    LiveMember,
)
from fairlead_common.log.protocol import Entry
from fairlead_executor.backends.simulated import SimulatedCluster, Simulation
from fairlead_executor.domain.cluster_protocol import GroupFile
from fairlead_executor.domain.executor_state import ExecutorState
from tests.unit.executor.build import job, lease, run
from tests.unit.executor.test_executor_state import entries, node

GROUP = GroupId(job("g"))


class Cluster(SimulatedCluster):
    """Also remembers group files, and the environments of what it creates."""

    def __init__(self) -> None:
        super().__init__([node("n0")], Simulation(min_s=10), lambda: 0)
        self.files: list[GroupFile] = []
        self.environments: dict[RunId, dict[str, str]] = {}

    def write_group_file(self, group: GroupFile) -> None:
        self.files.append(group)

    def create(self, several: Sequence[Lease], now_ms: int) -> None:
        for each in several:
            self.environments[run(each.job_id)] = each.env
        super().create(several, now_ms)


class World:
    """An executor that reads leases and records of a group."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.state = ExecutorState("e", self.cluster, instance="i")
        self.state.take_over([], 0, None, ())
        self.position = 0

    def read(self, *several: Lease) -> None:
        self.position += len(several)
        self.state.fold_leases(entries(*several, at=self.position), self.position)

    def learn(self, *members: LiveMember, started: tuple[str, ...] = ()) -> None:
        """The scheduler reports the live members of the group."""
        known = GroupMembers(group=GROUP, name="bert", members=members, started=started)
        record = leases.group_record("e", GROUP, known)
        self.position += 1
        self.state.fold_leases(
            [Entry(0, self.position, record.key, record.value, 0)], self.position
        )

    def turn(self, now_ms: int = 0) -> list[str]:
        """One turn; the names of the runs that it creates."""
        plan = self.state.plan(now_ms)
        self.state.apply(plan, now_ms)
        return [create.run for create in plan.actions.creates]


def member(
    name: str, role: str, *, after: tuple[str, ...] = (), master: tuple[str, int] | None = None
) -> Lease:
    place = LeasedMember(
        group=GROUP, name="bert", role=role, index=0, starts_after=after, master=master
    )
    return msgspec.structs.replace(lease(name), member=place)


PS = LiveMember("ps", 0, JobState.RUNNING, "n0", "10.0.0.1")
PENDING_PS = LiveMember("ps", 0, JobState.PENDING, "n0")


def test_a_member_is_created_when_the_roles_before_it_have_started() -> None:
    world = World()
    world.read(member("a", "ps"), member("b", "worker", after=("ps",)))
    assert world.turn() == [run("a")]
    world.learn(PENDING_PS)
    assert world.turn() == []
    world.learn(PS, started=("ps",))
    assert world.turn() == [run("b")]


def test_a_member_that_waits_is_still_waiting_for_the_next_executor() -> None:
    world = World()
    world.read(member("b", "worker", after=("ps",)))
    plan = world.state.plan(0)
    assert plan.heartbeat is not None
    assert plan.heartbeat.leases_waiting == (1,)


def test_a_member_that_waits_can_be_stopped() -> None:
    world = World()
    waiting = member("b", "worker", after=("ps",))
    world.read(waiting)
    assert world.turn() == []
    world.read(lease("b", desired_state=DesiredState.STOP, reason="enough"))
    assert world.turn() == []
    reports = world.state.plan(1).actions.reports
    assert [type(report.event) for report in reports] == [ev.JobRunStopped]


def test_members_that_meet_wait_for_the_address_of_the_master() -> None:
    world = World()
    meet = ("ps", 0)
    world.read(member("a", "ps", master=meet), member("b", "worker", master=meet))
    assert world.turn() == [run("a")]
    assert "MASTER_ADDR" not in world.cluster.environments[run("a")], "its cluster knows it"
    world.learn(PENDING_PS)
    assert world.turn() == []
    world.learn(PS)
    assert world.turn() == [run("b")]
    assert world.cluster.environments[run("b")]["MASTER_ADDR"] == "10.0.0.1"


def test_nobody_waits_for_a_master_that_has_ended() -> None:
    world = World()
    world.read(member("b", "worker", master=("ps", 0)))
    assert world.turn() == []
    known = GroupMembers(group=GROUP, name="bert", master_ended=True)
    record = leases.group_record("e", GROUP, known)
    world.state.fold_leases([Entry(0, 5, record.key, record.value, 0)], 6)
    assert world.turn() == [run("b")]
    assert "MASTER_ADDR" not in world.cluster.environments[run("b")]


def test_the_file_of_a_group_names_its_live_members() -> None:
    world = World()
    world.read(member("a", "ps"))
    world.turn()
    (first,) = world.cluster.files
    assert json.loads(first.content) == {"group": "bert", "members": []}
    assert (first.group, first.runs) == (GROUP, [run("a")])
    world.learn(PS)
    world.turn()
    world.turn(1)
    assert [json.loads(file.content) for file in world.cluster.files[1:]] == [
        {
            "group": "bert",
            "members": [
                {
                    "role": "ps",
                    "index": 0,
                    "host": "n0",
                    "address": "10.0.0.1",
                    "state": "RUNNING",
                }
            ],
        }
    ]


def test_a_stopping_member_still_reads_the_file() -> None:
    world = World()
    world.read(member("a", "ps"))
    world.turn()
    world.read(lease("a", desired_state=DesiredState.STOP))
    world.learn(PS)
    world.turn()
    assert world.cluster.files[-1].runs == [run("a")]


def test_a_group_without_runs_here_has_no_file() -> None:
    world = World()
    world.read(member("a", "ps"))
    world.turn()
    world.state.fold_leases([Entry(0, 9, run("a"), None, 0)], 10)
    world.learn(PS)
    world.turn()
    assert len(world.cluster.files) == 1


def test_only_members_of_groups_report_their_address() -> None:
    world = World()
    world.read(member("a", "ps"), lease("c"))
    world.turn()
    found = {
        report.run: report.event.address
        for report in world.state.plan(5_000).actions.reports
        if isinstance(report.event, ev.JobRunRunning)
    }
    assert found == {run("a"): "n0", run("c"): ""}
