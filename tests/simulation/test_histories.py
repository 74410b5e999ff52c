"""Whole histories from a seed: users, two schedulers, two executors and lookout, with faults.

One thread, virtual time. A failing seed fails the same way every time:
`pytest tests/simulation -k "[17]"`. `FAIRLEAD_SEEDS` says how many are tried.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise

import pytest

from fairlead_common.domain.ids import JobId, RunId, parse_run_id, run_id
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import scheduling_reports
from fairlead_common.domain.story import build_story
from fairlead_common.log import topics
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.job_table import IS_WITH_RUN, GangName
from fairlead_scheduler.state.view import View
from tests.simulation import group_checks
from tests.simulation.clusters import Span, VirtualCluster
from tests.simulation.simulated_executors import Executor
from tests.simulation.simulated_groups import GroupUsers
from tests.simulation.simulated_lookout import Lookout
from tests.simulation.simulated_schedulers import (
    RULES,
    SETTINGS,
    Checkpoint,
    Scheduler,
    configure_queues,
)
from tests.simulation.simulated_users import QUEUES, Users
from tests.simulation.world import EXECUTORS, START_MS, Tail, World

SEEDS = int(os.environ.get("FAIRLEAD_SEEDS", "50"))
GROUP_SEEDS = int(os.environ.get("FAIRLEAD_SEEDS", "12"))
STEPS = 400
JOBS_MAX = 40
SETTLE_TURNS = 600


class History:
    """All actors, and who leads. With `has_groups` half of the requests are about groups."""

    def __init__(self, seed: int, *, has_groups: bool = False) -> None:
        self.world = World(seed)
        self.saved = Checkpoint()
        configure_queues(self.world, QUEUES)
        self.users = Users(self.world, JOBS_MAX)
        self.clusters = [VirtualCluster(self.world, name, nodes=2) for name in EXECUTORS]
        self.executors = [
            Executor(self.world, name, cluster)
            for name, cluster in zip(EXECUTORS, self.clusters, strict=True)
        ]
        self.schedulers = [Scheduler(self.world, self.saved, self._meanwhile) for _ in range(2)]
        self.lookout = Lookout(self.world)
        self.groups = GroupUsers(
            self.world, self.users.submitted, self.users.make_job, self._state_in_lookout
        )
        self.has_groups = has_groups
        self.leader = 0

    def _state_in_lookout(self, job_id: JobId) -> JobState | None:
        job = self.lookout.jobs.get(job_id)
        return None if job is None else JobState(job.state)

    def step(self) -> None:
        """One actor does one thing, or something breaks."""
        world = self.world
        world.pass_time(world.chance.randint(1, 1_500))
        match world.chance.choices(
            (
                *("users", "scheduler", "executor", "lookout"),
                *("crash", "takeover", "partition", "freeze", "outage"),
            ),
            (3, 6, 5, 3, 0.3, 0.2, 0.1, 0.1, 0.03),
        )[0]:
            case "users":
                self._use()
            case "scheduler":
                self._schedule(world.chance.choice(self.schedulers))
            case "executor":
                world.chance.choice(self.executors).turn()
            case "lookout":
                self.lookout.turn()
            case "crash":
                crashing: list[Scheduler | Executor] = [*self.schedulers, *self.executors]
                world.chance.choice(crashing).restart()
            case "takeover":
                self.leader = 1 - self.leader
                self.schedulers[self.leader].restart()
            case "partition":
                away_ms = world.chance.choice((20_000, 200_000))
                world.chance.choice(self.executors).away_until_ms = world.now_ms + away_ms
            case "freeze":
                self._freeze()
            case "outage":
                if not world.has_outage:
                    self._have_outage(world.chance.choice((5_000, 200_000)))

    def _use(self) -> None:
        if self.world.has_outage:
            return
        if self.has_groups and self.world.maybe(0.5):
            self.groups.turn()
        else:
            self.users.turn()

    def _freeze(self) -> None:
        """The leader stands still for longer than an executor may be silent; executors go on."""
        frozen = self.schedulers[self.leader]
        until_ms = self.world.now_ms + self.world.chance.choice((40_000, 200_000))
        while self.world.now_ms < until_ms:
            self._go_on_without(frozen)

    def _have_outage(self, for_ms: int) -> None:
        """Nobody reaches the log for longer than an executor may be silent."""
        world = self.world
        world.outages.append((world.now_ms, world.now_ms + for_ms))
        while world.has_outage:
            self._go_on_without(None)

    def _go_on_without(self, frozen: Scheduler | None) -> None:
        world = self.world
        world.pass_time(2_000)
        for executor in self.executors:
            executor.turn()
        for scheduler in self.schedulers:
            if scheduler is not frozen and world.maybe(0.5):
                self._schedule(scheduler)
        if world.maybe(0.2):
            self._use()
            self.lookout.turn()

    def _meanwhile(self) -> None:
        """What others do while a scheduler waits for its append."""
        for _ in range(3):
            self._use()
        self.world.chance.choice(self.executors).turn()

    def _schedule(self, scheduler: Scheduler) -> None:
        """A turn; whoever has the lock and does not lead yet begins to."""
        if scheduler is self.schedulers[self.leader] and not scheduler.leads:
            if self.world.has_outage:
                return
            scheduler.lead()
        scheduler.turn()
        group_checks.check_groups_at_rest(scheduler.view, self.groups.groups)

    def settle(self) -> None:
        """No more faults; everybody takes turns until nothing is left to do."""
        self.world.calm = True
        for _ in range(SETTLE_TURNS):
            self.world.pass_time(1_000)
            for executor in self.executors:
                executor.turn()
            for scheduler in self.schedulers:
                self._schedule(scheduler)
            self.lookout.turn()
            if self._is_settled():
                return
        raise AssertionError(f"not settled: {self._live()}\n{stories(self.world, self._live())}")

    def _live(self) -> dict[JobId, JobState]:
        view = self.schedulers[self.leader].view
        states = {job_id: view.state_of(job_id) for job_id in self.users.submitted}
        return {j: s for j, s in states.items() if s is not None and s not in JOB_ENDED}

    def _is_settled(self) -> bool:
        view = self.schedulers[self.leader].view
        pods = sum(len(cluster.pods) for cluster in self.clusters)
        known = all(self.state_of(job_id) for job_id in self.users.submitted)
        is_decided = not view.rows_to_examine and not view.groups
        return known and not self._live() and is_decided and not pods

    def state_of(self, job_id: JobId) -> JobState | None:
        """The state of a job, by what the leader has and has saved."""
        view = self.schedulers[self.leader].view
        saved = self.saved.ended.get(job_id)
        return view.state_of(job_id) or (saved.state if saved else None)


def check(history: History) -> None:
    """What must be true of every history in the end."""
    final = {job_id: str(history.state_of(job_id)) for job_id in history.users.submitted}
    _check_runs(history, final)
    job_states = {job_id: job.state for job_id, job in history.lookout.jobs.items()}
    others = [job_id for job_id in final if job_states.get(job_id) != final[job_id]]
    assert job_states == final, stories(history.world, others)
    _check_stories(history, final)
    sequences = _sequences(history.world)
    groups = group_checks.check_group_ends(history.groups.groups, history.lookout.groups, sequences)
    _check_replays(history, final | {JobId(group): state for group, state in groups.items()})
    spans = {run: span for cluster in history.clusters for run, span in cluster.spans.items()}
    group_checks.check_generations(history.groups.groups, spans, sequences)
    for executor in EXECUTORS:
        assert live_leases(history.world, executor) == [], f"leases were left on {executor}"
    assert not history.schedulers[history.leader].view.orphaned_runs
    _check_starts(history)
    _check_reports(history)
    _check_losses(history)
    _check_overlaps(history)


def _check_overlaps(history: History) -> None:
    """A run is created when the earlier runs of its job have ended, unless their executor was lost
    when it was leased (docs/decisions/0027)."""
    executor_of: dict[RunId, str] = {}
    leased_ms: dict[RunId, int] = {}
    given_up: set[RunId] = set()
    for time_ms, sequence in _sequences(history.world):
        for event in sequence.events:
            if isinstance(event, ev.JobRunLeased):
                run = run_id(event.job_id, event.run)
                executor_of[run], leased_ms[run] = event.executor, time_ms
            elif isinstance(event, ev.JobRunLost) and "stopped reporting" in event.reason:
                given_up.add(run_id(event.job_id, event.run))
    beats_ms = _list_beats(history.world)
    spans = {run: span for cluster in history.clusters for run, span in cluster.spans.items()}
    for (before, span), (after, later) in _pairs_of_runs(spans):
        assert span.end_ms is not None, f"{before} never ended"
        if span.end_ms <= later.begin_ms:
            continue
        assert before in given_up, f"{after} was created before {before} had ended"
        at_ms = leased_ms[after]
        times_ms = [START_MS, *beats_ms[executor_of[before]], at_ms]
        silent_ms = _longest_silence_ms(times_ms, at_ms, at_ms, history.world)
        bound_ms = 1000 * SETTINGS.executor_timeout_s
        assert silent_ms > bound_ms, f"{after} was leased while the executor of {before} reported"


def _pairs_of_runs(
    spans: dict[RunId, Span],
) -> Iterator[tuple[tuple[RunId, Span], tuple[RunId, Span]]]:
    """All pairs of an earlier and a later run of the same job."""
    of_job: dict[str, list[tuple[int, RunId]]] = {}
    for run in spans:
        job_id, number = parse_run_id(run)
        of_job.setdefault(job_id, []).append((number, run))
    for runs in of_job.values():
        for (_, before), (_, after) in combinations(sorted(runs), 2):
            yield (before, spans[before]), (after, spans[after])


def _list_beats(world: World) -> dict[str, list[int]]:
    """When each executor's heartbeats were appended."""
    beats_ms: dict[str, list[int]] = {name: [] for name in EXECUTORS}
    for batch in Tail(world, topics.CLUSTERS).read_all():
        for entry in batch.entries:
            if entry.key in beats_ms:
                beats_ms[entry.key].append(entry.time_ms)
    return beats_ms


def _check_losses(history: History) -> None:
    """Runs are given up for silence only where their executor appended nothing for as long as
    that takes, and the log could be reached."""
    world = history.world
    beats_ms = _list_beats(world)
    leased: dict[tuple[JobId, int], tuple[str, int]] = {}
    for batch in Tail(world, topics.JOBS).read_all():
        for message in job_fold.read_messages(batch.entries):
            for event in message.sequence.events:
                if isinstance(event, ev.JobRunLeased):
                    leased[event.job_id, event.run] = (event.executor, message.time_ms)
                elif isinstance(event, ev.JobRunLost) and "stopped reporting" in event.reason:
                    executor, since_ms = leased[event.job_id, event.run]
                    times_ms = [START_MS, *beats_ms[executor], message.time_ms]
                    silent_ms = _longest_silence_ms(times_ms, since_ms, message.time_ms, world)
                    bound_ms = 1000 * SETTINGS.executor_timeout_s
                    assert silent_ms > bound_ms, f"{event} after a silence of {silent_ms} ms"


def _longest_silence_ms(times_ms: list[int], since_ms: int, until_ms: int, world: World) -> int:
    """The longest time between two heartbeats, without outages, that touches this span."""
    longest_ms = 0
    for first_ms, next_ms in pairwise(sorted(at for at in times_ms if at <= until_ms)):
        if next_ms < since_ms:
            continue
        away_ms = sum(
            max(0, min(end, next_ms) - max(begin, first_ms)) for begin, end in world.outages
        )
        longest_ms = max(longest_ms, next_ms - first_ms - away_ms)
    return longest_ms


def _check_reports(history: History) -> None:
    """A report about a queue names a job of that queue."""
    for batch in Tail(history.world, topics.REPORTS).read_all():
        for entry in batch.entries:
            report = None if entry.value is None else scheduling_reports.decode(entry.value)
            if isinstance(report, scheduling_reports.QueueShare) and report.first_waiting:
                queue, _, _ = history.users.submitted[JobId(report.first_waiting)]
                assert queue == report.queue, f"{report.queue} was told of {report.first_waiting}"


def _check_runs(history: History, final: dict[JobId, str]) -> None:
    succeeded: Counter[JobId] = Counter()
    stopped = group_checks.find_members_of_completed_groups(_sequences(history.world))
    for cluster in history.clusters:
        succeeded.update(cluster.succeeded)
    for job_id, state in final.items():
        runs = [run for (job, _), run in history.lookout.older_runs.items() if job == job_id]
        newest = history.lookout.jobs[job_id].latest
        states = [run.state for run in runs] + ([newest.state] if newest else [])
        if state == "SUCCEEDED" and job_id not in stopped:
            assert succeeded[job_id] >= 1, stories(history.world, [job_id])
            assert "SUCCEEDED" in states
        is_live = set(states) & {"LEASED", "PENDING", "RUNNING"}
        assert not is_live, f"{job_id} has a live run\n{stories(history.world, [job_id])}"


def _check_stories(history: History, final: dict[JobId, str]) -> None:
    """The plain definition of a job's history ends where the folds do."""
    sequences = _sequences(history.world)
    for job_id, state in final.items():
        story = build_story(job_id, sequences)
        assert story[-1].state == state, stories(history.world, [job_id])


def stories(world: World, job_ids: Iterable[JobId]) -> str:
    """What the log has about these jobs, to explain a failure."""
    sequences = _sequences(world)
    lines = []
    for job_id in job_ids:
        lines += [job_id, *(f"  {entry.line()}" for entry in build_story(job_id, sequences))]
    return "\n".join(lines)


def _sequences(world: World) -> list[tuple[int, ev.EventSequence]]:
    return [
        (message.time_ms, message.sequence)
        for batch in Tail(world, topics.JOBS).read_all()
        for message in job_fold.read_messages(batch.entries)
    ]


def _check_starts(history: History) -> None:
    """Gangs start as a whole or not at all, and nobody starts more than the buckets allow."""
    view = View()
    times_ms: list[int] = []
    for batch in Tail(history.world, topics.JOBS).read_all():
        for message in job_fold.read_messages(batch.entries):
            leased = [e for e in message.sequence.events if isinstance(e, ev.JobRunLeased)]
            gangs = Counter(_gang_of(history, event.job_id) for event in leased)
            for gang, count in gangs.items():
                if gang not in view.gangs or gang in view.gang_started or _members_on(view, gang):
                    continue
                least = view.gangs[gang].min_size
                assert count >= least, f"only {count} of {gang} were given nodes"
            job_fold.fold_messages(view, [message], {})
            times_ms += [message.time_ms] * len(leased)
    _check_rate(sorted(times_ms))


def _gang_of(history: History, job_id: JobId) -> GangName | None:
    queue, job_set, event = history.users.submitted[job_id]
    return None if event.gang is None else GangName(queue, job_set, event.gang.name)


def _members_on(view: View, gang: GangName) -> int:
    """Members that were given a node, and of which nothing else is decided yet."""
    rows = [row for row, rare in view.jobs.rare_properties.items() if rare.gang == gang]
    return sum(bool(IS_WITH_RUN[view.jobs.state[row]]) for row in rows)


def _check_rate(times_ms: list[int]) -> None:
    """In no stretch of time more than the burst and what flowed in, whoever led."""
    assert RULES.rate is not None
    for at, first_ms in enumerate(times_ms):
        for count, time_ms in enumerate(times_ms[at:], 1):
            flowed = RULES.rate.per_second * (time_ms - first_ms) / 1000
            assert count <= RULES.rate.burst + flowed + 1, "more starts than the bucket holds"


def _check_replays(history: History, final: dict[JobId, str]) -> None:
    """Fresh folds of the whole log know the same."""
    view = View()
    for batch in Tail(history.world, topics.JOBS).read_all():
        job_fold.fold_messages(view, job_fold.decode_batch(batch.entries), {})
    assert not view.impossible, "only a defect leads to these events"
    assert {job_id: ended.state.value for job_id, ended in view.ended.items()} == final
    again = Lookout(history.world)
    while again.positions != history.lookout.positions:
        again.turn()
    assert again.jobs == history.lookout.jobs
    assert again.older_runs == history.lookout.older_runs
    for key, job_set in again.sets.items():
        assert job_set.by_state() == history.lookout.sets[key].by_state()


def live_leases(world: World, executor: str) -> list[str]:
    """Runs that still have a lease."""
    live: dict[str, bytes] = {}
    for batch in Tail(world, topics.leases(executor).name).read_all():
        for entry in batch.entries:
            live.pop(entry.key, None)
            if entry.value is not None:
                live[entry.key] = entry.value
    return sorted(live)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_job_ends_and_all_views_agree_despite_failures(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    history.settle()
    check(history)


@pytest.mark.parametrize("seed", range(GROUP_SEEDS))
def test_every_group_ends_once_and_is_never_partly_below_its_minima(seed: int) -> None:
    history = History(seed, has_groups=True)
    for _ in range(STEPS):
        history.step()
    history.settle()
    check(history)
