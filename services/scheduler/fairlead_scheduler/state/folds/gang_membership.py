"""The fold of gang membership: the members, and what the end of one means for the others.

The members of a group are members of a gang with roles. Housekeeping decides what the end of one
means for the group (rules C).
"""

from itertools import islice

from fairlead_common.domain import lifecycle
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.state.folds import flag_changes
from fairlead_scheduler.state.folds.input.messages import Message
from fairlead_scheduler.state.jobs import groups, job_table
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.view import View


def add_member(view: View, row: int, gang: ev.Gang) -> None:
    """Add a submitted member. The first member defines the terms of the gang.

    Submit refuses members of one request that disagree; a later member with other terms fails,
    because it would wait for a gang that does not exist.
    """
    job_set = view.jobs.job_sets.values[view.jobs.job_set[row]]
    name = job_table.GangName(job_set.queue, job_set.name, gang.name)
    terms = job_table.GangTerms(
        gang.size, gang.min_size or gang.size, gang.uniformity_label, gang.rest
    )
    rare = view.jobs.rare_properties_of(row)
    if name.name in view.groups:
        _mark_cannot_start(view, row, f"a group has the id {gang.name}: name the gang otherwise")
        return
    known = view.gangs.setdefault(name, terms)
    if terms != known:
        reason = (
            f"gang {gang.name} was submitted with {_format_terms(known)},"
            f" but this member was submitted with {_format_terms(terms)}"
        )
        _mark_cannot_start(view, row, reason)
        return
    rare.gang, rare.gang_terms = name, known
    members = view.gang_members.setdefault(name, set())
    for job_id in islice(members, 1):  # if one can never start, none can
        mate = view.jobs.rare_properties_of(view.jobs.rows[job_id])
        if mate.gang_cannot_start:
            _mark_cannot_start(view, row, mate.cannot_start_reason)
    members.add(view.jobs.rows.id_at(row))
    view.gang_journal.add(name)
    rare.gang_started = name in view.gang_started


def add_group_member(view: View, row: int, member: ev.GroupMember) -> None:
    """Add a submitted member of a group.

    Submit announces a group before its members and numbers these below the maxima of their roles;
    any other member fails, because nothing would ever start it.
    """
    state = view.groups.get(member.group)
    role = None if state is None else groups.find_role(state.terms, member.role)
    if state is None or state.is_final:
        _mark_cannot_start(view, row, f"group {member.group} does not exist or has ended")
        return
    if role is None or not 0 <= member.index < role.max or groups.is_outdated(state, member):
        reason = f"group {member.group} has no member {member.role}-{member.index}"
        _mark_cannot_start(view, row, reason)
        return
    name = state.gang_name
    if name in view.gangs and not view.gangs[name].roles:
        _mark_cannot_start(view, row, f"a gang has the name of its group {member.group}")
        return
    rare = view.jobs.rare_properties_of(row)
    rare.gang, rare.member = name, member
    view.gang_members.setdefault(name, set()).add(view.jobs.rows.id_at(row))
    if member.index in state.ended.get(member.role, ()):
        state.ended[member.role].discard(member.index)
        state.succeeded.get(member.role, set()).discard(member.index)
        view.mark_group_changed(state.group, view.jobs.position.item(row))
    view.gangs[name] = groups.gang_terms(state)
    view.groups_to_examine.add(state.group)
    set_surplus_rank(view, row, state)
    view.gang_journal.add(name)


def set_surplus_rank(view: View, row: int, state: GroupState) -> bool:
    """Set the surplus rank of a member by the terms of its group; False if it had that rank."""
    member = view.jobs.rare_properties_of(row).member
    rank = 0 if member is None else groups.surplus_rank(state.terms, member)
    now: int = view.jobs.priority.item(row)
    changed = surplus_priority.lower_priority(surplus_priority.given_priority(now), rank)
    view.jobs.priority[row] = changed
    return changed != now


def drop_ended_group(view: View, state: GroupState, message: Message) -> None:
    """Forget a group after it and all its members have ended; its id is retained as one of an ended
    job."""
    if not state.is_final or state.gang_name in view.gang_members:
        return
    del view.groups[state.group]
    view.ended[JobId(state.group)] = job_table.EndedJob(
        groups.FINAL_STATES[state.phase], state.digest, message.time_ms, message.position
    )


def _format_terms(terms: job_table.GangTerms) -> str:
    label = f", uniformityLabel {terms.uniformity_label}" if terms.uniformity_label else ""
    return f"size {terms.size}, minSize {terms.min_size}, rest {terms.rest}{label}"


def remove_member(
    view: View, row: int, message: Message, *, had_started: bool, reason: str
) -> None:
    """Remove a member that ended, for this reason.

    If its run had started, the remaining members need not start together any more. If it failed
    before that and fewer than `min_size` remain, none of them can ever start.
    """
    rare = view.jobs.rare_properties.get(row)
    if rare is None or rare.gang is None:
        return
    members = view.gang_members.get(rare.gang, set())
    members.discard(view.jobs.rows.id_at(row))
    view.gang_journal.add(rare.gang)
    if not members:
        view.gang_members.pop(rare.gang, None)
        view.gangs.pop(rare.gang, None)
        view.gang_started.discard(rare.gang)
    if rare.member is not None:
        _remove_group_member(view, row, rare.member, message, reason)
    elif not members or rare.gang in view.gang_started:
        return
    elif had_started:
        view.gang_started.add(rare.gang)
        for job_id in members:
            member = view.jobs.rows[job_id]
            view.jobs.rare_properties_of(member).gang_started = True
            view.mark_changed(member, message.position)
    elif (
        job_table.JOB_STATES[view.jobs.state.item(row)] is JobState.FAILED
        and not rare.gang_cannot_start
        and len(members) < view.gangs[rare.gang].min_size
    ):
        why = (
            rare.cannot_start_reason
            or f"gang member {view.jobs.rows.id_at(row)} could not start: {reason}"
        )
        for job_id in members:
            member = view.jobs.rows[job_id]
            _mark_cannot_start(view, member, why)
            view.mark_changed(member, message.position)


def _remove_group_member(
    view: View, row: int, member: ev.GroupMember, message: Message, reason: str
) -> None:
    """Note in the group that a member has ended, for this reason."""
    state = view.groups.get(member.group)
    if state is None:
        return
    jobs = view.jobs
    if not groups.is_outdated(state, member):
        state.ended.setdefault(member.role, set()).add(member.index)
        ended_as = job_table.JOB_STATES[jobs.state.item(row)]
        if ended_as is JobState.SUCCEEDED:
            state.succeeded.setdefault(member.role, set()).add(member.index)
        elif not state.is_final:
            _note_lost_member(state, member, ended_as, reason)
    if state.gang_name in view.gangs:
        view.gangs[state.gang_name] = groups.gang_terms(state)
    view.mark_group_changed(state.group, message.position)
    drop_ended_group(view, state, message)


def _note_lost_member(
    state: GroupState, member: ev.GroupMember, ended_as: JobState, why: str
) -> None:
    """Note that a member that the group needs ended without success. If the member was cancelled,
    the group is cancelled, too."""
    role = groups.find_role(state.terms, member.role)
    if role is None or member.index >= role.min:
        return
    reason = f"member {member.role}-{member.index}, which the group needs, ended {ended_as.value}"
    if why:
        reason += f": {why}"
    if ended_as is not JobState.CANCELLED:
        state.lost_reason = state.lost_reason or reason
    elif state.cancel_reason is None:
        state.cancel_reason = reason


def _mark_cannot_start(view: View, row: int, reason: str) -> None:
    """Note that a member can never start, because of its gang."""
    rare = view.jobs.rare_properties_of(row)
    rare.cannot_start_reason, rare.gang_cannot_start = reason, True
    flag_changes.apply(view.jobs, row, lifecycle.GANG_FAILED)
    view.rows_to_examine.add(row)
