"""Users: they submit, repeat themselves, cancel and change their minds."""

from collections.abc import Callable

import msgspec

from fairlead_common.domain.ids import JobId, client_job_id, job_set_partition
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, Gang, JobFilter, RetryPolicy
from fairlead_common.domain.scheduling import shapes
from tests.simulation.clusters import NEEDS
from tests.simulation.world import World, Writer

RETRIES = (
    RetryPolicy(limit=2, on=(FailureCategory.EXIT_CODE, FailureCategory.NODE_LOST)),
    RetryPolicy(limit=3, on=(FailureCategory.OOM,), memory_factor=2.0),
    RetryPolicy(limit=1, on=(FailureCategory.EXIT_CODE, FailureCategory.START), avoid_node=True),
)
QUEUES = ("red", "blue")
JOB_SETS = ("s", "t")


class Users:
    """All that reaches submit."""

    def __init__(self, world: World, jobs_max: int) -> None:
        self._world = world
        self._writer = Writer(world, "submit")
        self._jobs_max = jobs_max
        self.submitted: dict[JobId, tuple[str, str, ev.JobSubmitted]] = {}

    def turn(self) -> None:
        """One request."""
        chance = self._world.chance
        match chance.choices(
            ("submit", "gang", "repeat", "cancel", "cancel-set", "preempt", "prioritize"),
            (8, 2, 2, 2, 0.3, 1, 1),
        )[0]:
            case "submit":
                if len(self.submitted) < self._jobs_max:
                    self._submit()
            case "gang":
                if len(self.submitted) < self._jobs_max:
                    self._submit_gang()
            case "repeat" if self.submitted:
                queue, job_set, event = chance.choice(list(self.submitted.values()))
                self._tell(queue, job_set, event)
            case "cancel" if self.submitted:
                self._about_one(lambda job: ev.JobCancelRequested(job_id=job, reason="why"))
            case "preempt" if self.submitted:
                self._about_one(lambda job: ev.JobPreemptRequested(job_id=job))
            case "prioritize" if self.submitted:
                priority = chance.randint(-5, 5)
                self._about_one(lambda job: ev.JobReprioritized(job_id=job, priority=priority))
            case "cancel-set":
                queue, job_set = chance.choice(QUEUES), chance.choice(JOB_SETS)
                filter_ = JobFilter(queue=queue, job_set=job_set)
                self._tell(queue, job_set, ev.JobsCancelRequested(filter=filter_))
            case _:
                return

    def _about_one(self, make: Callable[[JobId], ev.AnyEvent]) -> None:
        job_id = self._world.chance.choice(list(self.submitted))
        queue, job_set, _ = self.submitted[job_id]
        self._tell(queue, job_set, make(job_id))

    def _submit(self) -> None:
        chance = self._world.chance
        queue, job_set = chance.choice(QUEUES), chance.choice(JOB_SETS)
        before = [j for j, (q, s, _) in self.submitted.items() if (q, s) == (queue, job_set)]
        after = (chance.choice(before),) if before and chance.random() < 0.2 else ()
        event = msgspec.structs.replace(self.make_job(queue, job_set), after=after)
        self.submitted[event.job_id] = (queue, job_set, event)
        self._tell(queue, job_set, event)

    def _submit_gang(self) -> None:
        """All its members, or (rarely) one too few."""
        chance = self._world.chance
        queue, job_set = chance.choice(QUEUES), chance.choice(JOB_SETS)
        size = chance.randint(2, 4)
        gang = Gang(
            name=f"g{len(self.submitted)}",
            size=size,
            min_size=chance.choice((None, None, size - 1)),
            rest=chance.choice(("wait", "fail")),
        )
        for _ in range(size - (chance.random() < 0.15)):
            event = msgspec.structs.replace(self.make_job(queue, job_set), gang=gang)
            self.submitted[event.job_id] = (queue, job_set, event)
            self._tell(queue, job_set, event)

    def make_job(self, queue: str, job_set: str) -> ev.JobSubmitted:
        """A new job that is not submitted yet."""
        chance = self._world.chance
        partition = job_set_partition(queue, job_set)
        name = f"c{len(self.submitted)}"
        memory = chance.choice((1000, 2000))
        shape = shapes.Shape(
            requests={"cpu": chance.choice((500, 1000, 2000, 4000)), "memory": memory}
        )
        asked = {"requests": {"memory": str(memory)}, "limits": {"memory": str(memory)}}
        return ev.JobSubmitted(
            job_id=client_job_id(partition, queue, job_set, name),
            client_id=name,
            shape=shapes.encode(shape),
            spec=msgspec.Raw(msgspec.json.encode({"containers": [{"resources": asked}]})),
            digest=name,
            annotations={NEEDS: str(chance.choice((500, 500, 1500, 3500, 9000)))},
            priority=chance.randint(0, 2),
            priority_class=chance.choice(("low", "default", "high", "urgent", "non-preemptible")),
            queue_s_max=chance.choice((None, None, None, 300)),
            grace_s=chance.choice((1, 5)),
            runtime_s_max=chance.choice((None, 20)),
            on_preemption=chance.choice(("requeue", "requeue", "fail")),
            retry=chance.choice((None, *RETRIES)),
        )

    def _tell(self, queue: str, job_set: str, event: ev.AnyEvent) -> None:
        self._writer.append_surely(ev.records(queue, job_set, "user", [event]))
