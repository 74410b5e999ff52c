"""The JSON that the API returns about groups."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.records import events
from fairlead_common.domain.records.group_terms import Topology
from fairlead_lookout.domain.groups.group_scalings import Scaling, find_last_scalings
from fairlead_lookout.http.responses.job_responses import WaitingReasonResponse
from fairlead_lookout.http.responses.response_base import ResponseBody, format_time
from fairlead_lookout.store.queries.group_history import GroupHistory
from fairlead_lookout.store.queries.group_lists import (
    GroupPage,
    MemberRows,
    RoleCounts,
    RoleScaling,
    decode_roles,
)

FindHops = Callable[[str, str, str], Mapping[str, int]]
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
    """A job that is a member of a group. `generation`: of the group when it was created."""

    id: str
    role: str
    index: int
    generation: int = 1
    state: str
    run: int = 0
    cluster: str | None = None
    node: str | None = None
    reason: str | None = None
    submitted: str
    started: str | None = None
    ended: str | None = None


class TopologyTerms(ResponseBody, frozen=True, kw_only=True):
    """Where the members of a group are to be: in one domain of the `level`, or of one in which two
    nodes are at most `maxHops` apart; or as close as possible (mode `preferred`)."""

    level: str | None = None
    max_hops: int | None = None
    mode: str
    scope: str


class GroupDetail(GroupSummary, frozen=True, kw_only=True):
    """Everything about a group. `completionCount` null: all members of the completion roles.

    `freezeSeconds` and `stepMax` 0: no freeze, no step. `startup`: roles in the order in which
    their members start. `rendezvous`: by which variables members find each other. `generation`: how
    often the group has been re-created, and 1. `priority`: what all members were given after the
    submission. `why`: why queued members wait, first of all those that the group needs. `members`:
    the newest job of each index of each role, by role and index; `earlierMembers`: how many more
    jobs were members, which were scaled away or are of an earlier generation.
    """

    why: WaitingReasonResponse | None = None
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
    topology: TopologyTerms | None = None
    generation: int = 1
    priority: int | None = None
    members: list[MemberSummary]
    earlier_members: int = 0


def describe_groups(page: GroupPage, find_hops: FindHops) -> GroupsPage:
    """The response of a list. `find_hops`: see `ReportCache.find_hops`."""
    return GroupsPage(groups=[describe_group(row, find_hops) for row in page.rows], next=page.next)


def describe_group(row: Any, find_hops: FindHops) -> GroupSummary:
    """The response for a row."""
    return GroupSummary(**_read_fields(row, find_hops))


def describe_group_detail(
    row: Any,
    members: MemberRows,
    history: GroupHistory,
    why: WaitingReasonResponse | None,
    find_hops: FindHops,
) -> GroupDetail:
    """The response for a row with its members and history, and why some of the members wait."""
    terms = _decode_terms(row["terms"])
    fields = _read_fields(row, find_hops)
    fields["roles"] = _add_last_scalings(fields["roles"], history)
    return GroupDetail(
        **fields,
        why=why,
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
        topology=_describe_topology(terms.topology),
        generation=terms.generation,
        priority=terms.priority,
        members=[_describe_member(member) for member in members.rows],
        earlier_members=members.earlier,
    )


def _add_last_scalings(roles: list[RoleCounts], history: GroupHistory) -> list[RoleCounts]:
    last = find_last_scalings(history.scalings, history.terms)
    return [
        msgspec.structs.replace(role, last_scaling=_describe_scaling(last[role.name]))
        if role.name in last
        else role
        for role in roles
    ]


def _describe_scaling(scaling: Scaling) -> RoleScaling:
    return RoleScaling(
        time=timestamps.rfc3339(scaling.time_ms),
        change=scaling.change,
        members=len(scaling.indexes),
        by=scaling.by,
        reason=scaling.reason,
    )


def _describe_topology(asked: Topology | None) -> TopologyTerms | None:
    if asked is None:
        return None
    return TopologyTerms(
        level=asked.level or None,
        max_hops=asked.max_hops,
        mode=asked.mode.value,
        scope=asked.scope.value,
    )


def _read_fields(row: Any, find_hops: FindHops) -> dict[str, Any]:
    hops = find_hops(row["queue"], row["job_set"], row["id"])
    roles = decode_roles(row)
    if hops:
        roles = [msgspec.structs.replace(role, hops=hops.get(role.name)) for role in roles]
    return {
        "id": row["id"],
        "queue": row["queue"],
        "job_set": row["job_set"],
        "client_id": row["client_id"],
        "state": row["shown"],
        "roles": roles,
        "restarts": row["restarts"],
        "last_change": row["change"],
        "reason": row["reason"],
        "changed_by": row["changed_by"],
        "submitted": timestamps.rfc3339(row["submitted_ms"]),
        "changed": timestamps.rfc3339(row["changed_ms"]),
        "started": format_time(row["started_ms"]),
        "ended": format_time(row["ended_ms"]),
    }


def _describe_member(row: Any) -> MemberSummary:
    has_run = row["state"] != "QUEUED"
    return MemberSummary(
        id=row["id"],
        role=row["role"],
        index=row["number"],
        generation=row["generation"],
        state=row["state"],
        run=row["run"],
        cluster=row["run_executor"] if has_run else None,
        node=row["run_node"] if has_run else None,
        reason=row["reason"],
        submitted=timestamps.rfc3339(row["submitted_ms"]),
        started=format_time(row["started_ms"]),
        ended=format_time(row["ended_ms"]),
    )
