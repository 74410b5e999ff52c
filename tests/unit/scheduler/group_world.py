"""A group of a parameter server and workers, and what housekeeping decides about it."""

import msgspec

from fairlead_common.domain.ids import GroupId, JobId, client_job_id, run_id
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import DesiredState
from fairlead_scheduler.rules import lease_changes
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.groups import GroupPhase
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import message, submitted
from tests.unit.scheduler.test_housekeeping import kept

ID = GroupId(client_job_id(0, "q", "s", "group"))
PS = ev.GroupRole("ps", 1, 1)
TERMS = ev.Group(
    roles=(PS, ev.GroupRole("worker", 2, 3)), completion_roles=("worker",), restart_limit=2
)


def job(name: str) -> JobId:
    return client_job_id(0, "q", "s", name)


class World:
    """A group, the events about it so far, and the leases of its runs."""

    def __init__(self, terms: ev.Group = TERMS, **fields: object) -> None:
        self.view = View()
        self.leases = Leases()
        self.queues = Queues()
        self.excluded: set[int] = set()
        self.names: dict[JobId, str] = {}
        self.log: list[ev.AnyEvent] = []
        self.fold(ev.GroupSubmitted(group=ID, terms=terms, digest="d", client_id="g"))
        self.add(
            *(f"{role.name}-{index}" for role in terms.roles for index in range(role.max)), **fields
        )

    def add(self, *names: str, **fields: object) -> None:
        """Submit members of the first generation."""
        self.add_generation(1, *names, **fields)

    def add_generation(self, generation: int, *names: str, **fields: object) -> None:
        """Submit members; of a name like `worker-0~2` the end tells members of a place apart."""
        for name in names:
            role, _, place = name.partition("-")
            index, _, _ = place.partition("~")
            self.names[job(name)] = name
            member = ev.GroupMember(ID, role, int(index), generation)
            self.fold(submitted(job(name), group=member, **fields))

    def fold(self, *events: ev.AnyEvent) -> None:
        """These events are read from the log."""
        self.log += events
        position = self.view.positions.get(0, 0)
        job_fold.fold_messages(self.view, [message(position, *events)], {})
        self.view.validate()

    def run(self, name: str) -> int:
        """The number of the newest run of a member."""
        return self.view.jobs.run.item(self.view.jobs.rows[job(name)])

    def start(self, *names: str) -> None:
        """A round starts these members, and they run."""
        for name in names:
            number = self.run(name) + 1
            self.fold(
                ev.JobRunLeased(job_id=job(name), run=number, executor="e0", node="n0"),
                ev.JobRunRunning(job_id=job(name), run=number),
            )
            lease = lease_changes.lease_state("e0", DesiredState.RUN)
            self.leases.by_run[run_id(job(name), number)] = lease

    def fail(self, name: str, category: FailureCategory = FailureCategory.EXIT_CODE) -> None:
        """The run of a member fails."""
        self.fold(
            ev.JobRunFailed(job_id=job(name), run=self.run(name), category=category, reason="boom")
        )

    def succeed(self, *names: str) -> list[str]:
        """The runs of members succeed; what is decided then."""
        for name in names:
            self.fold(ev.JobRunSucceeded(job_id=job(name), run=self.run(name)))
        return self.settle()

    def end_stopped(self, *names: str) -> list[str]:
        """The executor stopped these runs."""
        for name in names:
            self.fold(ev.JobRunStopped(job_id=job(name), run=self.run(name), reason="asked to"))
        return self.settle()

    def cycle(self) -> list[ev.AnyEvent]:
        """One cycle of housekeeping: its decisions come back through the log."""
        found = kept(self.view, self.leases, queues=self.queues)
        self.excluded = found.excluded
        batches = list(found.batches())
        for batch in batches:
            self.leases.apply(batch.leases)
            self.leases.groups.apply(batch.group_records)
        facts = [fact for batch in batches for _, fact in batch.facts]
        if facts:
            self.fold(*facts)
        return facts

    def settle(self) -> list[str]:
        """Cycles until nothing is decided any more; the decisions in words."""
        decided: list[str] = []
        for _ in range(10):
            facts = self.cycle()
            decided += [self.describe(fact) for fact in facts]
            if not facts:
                return decided
        raise AssertionError(f"decides without end: {decided[-5:]}")

    def describe(self, event: ev.AnyEvent) -> str:
        tag = str(event.__struct_config__.tag)
        if isinstance(event, ev.JobEvent):
            return f"{tag} {self.names[event.job_id]}"
        return f"{tag} counted" if isinstance(event, ev.GroupRestarting) and event.counted else tag

    def state(self, name: str) -> str:
        found = self.view.state_of(job(name))
        assert found is not None
        return found.value

    def phase(self) -> GroupPhase | None:
        state = self.view.groups.get(ID)
        return None if state is None else state.phase

    def last(self, kind: type[ev.AnyEvent]) -> ev.AnyEvent:
        return [event for event in self.log if isinstance(event, kind)][-1]

    def stops(self) -> set[str]:
        """The members whose lease asks them to stop."""
        return {
            self.names[JobId(run.rpartition("-")[0])]
            for run, lease in self.leases.by_run.items()
            if lease.desired_state is DesiredState.STOP
        }


def running(terms: ev.Group = TERMS, **fields: object) -> World:
    """A group whose members all run."""
    world = World(terms, **fields)
    world.start(*world.names.values())
    assert world.settle() == ["groupRunning"]
    return world


def with_terms(**fields: object) -> ev.Group:
    return msgspec.structs.replace(TERMS, **fields)
