"""How the fold changes groups: rows, the last change, restarts, and public events."""

import msgspec

from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.records import events
from fairlead_lookout.domain.groups.group_records import GroupChange, MemberRow
from tests.unit.lookout.builders import PlainView, job_id, leased, message, submitted

ID = GroupId(job_id("group"))
TERMS = events.Group(roles=(events.GroupRole("worker", 1, 2),))
ANNOUNCED = events.GroupSubmitted(group=ID, terms=TERMS, digest="d", client_id="g")


def member(index: int) -> events.JobSubmitted:
    return submitted(f"worker-{index}", group=events.GroupMember(ID, "worker", index))


def test_a_group_and_its_members_become_rows() -> None:
    view = PlainView()
    changes = view.fold(message(0, ANNOUNCED, member(0), member(1))).groups
    (row,) = changes.new
    assert (row.group_id, row.queue, row.job_set, row.client_id) == (ID, "q", "s", "g")
    assert msgspec.json.decode(row.terms, type=events.Group) == TERMS
    assert changes.members == [
        MemberRow(job_id("worker-0"), ID, "worker", 0, 1),
        MemberRow(job_id("worker-1"), ID, "worker", 1, 1),
    ]
    assert view.types() == ["groupSubmitted", "submitted", "submitted"]
    assert view.published["q", "s"][0]["group"] == ID


def test_a_repeated_submission_changes_nothing_and_is_not_published() -> None:
    view = PlainView()
    view.fold(message(0, ANNOUNCED, member(0)))
    again = view.fold(message(1, ANNOUNCED, member(0)))
    assert (again.groups.new, again.groups.members) == ([], [])
    assert view.types() == ["groupSubmitted", "submitted"]


def test_the_changes_of_a_batch_are_one_row_with_the_newest_of_them() -> None:
    view = PlainView()
    view.fold(message(0, ANNOUNCED, member(0)))
    changes = view.fold(
        message(1, events.GroupRunning(group=ID)),
        message(2, events.GroupRestarting(group=ID, reason="worker-0 failed", counted=True)),
    ).groups
    assert changes.changes == {
        ID: GroupChange(
            group_id=ID,
            state="QUEUED",
            change="groupRestarting",
            reason="worker-0 failed",
            by="anna",
            restarts=1,
            changed_ms=1_000_002,
        )
    }
    assert view.types()[2:] == ["groupRunning", "groupRestarting"]


def test_a_group_that_has_ended_stays_as_it_is() -> None:
    view = PlainView()
    view.fold(message(0, ANNOUNCED, member(0)))
    changes = view.fold(
        message(1, events.GroupSucceeded(group=ID)),
        message(2, events.GroupCancelRequested(group=ID, reason="late")),
    ).groups
    assert (changes.changes[ID].state, changes.changes[ID].change) == (
        "SUCCEEDED",
        "groupSucceeded",
    )
    assert view.types()[2:] == ["groupSucceeded"]


def test_restarts_of_members_are_counted_and_are_no_last_change() -> None:
    view = PlainView()
    view.fold(message(0, ANNOUNCED, member(0)), message(1, leased("worker-0")))
    requeued = events.JobRequeued(
        job_id=job_id("worker-0"), reason="restart 1 of 3 of its group", restarts_of=ID
    )
    changes = view.fold(message(2, requeued)).groups
    assert changes.changes == {ID: GroupChange(group_id=ID, restarts=1)}


def test_a_success_that_its_group_brought_has_a_reason() -> None:
    view = PlainView()
    view.fold(message(0, ANNOUNCED, member(0)), message(1, leased("worker-0")))
    note = "stopped: the group has completed"
    view.fold(message(2, events.JobSucceeded(job_id=job_id("worker-0"), reason=note)))
    assert view.cache.jobs[job_id("worker-0")].reason == note


def test_a_recreated_group_waits_again_without_restarts() -> None:
    view = PlainView()
    view.fold(message(0, ANNOUNCED, member(0)))
    terms = msgspec.structs.replace(TERMS, generation=2)
    changed = events.GroupChanged(
        group=ID, terms=terms, kind=events.GroupChangeKind.RECREATED, reason="template of worker"
    )
    changes = view.fold(
        message(1, events.GroupRestarting(group=ID, reason="x", counted=True)),
        message(2, changed),
        message(3, events.GroupRestarting(group=ID, reason="y", counted=True)),
    ).groups
    change = changes.changes[ID]
    assert (change.state, change.restarts, change.is_recreated) == ("QUEUED", 1, True)
    assert view.types()[2:] == ["groupRestarting", "groupRecreated", "groupRestarting"]


def test_events_of_a_group_are_rows_with_the_roles_that_they_changed() -> None:
    view = PlainView()
    wider = events.Group(roles=(events.GroupRole("worker", 1, 5),))
    updated = events.GroupChanged(
        group=ID, terms=wider, kind=events.GroupChangeKind.UPDATED, reason="priority 3"
    )
    rows = view.fold(
        message(0, ANNOUNCED, member(0)),
        message(1, events.GroupChanged(group=ID, terms=wider)),
        message(2, updated),
        message(3, events.GroupRunning(group=ID)),
    ).groups.events
    assert [row.type for row in rows] == [
        "groupSubmitted", "groupScaled", "groupUpdated", "groupRunning",
    ]  # fmt: skip
    assert [row.roles is None for row in rows] == [False, False, False, True]
    assert msgspec.json.decode(rows[1].roles or "")[0]["max"] == 5
    lines = [msgspec.json.decode(row.line) for row in rows]
    ids = [line["id"].partition("-")[2] for line in lines]
    assert ids == [f"{row.position}-{row.item}" for row in rows]
    assert lines[2]["reason"] == "priority 3"
