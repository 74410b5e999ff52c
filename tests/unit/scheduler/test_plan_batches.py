"""What the log is told of a plan, where that would be more than any log takes at once."""

import msgspec

from fairlead_common.domain.ids import parse_run_id
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.log.append_limits import check_append
from fairlead_scheduler.cases.case_file import Case, CaseRound, Gang, Group, Nodes
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.engine import schedule
from fairlead_scheduler.rules import plan_batches
from fairlead_scheduler.rules.append_batches import JOBS_PER_BATCH, group_into_appends
from fairlead_scheduler.state.jobs import job_table

MEMBERS = 70


def started(spec: msgspec.Raw) -> tuple[World, list[ev.AnyEvent]]:
    """What is told of a gang with these pod specs that finds room, and of a job beside it."""
    world = World(Case(name="c", nodes=[Nodes(name="n", resources={"cpu": 80})], rounds=[]))
    gang = Group(id="g", queue="q", count=MEMBERS, cpu=1, gang=Gang())
    world.begin(CaseRound(submit=[gang, Group(id="alone", queue="q", cpu=1)]), 0)
    built = world.build()
    plan = schedule(built.snapshot, world.engine)
    of_world = world.view.specs.get_all(world.view.jobs.rows.ids_at(plan.placed_job))
    submitted = [
        msgspec.structs.replace(given, spec=spec) if given.gang else given
        for given in of_world.values()
    ]
    history: list[ev.AnyEvent] = []
    units = plan_batches.make_batches(world.view, built, plan, submitted)
    for append in group_into_appends(units):
        check_append(append.records)
    for unit in units:
        history += [event for _, event in unit.facts]
    return world, history


def test_a_gang_above_the_append_limit_fails_and_others_start() -> None:
    world, history = started(msgspec.Raw(b'"' + b"x" * 1_000_000 + b'"'))
    world.append("q", history)
    jobs = world.view.jobs
    failed = [event for event in history if isinstance(event, ev.JobFailed)]
    assert {event.job_id for event in failed} == {f"g{n}" for n in range(MEMBERS)}
    assert all("at most" in event.reason for event in failed)
    assert jobs.state[world.row_of("alone0")] == job_table.STATE_CODE[JobState.LEASED]
    assert world.queued() == set()


def test_a_large_gang_within_the_append_limit_starts() -> None:
    _, history = started(msgspec.Raw(b'"' + b"x" * 900_000 + b'"'))
    assert {type(event) for event in history} == {ev.JobRunLeased}


def test_independent_jobs_share_batches_below_the_size_of_a_record() -> None:
    world = World(Case(name="c", nodes=[Nodes(name="n", resources={"cpu": 400})], rounds=[]))
    gang = Group(id="g", queue="q", count=3, cpu=1, gang=Gang())
    world.begin(CaseRound(submit=[gang, Group(id="alone", queue="q", count=250, cpu=1)]), 0)
    built = world.build()
    plan = schedule(built.snapshot, world.engine)
    specs = world.view.specs.get_all(world.view.jobs.rows.ids_at(plan.placed_job))
    large = [
        msgspec.structs.replace(given, spec=msgspec.Raw(b'"' + b"x" * 400_000 + b'"'))
        for given in specs.values()
    ]
    batches = plan_batches.make_batches(world.view, built, plan, list(specs.values()))
    assert [len(batch.facts) for batch in batches] == [3, JOBS_PER_BATCH, JOBS_PER_BATCH, 50]
    assert all(len(batch.leases) == len(batch.facts) for batch in batches)
    started = [
        event.job_id
        for batch in batches
        for _, event in batch.facts
        if isinstance(event, ev.JobRunLeased)
    ]
    leased = [parse_run_id(lease.run)[0] for batch in batches for lease in batch.leases]
    assert started == leased
    assert set(started) == specs.keys()
    cut = plan_batches.make_batches(world.view, built, plan, large)
    assert [len(batch.facts) for batch in cut] == [3] + [2] * 125
