"""What the runs of members and the events of a group say of how it was scaled."""

from typing import Any

from fairlead_common.domain.records.group_terms import GroupRole
from fairlead_lookout.domain.groups import group_scalings
from fairlead_lookout.domain.groups.group_scalings import MemberRun, RoleTerms, Scaling

TERMS = [RoleTerms(0, {"ps": GroupRole("ps", 1, 1), "worker": GroupRole("worker", 2, 6)})]


def run(index: int, role: str = "worker", leased_ms: int = 10, **fields: Any) -> MemberRun:
    plain: dict[str, Any] = {
        "ended_ms": None, "cause": None, "reason": None, "follows_failure": False,
        "is_repeated": False,
    }  # fmt: skip
    return MemberRun(role=role, index=index, leased_ms=leased_ms, **(plain | fields))


def started(time_ms: int, *indexes: int) -> Scaling:
    return Scaling(time_ms, "worker", "started", indexes, reason="free capacity")


def test_surplus_members_that_start_together_are_one_scaling() -> None:
    runs = [run(0, "ps"), run(0), run(1), run(3), run(2), run(4, leased_ms=20)]
    assert group_scalings.list_scalings(runs, TERMS) == [started(20, 4), started(10, 2, 3)]


def test_surplus_that_is_taken_is_a_scaling_with_its_reason() -> None:
    runs = [
        run(2, ended_ms=30, cause="surplus", reason="its capacity goes to job a"),
        run(3, ended_ms=40, cause="fair-share"),
        run(4, ended_ms=50, cause="group", reason="the group restarts"),
        run(5, ended_ms=60, reason="exit code 0"),
        run(1, ended_ms=70, cause="fair-share", reason="the group breaks"),
    ]
    found = group_scalings.list_scalings(runs, TERMS)
    assert [each for each in found if each.change != "started"] == [
        Scaling(40, "worker", "stopped", (3,), reason="fair-share"),
        Scaling(30, "worker", "stopped", (2,), reason="its capacity goes to job a"),
    ]


def test_a_member_that_starts_again_after_a_failure_is_restarted_not_scaled() -> None:
    runs = [
        run(1, ended_ms=30, reason="exit code 3", is_repeated=True),
        run(4, ended_ms=40, reason="node lost", is_repeated=True),
        run(4, leased_ms=50, follows_failure=True),
        run(0, ended_ms=60, reason="exit code 1"),
    ]
    assert group_scalings.list_scalings(runs, TERMS) == [
        Scaling(40, "worker", "restarted", (4,), reason="node lost"),
        Scaling(30, "worker", "restarted", (1,), reason="exit code 3"),
        started(10, 4),
    ]


def test_members_are_surplus_by_the_minimum_of_that_time() -> None:
    raised = RoleTerms(100, {"worker": GroupRole("worker", 4, 6)}, "anna")
    runs = [run(3, leased_ms=10), run(3, leased_ms=110), run(4, leased_ms=110)]
    assert group_scalings.list_scalings(runs, [*TERMS, raised]) == [started(110, 4), started(10, 3)]
    assert group_scalings.list_scalings([run(3)], [raised]) == []
    assert group_scalings.list_scalings([run(3)], []) == []


def test_the_last_scaling_of_a_role_is_by_the_scheduler_or_a_user() -> None:
    by_user = RoleTerms(25, {**TERMS[0].roles, "ps": GroupRole("ps", 1, 3)}, "anna", "more data")
    scalings = [
        Scaling(40, "worker", "restarted", (1,)), started(30, 5), started(10, 2),
    ]  # fmt: skip
    assert group_scalings.find_last_scalings(scalings, [*TERMS, by_user]) == {
        "worker": started(30, 5),
        "ps": Scaling(25, "ps", "changed", by="anna", reason="more data"),
    }
