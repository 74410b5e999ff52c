"""`fairlead repair` and groups (decision 0097)."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from fairlead_common.domain.ids import GroupId, JobId, client_array_id, job_set_partition
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from tests.integration.scheduler.world import JOB_SET, QUEUE, job_id, submitted
from tests.integration.standalone.repair_harness import Installation

GROUP = GroupId(job_id("fit"))
PREPARES, TRAINS, GROWS = "fit/prepare-0", "fit/train-0", "fit/train-1"
LOST = ev.FailureCategory.INTERNAL
ROLES = (
    ev.GroupRole(name="prepare", min=1, max=1),
    ev.GroupRole(name="train", min=1, max=2),
)


@pytest.fixture
async def installation(fresh_database: str, valkey_url: str) -> AsyncIterator[Installation]:
    """The log is in the same database."""
    async with Installation.open(fresh_database, fresh_database, valkey_url) as made:
        yield made


def member(name: str) -> ev.JobSubmitted:
    role, _, index = name.removeprefix("fit/").partition("-")
    return submitted(name, group=ev.GroupMember(GROUP, role, int(index)))


def group() -> list[ev.AnyEvent]:
    """A group of two roles, of which the second can have one member more than it needs."""
    terms = ev.Group(roles=ROLES, completion_roles=("train",))
    members = [member(name) for name in (PREPARES, TRAINS, GROWS)]
    return [ev.GroupSubmitted(group=GROUP, terms=terms, digest="d"), *members]


def ran(name: str) -> ev.AnyEvent:
    return ev.JobRunRunning(job_id=job_id(name), run=1)


def succeeded(name: str) -> ev.AnyEvent:
    return ev.JobRunSucceeded(job_id=job_id(name), run=1)


async def has_event(installation: Installation, kind: type[ev.GroupEvent]) -> None:
    """Wait for an event of this kind about the group."""
    await installation.world.events(lambda seen: any(isinstance(each, kind) for each in seen))


async def run_group(installation: Installation) -> None:
    """The group runs, `prepare-0` has succeeded, `train-1` waits; the log retains nothing of it."""
    world = installation.world
    await world.report_nodes(cores=2)
    await world.tell(*group())
    async with installation.scheduler():
        for name in (PREPARES, TRAINS):
            await world.first(ev.JobRunLeased, name)
            await world.tell(ran(name))
        await has_event(installation, ev.GroupRunning)
        await world.tell(submitted("blocks", priority=1), succeeded(PREPARES))
        await world.first(ev.JobSucceeded, PREPARES)
    await installation.fold_lookout()
    await installation.expire()


async def finish(installation: Installation) -> None:
    """The group succeeds with what is left of it."""
    async with installation.scheduler():
        await installation.world.tell(succeeded(TRAINS))
        await installation.world.first(ev.JobSucceeded, TRAINS)
        await has_event(installation, ev.GroupSucceeded)
    assert not await installation.examine()


async def find_state(installation: Installation) -> JobState:
    """The state of the group in lookout."""
    await installation.fold_lookout()
    async with installation.lookout() as lookout:
        return (await lookout.find_groups([GROUP]))[GROUP].state


async def test_a_running_group_is_restored_in_the_scheduler(installation: Installation) -> None:
    await run_group(installation)
    await installation.execute("DROP SCHEMA fairlead_scheduler CASCADE")
    found = await installation.examine()
    assert [each.action for each in found.groups] == ["restore in the scheduler as RUNNING"]
    await installation.repair()
    states = await installation.states(PREPARES, TRAINS)
    assert states == {PREPARES: "SUCCEEDED", TRAINS: "RUNNING"}
    await finish(installation)
    assert await find_state(installation) is JobState.SUCCEEDED


async def test_the_members_of_an_unknown_group_that_have_all_ended_do_not_restore_it(
    installation: Installation,
) -> None:
    await run_group(installation)
    await installation.execute("DROP SCHEMA fairlead_scheduler CASCADE")
    for name in (TRAINS, GROWS):
        await installation.world.tell(ev.JobFailed(job_id=job_id(name), category=LOST, reason=""))
    await installation.fold_lookout()
    found = await installation.repair()
    assert [each.action for each in found.groups] == ["close (its result is unknown)"]
    assert await find_state(installation) is JobState.FAILED


async def test_a_group_is_restored_in_lookout(installation: Installation) -> None:
    await run_group(installation)
    await installation.execute("DROP SCHEMA fairlead_lookout CASCADE")
    await installation.repair()
    assert await find_state(installation) is JobState.RUNNING
    await finish(installation)
    assert await find_state(installation) is JobState.SUCCEEDED


async def test_an_old_view_of_lookout_gets_new_terms_and_the_end_of_groups(
    installation: Installation,
) -> None:
    await run_group(installation)
    world = installation.world
    larger = ev.Group(roles=(ROLES[0], msgspec.structs.replace(ROLES[1], max=3)))
    async with installation.scheduler():
        await world.tell(ev.GroupChanged(group=GROUP, terms=larger))
    await installation.expire()
    await installation.repair()
    async with installation.lookout() as lookout:
        viewed = (await lookout.find_groups([GROUP]))[GROUP]
    assert viewed.submitted is not None
    assert viewed.submitted.terms == larger
    async with installation.scheduler():
        await world.tell(succeeded(TRAINS))
        await has_event(installation, ev.GroupSucceeded)
    await installation.expire()
    await installation.repair()
    assert await find_state(installation) is JobState.SUCCEEDED
    assert not await installation.examine()


async def test_groups_and_arrays_that_only_a_restored_log_has_are_appended_again(
    installation: Installation,
) -> None:
    world = installation.world
    await world.report_nodes(cores=2)
    await world.tell(submitted("old", hold=True))
    async with installation.scheduler():
        for number in range(3):
            await world.tell(submitted(f"lost-{number}", hold=True))
    await installation.fold_lookout()
    await installation.restore_log()
    array = client_array_id(job_set_partition(QUEUE, JOB_SET), QUEUE, JOB_SET, "scan")
    template = msgspec.structs.replace(submitted("scan"), job_id=JobId(array))
    await world.tell(ev.ArraySubmitted(array=array, template=template, count=9, indexes="0-8"))
    await world.tell(*group())
    done = await installation.repair()
    assert done.only_in_log == [job_id(name) for name in (PREPARES, TRAINS, GROWS)]
    async with installation.scheduler() as service:
        await world.first(ev.JobRunLeased, TRAINS)
        assert array in service.state.view.arrays
