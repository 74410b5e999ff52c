"""Random histories of groups: whatever happens to members, the group settles and keeps its word."""

import random

import msgspec
import pytest

from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, MemberFailure, PreemptionCause
from fairlead_scheduler.rules import group_life_cycle
from fairlead_scheduler.state.jobs import groups, job_table
from tests.unit.scheduler.group_world import ID, TERMS, World, job

STEPS = 40
FAILURES = (FailureCategory.EXIT_CODE, FailureCategory.NODE_LOST, FailureCategory.OOM)


def startable(world: World) -> list[str]:
    """The members that a round is permitted to start now: a minimum together, or surplus."""
    view, state = world.view, world.view.groups.get(ID)
    if state is None:
        return []
    rows = [view.jobs.rows[each] for each in view.gang_members.get(state.gang_name, ())]
    queued = [row for row in rows if view.jobs.state[row] == job_table.QUEUED]
    free = [row for row in queued if row not in world.excluded]
    if len(free) < len(queued) or not free:
        return []
    return sorted(world.names[view.jobs.rows.id_at(row)] for row in free)


def live(world: World) -> list[str]:
    """The members with a run that has not ended."""
    jobs = world.view.jobs
    known = [(name, jobs.rows.get(job_id)) for job_id, name in world.names.items()]
    return [
        name for name, row in known if row is not None and job_table.LIVE_RUN[jobs.run_state[row]]
    ]


def end_of_run(world: World, name: str, chance: random.Random) -> ev.AnyEvent:
    """Some end of the newest run of a member."""
    job_id, run = job(name), world.run(name)
    ends: list[ev.AnyEvent] = [
        ev.JobRunSucceeded(job_id=job_id, run=run),
        ev.JobRunFailed(job_id=job_id, run=run, category=chance.choice(FAILURES), reason="boom"),
        ev.JobRunReturned(job_id=job_id, run=run, reason="no space"),
        ev.JobRunStopped(job_id=job_id, run=run, reason="shut down"),
        ev.JobRunLost(job_id=job_id, run=run, reason="gone"),
    ]
    return chance.choice(ends)


def happen(world: World, chance: random.Random) -> None:
    """One thing happens to the group."""
    running = live(world)
    kind = chance.randrange(20)
    if kind < 8 and running:
        world.fold(end_of_run(world, chance.choice(running), chance))
    elif kind == 8 and running:
        name = chance.choice(running)
        stop = ev.JobRunPreempting(
            job_id=job(name),
            run=world.run(name),
            cause=PreemptionCause.URGENCY,
            reason="urgent",
            for_job=job("other"),
        )
        world.fold(stop)
    elif kind == 9 and chance.random() < 0.2:
        world.fold(ev.GroupCancelRequested(group=ID, reason="enough"))
    elif kind == 10:
        world.fold(ev.GroupRestartRequested(group=ID))
    elif kind == 11 and chance.random() < 0.2:
        world.fold(ev.JobCancelRequested(job_id=chance.choice(list(world.names))))
    elif kind == 12 and ID in world.view.groups:
        ps, worker = world.view.groups[ID].terms.roles
        lower = msgspec.structs.replace(worker, max=max(worker.min, worker.max - 1))
        terms = msgspec.structs.replace(world.view.groups[ID].terms, roles=(ps, lower))
        world.fold(ev.GroupChanged(group=ID, terms=terms))
    else:
        world.start(*startable(world))


def check(world: World) -> None:
    """What is true of a group about which nothing is left to decide."""
    state = world.view.groups.get(ID)
    wanted = (
        {}
        if state is None
        else {
            row: world.view.jobs.rare_properties[row].member
            for row in group_life_cycle.list_wanted(world.view, state)
        }
    )
    if state is None or state.is_final or state.cancel_reason is not None:
        assert not wanted, "nothing of an ending group goes on"
        return
    if wanted and len(live(world)) == len(wanted):  # else members still stop
        for role in state.terms.roles:
            count = sum(
                member is not None and member.role == role.name for member in wanted.values()
            )
            done = state.ended.get(role.name, set())  # a surplus one took the place of another
            count += sum(index >= role.min for index in done)
            assert count >= groups.minimum_left(state, role), "a group is never below its minima"
    assert state.restarts <= state.terms.restart_limit
    assert not group_life_cycle.has_completed(
        world.view,
        state,
        [world.view.jobs.rows[each] for each in world.view.gang_members[state.gang_name]],
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_group_settles_after_everything_that_happens_and_is_never_partly_stopped(
    seed: int,
) -> None:
    chance = random.Random(seed)
    terms = msgspec.structs.replace(
        TERMS,
        on_member_failure=chance.choice(list(MemberFailure)),
        restart_limit=chance.randrange(4),
        completion_count=chance.choice((None, 1, 2)),
    )
    world = World(terms)
    for _ in range(STEPS):
        happen(world, chance)
        world.settle()
        check(world)
    # Whatever is stopped ends in the end.
    for name in live(world):
        world.fold(ev.JobRunSucceeded(job_id=job(name), run=world.run(name)))
    world.settle()
    check(world)
