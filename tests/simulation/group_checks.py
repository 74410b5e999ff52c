"""What must be true of the groups of a simulation: while it goes on, and in the end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from fairlead_common.domain.ids import GroupId, JobId, RunId, parse_run_id, run_id
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.rules import group_life_cycle
from fairlead_scheduler.state.jobs import groups, job_table
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.view import View
from tests.simulation.clusters import Span
from tests.simulation.simulated_groups import GroupTable, SubmittedGroup

FINAL = {
    ev.GroupSucceeded: "SUCCEEDED",
    ev.GroupFailed: "FAILED",
    ev.GroupCancelled: "CANCELLED",
}


def check_groups_at_rest(view: View, submitted: Mapping[GroupId, SubmittedGroup]) -> None:
    """A group about which nothing is left to decide is never partly below its minima, unless
    somebody raised them."""
    for group, state in view.groups.items():
        if state.is_final or state.cancel_reason is not None or group in view.groups_to_examine:
            continue
        if submitted[group].is_raised:
            continue
        rows = [view.jobs.rows[one] for one in view.gang_members.get(state.gang_name, ())]
        if not any(row in view.rows_to_examine for row in rows):
            _check_minima(view, state, rows)


def _check_minima(view: View, state: GroupState, rows: Sequence[int]) -> None:
    wanted = set(group_life_cycle.list_wanted(view, state))
    if not wanted:
        return
    live = [row for row in rows if job_table.LIVE_RUN[view.jobs.run_state[row]]]
    assert set(live) == wanted, f"{state.group}: members run beside those of another generation"
    found = [view.jobs.rare_properties[row].member for row in wanted]
    counts = Counter(member.role for member in found if member is not None)
    for role in state.terms.roles:
        count, least = counts[role.name], groups.minimum_left(state, role)
        assert count >= least, f"{state.group}: {count} of {least} members of role {role.name}"


def check_group_ends(
    submitted: Mapping[GroupId, SubmittedGroup],
    table: GroupTable,
    sequences: Iterable[tuple[int, ev.EventSequence]],
) -> dict[str, str]:
    """Each group ends once, and lookout has its end, its restarts and its members; its end."""
    ends: dict[str, str] = {}
    restarts: Counter[str] = Counter()
    generations = dict.fromkeys(submitted, 1)
    for _, sequence in sequences:
        for event in sequence.events:
            if isinstance(event, ev.GroupSucceeded | ev.GroupFailed | ev.GroupCancelled):
                assert event.group not in ends, f"{event.group} ended twice"
                ends[event.group] = FINAL[type(event)]
            elif isinstance(event, ev.GroupChanged) and event.group not in ends:
                if event.terms.generation > generations[event.group]:
                    restarts[event.group] = 0
                generations[event.group] = event.terms.generation
            elif isinstance(event, ev.GroupRestarting):
                restarts[event.group] += event.counted
            elif isinstance(event, ev.JobRequeued) and event.restarts_of is not None:
                restarts[event.restarts_of] += 1
            for group, count in restarts.items():
                assert count <= submitted[GroupId(group)].terms.restart_limit
    assert ends.keys() == submitted.keys()
    assert table.states == ends
    assert {group: count for group, count in table.restarts.items() if count} == {
        group: count for group, count in restarts.items() if count
    }
    assert table.members == {
        job_id: (member.group, member.role, member.index, member.generation)
        for group in submitted.values()
        for job_id, member in group.members.items()
    }
    return ends


def find_members_of_completed_groups(
    sequences: Iterable[tuple[int, ev.EventSequence]],
) -> set[JobId]:
    """The members that did not have to succeed by themselves, because their groups had."""
    return {
        event.job_id
        for _, sequence in sequences
        for event in sequence.events
        if isinstance(event, ev.JobSucceeded) and event.reason == group_life_cycle.COMPLETED
    }


def check_generations(
    submitted: Mapping[GroupId, SubmittedGroup],
    spans: Mapping[RunId, Span],
    sequences: Iterable[tuple[int, ev.EventSequence]],
) -> None:
    """No run of a generation is created before all runs of earlier ones have ended, unless their
    executor stopped reporting."""
    given_up = {
        run_id(event.job_id, event.run)
        for _, sequence in sequences
        for event in sequence.events
        if isinstance(event, ev.JobRunLost)
    }
    for group in submitted.values():
        runs = [
            (group.members[JobId(job_id)].generation, run, span)
            for run, span in spans.items()
            if (job_id := parse_run_id(run)[0]) in group.members
        ]
        for (older, run, span), (newer, _, later) in combinations(
            sorted(runs, key=lambda found: found[0]), 2
        ):
            if older < newer and run not in given_up:
                assert span.end_ms is not None, f"{run} never ended"
                assert span.end_ms <= later.begin_ms, f"{run} ran beside a later generation"
