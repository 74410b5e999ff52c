"""Two schedulers, of which one leads: the real view, decider and leases over the simulated log."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from fairlead_common.domain.errors import AppendRefused, AppendUnknown, ProducerFenced, ViewConflict
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import clusters, configuration
from fairlead_common.log import caught_up
from fairlead_common.log.protocol import Appended, Record
from fairlead_common.log.topics import CLUSTERS, CONFIG, JOBS, REPORTS, leases
from fairlead_scheduler.rules import lease_changes
from fairlead_scheduler.rules.decider import Decider
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.service.cycle import Cycle
from fairlead_scheduler.service.follower import State
from fairlead_scheduler.service.leader_heartbeat import LogClock
from fairlead_scheduler.service.reporter import Reporter
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedName, SavedNames
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.job_table import EndedJob
from fairlead_scheduler.state.pool_rules import Rate, Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from tests.simulation.world import EXECUTORS, Tail, World, Writer, values_of
from tests.unit.scheduler.saved import Table

T = TypeVar("T")

RULES = Rules(
    rate=Rate(per_second=1, burst=6),
    queue_rate=Rate(per_second=1, burst=5),
    gang_assembly_timeout_s=90,
    topology=("zone", "rack", "hostname"),
)
HEARTBEAT_MS = 5_000
STEP_S_MAX = 20.0
SETTINGS = SchedulerSettings(executor_stale_s=30, executor_timeout_s=120, rules=RULES)


class Checkpoint:
    """The tables of the checkpoint. A leader that ends while it saves leaves them between parts."""

    def __init__(self) -> None:
        self.table = Table()

    @property
    def ended(self) -> dict[JobId, EndedJob]:
        """What is saved of jobs that ended."""
        return self.table.ended

    def load(self) -> View:
        """As `checkpoint.load_view`; all submissions are in memory."""
        view = self.table.load(rules=RULES)
        view.specs.add_saved(self.table.specs)
        view.saved_ends.add(list(self.table.ended))
        view.saved_ends.is_complete = True
        return view

    def begin(self) -> None:
        """A new leader reads the names."""
        self.table.saved_names = SavedNames(
            [SavedName(*place, parts) for place, parts in self.table.names.items()], unused_max=2
        )

    def save(self, view: View, world: World) -> bool:
        """Save in small parts; False if the leader ends before the last of them."""
        if world.maybe(0.3):
            self.table.save_specs(view, world.chance.randint(1, 10))
        rows_max = world.chance.choice((1, 5, 1_000))
        for _ in self.table.save_parts(view, rows_max):
            if world.maybe(0.05) and not world.calm:
                return False
        view.trim_recent(0)
        return True


class _Interleaved:
    """A producer whose appends take a while, in which the scheduler folds what others wrote."""

    name = "scheduler"

    def __init__(self, scheduler: "Scheduler", writer: Writer) -> None:
        self._scheduler = scheduler
        self._writer = writer

    async def append(self, records: Sequence[Record]) -> Appended:
        """Append; sometimes it takes longer than a row waits for its next job."""
        appended = self._writer.append(records)
        self._scheduler.wait_for_append()
        return appended

    async def close(self) -> None:
        """Nothing to give up."""


async def run_at_once(work: Callable[[], T]) -> T:
    """A simulation has one thread."""
    return work()


def run_without_loop(steps: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that has nothing to wait for."""
    try:
        steps.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something, and a simulation has no event loop")


class Scheduler:
    """One scheduler process. It stands by until the simulation gives it the lock."""

    def __init__(
        self, world: World, saved: Checkpoint, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        self._world = world
        self._saved = saved
        self.meanwhile = meanwhile
        """What others do while this one waits for an append."""
        self._starts = 0
        self.restart()

    def restart(self) -> None:
        """Start anew from the checkpoint, as after `kill -9`."""
        world = self._world
        self.view = self._saved.load()
        self.clusters, self.queues = Clusters(), Queues()
        self._jobs = Tail(world, JOBS, self.view.positions)
        self._nodes = Tail(world, CLUSTERS)
        self._config = Tail(world, CONFIG)
        self._state = State(self.view, self.clusters, self.queues)
        self._cycle: Cycle | None = None
        self._decider: Decider | None = None
        self._starts += 1
        self._beat_ms = 0

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self._cycle is not None

    def lead(self) -> None:
        """Fence the predecessor, catch up, read the leases back."""
        try:
            self._lead()
        except (ProducerFenced, AppendUnknown, AppendRefused):
            self.restart()

    def _lead(self) -> None:
        world = self._world
        writer = Writer(world, "scheduler")
        self._instance = f"{id(self)}-{self._starts}"
        self.clusters.start_leading(self._instance, step_s_max=STEP_S_MAX)
        self._beat(writer)
        end = {topic: world.log.end_positions(topic) for topic in (JOBS, CLUSTERS, CONFIG)}
        tails = {JOBS: self._jobs, CLUSTERS: self._nodes, CONFIG: self._config}
        while not all(caught_up(tails[topic].positions, end[topic]) for topic in end):
            self.follow()
        held = Leases()
        for executor in EXECUTORS:
            held.read_back(executor, values_of(Tail(world, leases(executor).name).read_newest()))
        self.view.orphaned_runs.update(lease_changes.find_unwanted_leases(self.view, held))
        decider = self._decider = Decider(
            SETTINGS, self.view, self.clusters, self.queues, held, began_ms=world.now_ms
        )
        reporter = Reporter()
        reporter.restore(values_of(Tail(world, REPORTS).read_newest()))
        log_clock = LogClock(
            self.clusters,
            STEP_S_MAX,
            wall_ms=lambda: world.now_ms,
            monotonic_s=lambda: world.now_ms / 1000,
        )
        self._saved.begin()
        self._writer = writer
        self._cycle = Cycle(
            decider,
            self._state,
            _Interleaved(self, writer),
            cast(Any, None),  # all specs are in memory: nothing is looked up
            reporter,
            fold_configuration=self._fold_configuration,
            now_ms=log_clock.now_ms,
            monotonic_s=lambda: world.now_ms / 1000,
            offload=run_at_once,
        )

    def follow(self) -> None:
        """Fold a little of each topic."""
        batch = self._jobs.read(again=True)
        messages = job_fold.decode_batch(batch.entries)
        wanted = job_fold.find_ids_to_look_up(self.view, messages)
        known = {job: self._saved.ended[job] for job in wanted if job in self._saved.ended}
        job_fold.fold_messages(self.view, messages, known)
        self.clusters.fold(self._nodes.read().entries)
        self.queues.fold(self._config.read().entries, self.clusters)
        self.view.validate()

    async def _fold_configuration(self) -> None:
        """All of the topic, so that a cordon is in effect for the jobs that follow it."""
        end = self._world.log.end_positions(CONFIG)
        while not caught_up(self._config.positions, end):
            self.queues.fold(self._config.read().entries, self.clusters)

    def turn(self) -> None:
        """A cycle, if it leads and has folded back what it wrote; else only follow."""
        world = self._world
        self.follow()
        if self._cycle is not None and world.now_ms - self._beat_ms >= HEARTBEAT_MS:
            try:
                self._beat(self._writer)
            except AppendRefused:
                pass  # the next one says the same
            except (ProducerFenced, AppendUnknown):
                self.restart()
        cycle = self._cycle
        if cycle is None or not caught_up(self._jobs.positions, cycle.written):
            return
        try:
            run_without_loop(cycle.decide_and_append())
        except (ProducerFenced, AppendUnknown, AppendRefused):
            self.restart()
            return
        assert not self._state.pool_failures.by_pool, self._state.pool_failures.describe()
        assert self._decider is not None
        self._decider.validate()
        if world.maybe(0.2) or world.calm:
            self._save()

    def _save(self) -> None:
        try:
            is_alive = self._saved.save(self.view, self._world)
        except ViewConflict:
            is_alive = False
        if not is_alive:
            self.restart()

    def _beat(self, writer: Writer) -> None:
        beat = clusters.LeaderHeartbeat(instance=self._instance)
        writer.append([clusters.leader_heartbeat_record(beat)])
        self._beat_ms = self._world.now_ms

    def wait_for_append(self) -> None:
        """Events are folded while an append is under way."""
        world = self._world
        if world.maybe(0.5):
            world.pass_time(world.chance.choice((10, 500, 40_000)))
            self.meanwhile()
            for _ in range(world.chance.randint(1, 4)):
                self.follow()


def configure_queues(world: World, names: tuple[str, ...]) -> None:
    """Queues as submit would announce them; the last one has `order: fair`."""
    writer = Writer(world, "config")
    queues = [configuration.Queue(name=name) for name in names[:-1]]
    queues.append(configuration.Queue(name=names[-1], order=configuration.FAIR))
    writer.append_surely([configuration.record(queue) for queue in queues])
