"""The fold of gang membership: the members, and what the end of one means for the others."""

from itertools import islice

from fairlead_common.domain import lifecycle
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state import job_table
from fairlead_scheduler.state.folds import flag_changes
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


def _format_terms(terms: job_table.GangTerms) -> str:
    label = f", uniformityLabel {terms.uniformity_label}" if terms.uniformity_label else ""
    return f"size {terms.size}, minSize {terms.min_size}, rest {terms.rest}{label}"


def remove_member(
    view: View, row: int, position: int, *, had_started: bool, failed: str | None
) -> None:
    """Remove a member that ended; `failed`: why it failed before it started.

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
    elif rare.gang in view.gang_started:
        return
    elif had_started:
        view.gang_started.add(rare.gang)
        for job_id in members:
            member = view.jobs.rows[job_id]
            view.jobs.rare_properties_of(member).gang_started = True
            view.mark_changed(member, position)
    elif (
        failed is not None
        and not rare.gang_cannot_start
        and len(members) < view.gangs[rare.gang].min_size
    ):
        doom = (
            rare.cannot_start_reason
            or f"gang member {view.jobs.rows.id_at(row)} could not start: {failed}"
        )
        for job_id in members:
            member = view.jobs.rows[job_id]
            _mark_cannot_start(view, member, doom)
            view.mark_changed(member, position)


def _mark_cannot_start(view: View, row: int, doom: str) -> None:
    rare = view.jobs.rare_properties_of(row)
    rare.cannot_start_reason, rare.gang_cannot_start = doom, True
    flag_changes.apply(view.jobs, row, lifecycle.GANG_FAILED)
    view.rows_to_examine.add(row)
