"""What executors learn about the members of groups (rule C4), and what members find in their
environment."""

import msgspec

from fairlead_common.domain.ids import run_id
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_common.domain.records.group_terms import GroupNetwork, Rendezvous
from fairlead_common.domain.records.leases import GroupMembers, Lease, LiveMember
from fairlead_scheduler.rules import lease_changes, member_records
from fairlead_scheduler.rules.member_records import GroupRecordChange, GroupRecords
from fairlead_scheduler.state.jobs.job_table import NodeName
from tests.unit.scheduler.facts import submitted
from tests.unit.scheduler.group_world import ID, TERMS, World, job, running, with_terms
from tests.unit.scheduler.test_housekeeping import kept

ORDERED = with_terms(startup=("ps", "worker"))


def lease_on(world: World, name: str, executor: str = "e0", node: str = "n0") -> None:
    """A round gives a member a run."""
    number = world.run(name) + 1
    world.fold(ev.JobRunLeased(job_id=job(name), run=number, executor=executor, node=node))
    world.leases.by_run[run_id(job(name), number)] = lease_changes.lease_state(
        executor, leases.DesiredState.RUN
    )


def run_at(world: World, name: str, address: str) -> None:
    """The run of a member has started."""
    world.fold(ev.JobRunRunning(job_id=job(name), run=world.run(name), address=address))


def learn(world: World) -> dict[str, GroupMembers | None]:
    """What a cycle of housekeeping lets executors know, by their names."""
    return {change.executor: decode(change) for change in changes(world)}


def changes(world: World) -> list[GroupRecordChange]:
    found = kept(world.view, world.leases).group_records
    world.leases.groups.apply(found)
    return found


def decode(change: GroupRecordChange) -> GroupMembers | None:
    value = change.record.value
    assert change.record.key == f"group/{ID}"
    assert change.record.topic == f"fairlead.leases.{change.executor}"
    return None if value is None else leases.decode_group(value)


def new_lease(world: World, name: str) -> Lease:
    """The lease of the next run of a member."""
    role, _, index = name.partition("-")
    given = submitted(job(name), group=ev.GroupMember(ID, role, int(index)))
    row = world.view.jobs.rows[job(name)]
    made = lease_changes.new_lease(world.view, row, given, NodeName("e0", "n0"), ())
    return leases.decode(made.record.value or b"")


def test_each_executor_of_a_group_learns_about_all_live_members() -> None:
    world = World()
    lease_on(world, "worker-1", "e1", "m7")
    lease_on(world, "ps-0")
    run_at(world, "ps-0", "10.0.0.1")
    members = (
        LiveMember("ps", 0, JobState.RUNNING, "n0", "10.0.0.1"),
        LiveMember("worker", 1, JobState.LEASED, "m7"),
    )
    expected = GroupMembers(group=ID, name="g", members=members)
    assert learn(world) == {"e0": expected, "e1": expected}
    assert learn(world) == {}, "nothing has changed"


def test_an_executor_without_runs_of_a_group_forgets_it() -> None:
    world = World()
    lease_on(world, "ps-0")
    lease_on(world, "worker-0", "e1")
    assert set(learn(world)) == {"e0", "e1"}
    world.fold(ev.JobRunReturned(job_id=job("worker-0"), run=1, reason="no"))
    found = learn(world)
    assert found["e1"] is None
    assert found["e0"] is not None
    assert [member.role for member in found["e0"].members] == ["ps"]
    world.settle()
    world.fold(ev.GroupCancelRequested(group=ID, reason="enough"))
    world.settle()
    world.end_stopped("ps-0")
    assert world.leases.groups.by_group == {}


def test_the_address_of_a_run_is_not_that_of_the_run_before() -> None:
    world = World()
    lease_on(world, "ps-0")
    run_at(world, "ps-0", "10.0.0.9")
    world.fold(ev.JobRunLost(job_id=job("ps-0"), run=1, reason="gone"))
    world.settle()
    lease_on(world, "ps-0")
    addresses = []
    for _ in range(2):
        members = learn(world)["e0"]
        assert members is not None
        addresses += [member.address for member in members.members]
        run_at(world, "ps-0", "10.0.0.5")
    assert addresses == ["", "10.0.0.5"]


def test_a_role_has_started_when_its_minimum_runs() -> None:
    world = World(with_terms(startup=("worker", "ps")))
    for name in ("ps-0", "worker-0", "worker-1", "worker-2"):
        lease_on(world, name)
    run_at(world, "worker-0", "a")
    found = learn(world)["e0"]
    assert found is not None
    assert found.started == ()
    run_at(world, "worker-2", "a")
    found = learn(world)["e0"]
    assert found is not None
    assert found.started == ("worker",)


def test_a_group_that_starts_again_waits_for_its_new_runs() -> None:
    world = running(ORDERED)
    assert world.leases.groups.by_group[ID]
    world.fold(ev.GroupRestartRequested(group=ID, reason="again"))
    world.settle()
    world.end_stopped("ps-0", "worker-0", "worker-1", "worker-2")
    assert world.leases.groups.by_group == {}, "before new leases: no role counts as started"
    lease_on(world, "ps-0")
    found = learn(world)["e0"]
    assert found is not None
    assert found.started == ()


def test_members_of_later_roles_wait_for_those_before_them() -> None:
    world = World(ORDERED)
    first, later = new_lease(world, "ps-0").member, new_lease(world, "worker-1").member
    assert first is not None
    assert first.starts_after == ()
    assert later == leases.LeasedMember(
        group=ID, name="g", role="worker", index=1, starts_after=("ps",)
    )


def test_a_new_leader_writes_what_executors_do_not_have() -> None:
    world = World()
    lease_on(world, "ps-0")
    value = changes(world)[0].record.value or b""
    known = GroupRecords()
    known.read_back("e0", ID, value)
    known.read_back("e9", ID, b"{}")
    world.view.group_records_due |= member_records.list_all(world.view, known)
    found = list(member_records.decide_group_records(world.view, known))
    assert [(change.executor, change.digest) for change in found] == [("e9", None)]


def test_groups_beyond_the_bound_of_a_cycle_wait_unless_members_wait_for_them() -> None:
    for terms, expected in ((TERMS, []), (ORDERED, ["e0"])):
        world = World(terms)
        lease_on(world, "ps-0")
        due = member_records.decide_group_records(world.view, GroupRecords(), members_max=0)
        assert [change.executor for change in due] == expected
        assert (ID in world.view.group_records_due) is (terms is TERMS)


def test_the_record_of_a_very_large_group_stays_within_the_limit_of_the_log() -> None:
    rows = [LiveMember("worker", n, JobState.RUNNING, "n" * 200, "10.0.0.1") for n in range(9_000)]
    members = GroupMembers(group=ID, name="g", members=tuple(rows))
    found = member_records.shorten_members(members)
    assert len(found.members) == 9_000
    assert {member.host for member in found.members} == {""}
    short = member_records.shorten_members(members, bytes_max=10_000)
    assert 0 < len(msgspec.json.encode(short)) <= 10_000
    assert short.members[0].address == "10.0.0.1"
    few = msgspec.structs.replace(members, members=tuple(rows[:2]))
    assert member_records.shorten_members(few) == few


def test_torch_members_have_their_rank_and_meet_at_the_first_one() -> None:
    network = GroupNetwork(rendezvous=Rendezvous.TORCH)
    roles = (ev.GroupRole("board", 0, 1), ev.GroupRole("ps", 1, 1), ev.GroupRole("worker", 2, 3))
    world = World(msgspec.structs.replace(TERMS, roles=roles, network=network))
    found = {name: new_lease(world, name) for name in world.names.values()}
    ranks = {name: lease.env["RANK"] for name, lease in found.items()}
    assert ranks == {"ps-0": "0", "worker-0": "1", "worker-1": "2", "board-0": "3", "worker-2": "4"}
    assert {lease.env["WORLD_SIZE"] for lease in found.values()} == {"3"}
    (port,) = {int(lease.env["MASTER_PORT"]) for lease in found.values()}
    assert 10_000 <= port < 30_000
    assert {lease.member.master for lease in found.values() if lease.member} == {("ps", 0)}


def test_nobody_waits_for_a_first_member_that_has_succeeded() -> None:
    network = GroupNetwork(rendezvous=Rendezvous.TORCH)
    world = running(with_terms(network=network, completion_roles=()))
    world.succeed("ps-0")
    member = new_lease(world, "worker-0").member
    assert member is not None
    assert member.master is None
    world.view.group_records_due.add(ID)
    world.leases.groups.by_group.clear()
    found = learn(world)["e0"]
    assert found is not None
    assert found.master_ended


def test_groups_without_rendezvous_have_no_variables_of_frameworks() -> None:
    env = new_lease(World(), "ps-0").env
    assert not {"RANK", "MASTER_PORT"} & env.keys()
