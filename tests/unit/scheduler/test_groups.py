"""Groups of roles in the scheduler's state: terms, members, ranks, ends, the checkpoint."""

import msgspec
import pytest

from fairlead_common.domain.ids import GroupId, JobId, client_job_id
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.domain.surplus_priority import PRIORITY_MIN, SURPLUS_STEP
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.groups import GroupPhase, GroupState, surplus_rank
from fairlead_scheduler.state.jobs.job_table import GangTerms, RoleTerms
from fairlead_scheduler.state.view import View
from fairlead_scheduler.state.view_validation import list_view_violations
from tests.unit.scheduler.facts import fold, leased, message, state, submitted
from tests.unit.scheduler.saved import Table

ID = GroupId(client_job_id(0, "q", "s", "group"))
NAME = job_table.GangName("q", "s", ID)
ROLES = (ev.GroupRole("ps", 1, 1), ev.GroupRole("trainer", 1, 3), ev.GroupRole("board", 0, 1))
TERMS = ev.Group(roles=ROLES, freeze_s=60)


def job(name: str) -> JobId:
    """The id of the member of that name."""
    return client_job_id(0, "q", "s", name)


def member(role: str, index: int, **fields: object) -> ev.AnyEvent:
    """The submission of a member, whose job is named after it."""
    return submitted(job(f"{role}-{index}"), group=ev.GroupMember(ID, role, index), **fields)


def announced(terms: ev.Group = TERMS) -> list[ev.AnyEvent]:
    """The submission of the group with all its members."""
    members = [member(role.name, index) for role in terms.roles for index in range(role.max)]
    return [ev.GroupSubmitted(group=ID, terms=terms, digest="d", client_id="g"), *members]


def rank(view: View, name: str) -> int:
    return surplus_priority.rank_of(view.jobs.priority.item(view.jobs.rows[job(name)]))


def only_group(view: View) -> GroupState:
    (found,) = view.groups.values()
    return found


def finish(*names: str) -> list[ev.AnyEvent]:
    """These members run and succeed."""
    steps: list[ev.AnyEvent] = []
    for name in names:
        job_id = job(name)
        steps += [leased(job_id), ev.JobRunSucceeded(job_id=job_id, run=1)]
        steps.append(ev.JobSucceeded(job_id=job_id))
    return steps


def test_a_group_is_a_gang_with_roles() -> None:
    view = fold(announced())
    roles = (RoleTerms("ps", 1, 1), RoleTerms("trainer", 1, 3), RoleTerms("board", 0, 1))
    assert view.gangs == {NAME: GangTerms(5, 2, None, "wait", roles)}
    assert len(view.gang_members[NAME]) == 5
    assert only_group(view).phase is GroupPhase.QUEUED
    view.validate()


def test_surplus_members_are_ranked_in_the_order_in_which_the_group_grows() -> None:
    view = fold(announced())
    ranks = {name: rank(view, name) for name in ("ps-0", "trainer-0", "trainer-1")}
    assert ranks == {"ps-0": 0, "trainer-0": 0, "trainer-1": 1}
    assert (rank(view, "board-0"), rank(view, "trainer-2")) == (2, 3)


def test_the_ranks_of_all_surplus_members_are_the_numbers_from_one() -> None:
    terms = ev.Group(
        roles=(ev.GroupRole("a", 2, 4), ev.GroupRole("b", 0, 5), ev.GroupRole("c", 1, 2))
    )
    members = [
        ev.GroupMember(ID, role.name, index)
        for role in terms.roles
        for index in range(role.min, role.max)
    ]
    ranks = [surplus_rank(terms, each) for each in members]
    assert sorted(ranks) == list(range(1, 9))
    in_order = sorted(members, key=lambda each: surplus_rank(terms, each))
    assert [f"{each.role}{each.index}" for each in in_order[:4]] == ["a2", "b0", "c1", "a3"]


def test_a_member_keeps_its_rank_and_its_priority_apart() -> None:
    changed = ev.JobReprioritized(job_id=job("trainer-2"), priority=-7)
    view = fold(announced(), [changed])
    counted = view.jobs.priority.item(view.jobs.rows[job("trainer-2")])
    assert (surplus_priority.rank_of(counted), surplus_priority.given_priority(counted)) == (3, -7)


@pytest.mark.parametrize("priority", [PRIORITY_MIN, -1, 0, 5, -1 - PRIORITY_MIN])
@pytest.mark.parametrize("rank", [0, 1, 10_000])
def test_ranks_order_before_priorities(priority: int, rank: int) -> None:
    counted = surplus_priority.lower_priority(priority, rank)
    assert (surplus_priority.rank_of(counted), surplus_priority.given_priority(counted)) == (
        rank,
        priority,
    )
    assert (counted < PRIORITY_MIN) == (rank > 0)


def test_changed_terms_change_minima_and_ranks_and_are_journalled() -> None:
    view = fold(announced())
    place, gangs = view.jobs.journal.end, view.gang_journal.end
    wider = msgspec.structs.replace(
        TERMS, roles=(ROLES[0], ev.GroupRole("trainer", 2, 3), ROLES[2])
    )
    job_fold.fold_messages(view, [message(1, ev.GroupChanged(group=ID, terms=wider))], {})
    assert view.gangs[NAME].min_size == 3
    assert [rank(view, f"trainer-{i}") for i in range(3)] == [0, 0, 1]
    assert (view.jobs.journal.end - place, view.gang_journal.end - gangs) == (2, 1)
    view.validate()


def test_a_member_that_ended_is_not_needed_any_more() -> None:
    view = fold(announced(), finish("trainer-0"))
    assert view.gangs[NAME].roles[1] == RoleTerms("trainer", 0, 3)
    assert only_group(view).succeeded == {"trainer": {0}}
    assert NAME not in view.gang_started, "the others are still a group"
    view.validate()


def test_a_lagging_view_takes_members_that_end_later_for_live_ones() -> None:
    """The checkpoint of another scheduler has their end, which the log brings here as well."""
    known = {job("trainer-0"): job_table.EndedJob(JobState.SUCCEEDED, "", 5_000)}
    view = fold(announced(), finish("trainer-0"), known=known)
    assert only_group(view).succeeded == {"trainer": {0}}
    later = {job("trainer-0"): job_table.EndedJob(JobState.SUCCEEDED, "", 0)}
    view = fold(announced(), known=later)
    assert job("trainer-0") not in view.jobs.rows, "a repeated submission of an ended job"


def test_a_lagging_view_takes_a_group_that_ends_later_for_a_live_one() -> None:
    known = {JobId(ID): job_table.EndedJob(JobState.SUCCEEDED, "", 5_000)}
    assert only_group(fold(announced(), known=known)).phase is GroupPhase.QUEUED


def test_a_new_member_takes_the_place_of_one_that_ended() -> None:
    again = submitted(job("again"), group=ev.GroupMember(ID, "trainer", 0))
    view = fold(announced(), finish("trainer-0"), [again])
    assert view.gangs[NAME].roles[1].min == 1
    assert only_group(view).ended == {"trainer": set()}
    view.validate()


def test_an_ended_group_is_forgotten_with_its_last_member_and_known_as_ended() -> None:
    names = ("ps-0", "trainer-0", "trainer-1", "trainer-2")
    view = fold(announced(), finish(*names), [ev.GroupSucceeded(group=ID)])
    assert only_group(view).is_final
    job_fold.fold_messages(view, [message(3, *finish("board-0"))], {})
    assert not view.groups
    assert view.state_of(JobId(ID)) is JobState.SUCCEEDED
    job_fold.fold_messages(view, [message(4, announced()[0])], {})
    assert not view.groups, "a repeated submission is no new group"
    view.validate()


def test_a_group_that_was_saved_as_ended_is_not_submitted_again() -> None:
    known = {JobId(ID): job_table.EndedJob(JobState.FAILED, "d", 0)}
    view = View()
    repeated = message(0, announced()[0])
    assert job_fold.find_ids_to_look_up(view, [repeated]) == [JobId(ID)]
    job_fold.fold_messages(view, [repeated], known)
    assert not view.groups


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (submitted("x", group=ev.GroupMember(GroupId("none"), "ps", 0)), "does not exist"),
        (submitted("x", group=ev.GroupMember(ID, "none", 0)), "has no member none-0"),
        (submitted("x", group=ev.GroupMember(ID, "ps", 1)), "has no member ps-1"),
        (submitted("x", gang=ev.Gang(ID, 2)), "a group has the id"),
    ],
)
def test_a_member_without_its_group_cannot_start(event: ev.AnyEvent, reason: str) -> None:
    view = fold(announced(), [event])
    rare = view.jobs.rare_properties[view.jobs.rows[JobId("x")]]
    assert reason in rare.cannot_start_reason
    assert rare.gang is None
    view.validate()


def test_the_first_request_to_cancel_a_group_is_noted() -> None:
    first, second = (ev.GroupCancelRequested(group=ID, reason=text) for text in ("enough", "again"))
    view = fold(announced(), [leased(job("ps-0"))], [first, second])
    assert only_group(view).cancel_reason == "enough"
    assert state(view, job("trainer-0")) == "QUEUED", "housekeeping ends it"
    view.validate()


def test_a_restart_is_counted_and_ends_the_request_for_it() -> None:
    view = fold(announced(), [ev.GroupRunning(group=ID)])
    assert only_group(view).phase is GroupPhase.RUNNING
    restart = ev.GroupRestarting(group=ID, reason="trainer-0 failed", counted=True)
    asked = ev.GroupRestartRequested(group=ID, reason="please")
    job_fold.fold_messages(view, [message(2, asked)], {})
    assert only_group(view).restart_reason == "please"
    job_fold.fold_messages(view, [message(3, restart)], {})
    found = only_group(view)
    assert (found.phase, found.restarts, found.restart_reason) == (GroupPhase.QUEUED, 1, None)
    assert found.reason == "trainer-0 failed"


def test_starts_and_stops_of_surplus_members_are_noted_for_the_freeze() -> None:
    view = fold(announced(), [leased(job("ps-0")), leased(job("trainer-0"))])
    assert only_group(view).scaled_ms is None
    job_fold.fold_messages(view, [message(7, leased(job("trainer-1")))], {})
    assert only_group(view).scaled_ms == message(7).time_ms


def test_a_checkpoint_restores_groups_and_their_members() -> None:
    view, table = fold(announced(), finish("trainer-1")), Table()
    table.save(view)
    assert not view.unsaved_groups
    loaded = table.load()
    assert loaded.groups == view.groups
    assert loaded.gangs == view.gangs
    assert loaded.gang_members == view.gang_members
    assert rank(loaded, "trainer-2") == rank(view, "trainer-2")
    loaded.validate()


def test_a_checkpoint_forgets_a_group_that_the_view_has_forgotten() -> None:
    names = [f"{role.name}-{index}" for role in ROLES for index in range(role.max)]
    view, table = fold(announced()), Table()
    table.save(view)
    ended = [*finish(*names), ev.GroupSucceeded(group=ID)]
    job_fold.fold_messages(view, [message(1, *ended)], {})
    table.save(view)
    assert not table.groups
    assert table.ended[JobId(ID)].state is JobState.SUCCEEDED


def test_a_wrong_rank_and_a_lost_group_are_violations() -> None:
    view = fold(announced())
    view.jobs.priority[view.jobs.rows[job("trainer-2")]] -= SURPLUS_STEP
    assert any("surplus ranks are wrong" in each for each in list_view_violations(view))
    view = fold(announced())
    view.groups.clear()
    assert any("does not exist" in each for each in list_view_violations(view))
