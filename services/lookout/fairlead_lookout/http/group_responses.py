"""The JSON that the API returns about groups."""

from typing import Any, Final

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.records import events
from fairlead_lookout.http.responses import ResponseBody
from fairlead_lookout.store.queries.group_lists import GroupPage, RoleCounts, decode_roles

_decode_terms: Final = msgspec.json.Decoder(events.Group).decode
_decode_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


class GroupSummary(ResponseBody, frozen=True, kw_only=True):
    """A group in a list. `lastChange`: the newest public event about it, and its reason.

    STARTING: each role has the minimum of members that it needs, and not all of them run yet.
    `restarts`: of itself and of single members, as far as they count against `restartLimit`.
    """

    id: str
    queue: str
    job_set: str
    client_id: str | None = None
    state: str
    roles: list[RoleCounts]
    restarts: int
    last_change: str
    reason: str | None = None
    changed_by: str | None = None
    submitted: str
    changed: str
    started: str | None = None
    ended: str | None = None


class GroupsPage(ResponseBody, frozen=True, kw_only=True):
    """A page of groups, newest first; `next` is the cursor of the next page."""

    groups: list[GroupSummary]
    next: str | None = None


class MemberSummary(ResponseBody, frozen=True, kw_only=True):
    """A job that is or was a member of a group."""

    id: str
    role: str
    index: int
    state: str
    run: int = 0
    cluster: str | None = None
    node: str | None = None
    reason: str | None = None
    submitted: str
    started: str | None = None
    ended: str | None = None


class GroupDetail(GroupSummary, frozen=True, kw_only=True):
    """Everything about a group. `completionCount` null: all members of the completion roles.

    `freezeSeconds` and `stepMax` 0: no freeze, no step. `startup`: roles in the order in which
    their members start. `rendezvous`: by which variables members find each other.
    """

    labels: dict[str, str]
    completion_roles: list[str]
    completion_count: int | None = None
    on_member_failure: str
    restart_limit: int
    freeze_seconds: int
    step_max: int
    startup: list[str]
    headless_service: bool
    rendezvous: str | None = None
    members: list[MemberSummary]


def describe_groups(page: GroupPage) -> GroupsPage:
    """The response of a list."""
    return GroupsPage(groups=[describe_group(row) for row in page.rows], next=page.next)


def describe_group(row: Any) -> GroupSummary:
    """The response for a row."""
    return GroupSummary(**_read_fields(row))


def describe_group_detail(row: Any, members: list[Any]) -> GroupDetail:
    """The response for a row with its members."""
    terms = _decode_terms(row["terms"])
    return GroupDetail(
        **_read_fields(row),
        labels=_decode_labels(row["labels"]),
        completion_roles=list(terms.completion_roles) or [role.name for role in terms.roles],
        completion_count=terms.completion_count,
        on_member_failure=terms.on_member_failure.value,
        restart_limit=terms.restart_limit,
        freeze_seconds=terms.freeze_s,
        step_max=terms.step_max,
        startup=list(terms.startup),
        headless_service=terms.network.headless_service,
        rendezvous=None if terms.network.rendezvous is None else terms.network.rendezvous.value,
        members=[_describe_member(member) for member in members],
    )


def _read_fields(row: Any) -> dict[str, Any]:
    return {
        "id": row["id"],
        "queue": row["queue"],
        "job_set": row["job_set"],
        "client_id": row["client_id"],
        "state": row["shown"],
        "roles": decode_roles(row),
        "restarts": row["restarts"],
        "last_change": row["change"],
        "reason": row["reason"],
        "changed_by": row["changed_by"],
        "submitted": timestamps.rfc3339(row["submitted_ms"]),
        "changed": timestamps.rfc3339(row["changed_ms"]),
        "started": _time(row["started_ms"]),
        "ended": _time(row["ended_ms"]),
    }


def _describe_member(row: Any) -> MemberSummary:
    return MemberSummary(
        id=row["id"],
        role=row["role"],
        index=row["number"],
        state=row["state"],
        run=row["run"],
        cluster=row["executor"],
        node=row["node"],
        reason=row["reason"],
        submitted=timestamps.rfc3339(row["submitted_ms"]),
        started=_time(row["started_ms"]),
        ended=_time(row["ended_ms"]),
    )


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else timestamps.rfc3339(time_ms)
