"""What is stated again of a job brings both folds to the truth, and changes none that is there."""

import itertools

import msgspec
import pytest

from fairlead_common.domain import repair_events
from fairlead_common.domain.ids import GroupId, JobId, client_job_id, job_set_partition
from fairlead_common.domain.lifecycle import JobState, RunState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.repair_events import Choice, Knowledge, KnownGroup
from fairlead_common.domain.scheduling import shapes
from fairlead_lookout.domain import view_fold
from fairlead_lookout.domain.model import JobSet, StoredRecords
from fairlead_lookout.domain.model import Message as LookoutMessage
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View

PARTITION = job_set_partition("q", "s")
JOB: JobId = client_job_id(PARTITION, "q", "s", "a")
SUBMITTED = ev.JobSubmitted(
    job_id=JOB,
    shape=shapes.encode(shapes.Shape(requests={"cpu": 1})),
    spec=msgspec.Raw(b"{}"),
    digest="d",
)


def live(state: JobState, run: int, run_state: RunState | None = None) -> Knowledge:
    return Knowledge(state=state, run=run, run_state=run_state, executor="e", node="n")


KNOWN = [
    Knowledge(),
    live(JobState.QUEUED, 0),
    live(JobState.QUEUED, 2, RunState.LOST),
    *(live(JobState.LEASED, run, RunState.LEASED) for run in (1, 3)),
    *(live(JobState.RUNNING, run, RunState.RUNNING) for run in (1, 3)),
    live(JobState.RUNNING, 3, RunState.SUCCEEDED),
    *(
        Knowledge(state=state, run=run)
        for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.PREEMPTED)
        for run in (1, 3)
    ),
]
TRUTHS = [each for each in KNOWN if each.state is not None]


class Folds:
    """The scheduler's fold and lookout's, each fed with its own messages."""

    def __init__(self) -> None:
        self.view = View()
        self.lookout = StoredRecords(
            jobs={}, job_sets={("q", "s"): JobSet(1, ("q", "s"), PARTITION)}
        )
        self._position = 0

    def state(self, events: list[ev.AnyEvent]) -> None:
        for event in events:
            sequence = ev.EventSequence(queue="q", job_set="s", by="t", events=[event])
            place = (PARTITION, self._position, 1_800_000_000_000 + self._position)
            self._position += 1
            job_fold.fold_messages(self.view, [job_fold.Message(*place, sequence)], {})
            changes = view_fold.fold_messages(self.lookout, [LookoutMessage(*place, sequence)])
            self.lookout = StoredRecords(
                jobs={**self.lookout.jobs, **changes.jobs},
                job_sets={**self.lookout.job_sets, **changes.job_sets},
                older_runs={**self.lookout.older_runs, **changes.older_runs},
            )

    def of_scheduler(self) -> tuple[JobState | None, int | None]:
        """State, and newest run of a live job."""
        row = self.view.jobs.rows.get(JOB)
        state = self.view.state_of(JOB)
        live_row = row is not None and not job_table.IS_ENDED[self.view.jobs.state[row]]
        return state, self.view.jobs.run.item(row) if live_row and row is not None else None

    def of_lookout(self) -> tuple[str, int]:
        job = self.lookout.jobs[JOB]
        return job.state, job.run


def history(known: Knowledge) -> list[ev.AnyEvent]:
    """Events after which both views know this."""
    if known.state is None:
        return []
    return list(repair_events.make_events(JOB, Knowledge(), known, SUBMITTED, every_run=True))


def allowed(outdated: Knowledge, truth: Knowledge) -> bool:
    """Whether a view that missed events could know the one while the other is true."""
    if outdated.is_ended or outdated.run > truth.run:
        return False
    if (
        outdated.run == truth.run
        and truth.state is JobState.QUEUED
        and outdated.state is truth.state
    ):
        return True
    held = {JobState.LEASED: 1, JobState.PENDING: 2, JobState.RUNNING: 3}
    if outdated.run == truth.run and outdated.has_run and truth.has_run:
        return held[outdated.state or JobState.LEASED] <= held[truth.state or JobState.LEASED] and (
            outdated.run_state is not RunState.SUCCEEDED or truth.run_state is RunState.SUCCEEDED
        )
    return not (outdated.state is JobState.QUEUED and outdated.run and outdated.run == truth.run)


PAIRS = [(b, t) for b, t in itertools.product(KNOWN, TRUTHS) if allowed(b, t)]


def test_there_are_many_pairs() -> None:
    assert len(PAIRS) > 50


@pytest.mark.parametrize(("outdated", "truth"), PAIRS)
def test_an_old_scheduler_view_is_completed(outdated: Knowledge, truth: Knowledge) -> None:
    folds = Folds()
    folds.state(history(outdated))
    folds.state(list(repair_events.make_events(JOB, outdated, truth, SUBMITTED, every_run=True)))
    state, run = folds.of_scheduler()
    assert state is truth.state
    assert run is None or run == truth.run


@pytest.mark.parametrize(("outdated", "truth"), PAIRS)
def test_an_old_lookout_view_is_completed(outdated: Knowledge, truth: Knowledge) -> None:
    folds = Folds()
    folds.state(history(outdated))
    folds.state(list(repair_events.make_events(JOB, outdated, truth, SUBMITTED, every_run=False)))
    state, run = folds.of_lookout()
    later_run = outdated.has_run and truth.has_run and outdated.run < truth.run
    assert state == truth.state or (later_run and state == outdated.state)  # until that run starts
    assert truth.state is JobState.QUEUED or run >= truth.run or truth.is_ended


@pytest.mark.parametrize("every_run", [True, False])
@pytest.mark.parametrize(("outdated", "truth"), PAIRS)
def test_a_complete_view_is_not_changed(
    outdated: Knowledge, truth: Knowledge, every_run: bool
) -> None:
    if truth.state in (JobState.SUCCEEDED, JobState.PREEMPTED) and truth.run == outdated.run:
        return  # then the run of the truth is not the one that is stated
    folds = Folds()
    folds.state(history(truth))
    before = folds.of_scheduler(), folds.of_lookout()
    folds.state(
        list(repair_events.make_events(JOB, outdated, truth, SUBMITTED, every_run=every_run))
    )
    assert (folds.of_scheduler(), folds.of_lookout()) == before


def chosen(scheduler: Knowledge, lookout: Knowledge, **said: bool) -> Choice:
    usual = {"scheduler_complete": True, "lookout_complete": True, "has_lease": False}
    return repair_events.choose(scheduler, lookout, **{**usual, **said})


def test_an_end_is_true_wherever_it_is_known() -> None:
    ended, runs = Knowledge(state=JobState.FAILED), live(JobState.RUNNING, 1, RunState.RUNNING)
    for complete in (True, False):
        assert chosen(ended, runs, scheduler_complete=complete) is Choice.SCHEDULER
        assert chosen(runs, ended, scheduler_complete=complete) is Choice.LOOKOUT


def test_a_complete_view_is_the_source_of_a_repair() -> None:
    waits, runs = live(JobState.QUEUED, 0), live(JobState.RUNNING, 1, RunState.RUNNING)
    assert chosen(runs, waits, lookout_complete=False) is Choice.SCHEDULER
    assert chosen(waits, runs, scheduler_complete=False) is Choice.LOOKOUT
    assert chosen(Knowledge(), runs) is Choice.END_UNKNOWN
    assert chosen(runs, Knowledge(), scheduler_complete=False) is Choice.END_UNKNOWN


def test_without_a_complete_view_leases_decide_about_runs_and_queued_jobs_stay() -> None:
    waits, runs = live(JobState.QUEUED, 0), live(JobState.RUNNING, 1, RunState.RUNNING)
    outdated = {"scheduler_complete": False, "lookout_complete": False}
    assert chosen(waits, waits, **outdated) is Choice.SCHEDULER
    assert chosen(Knowledge(), waits, **outdated) is Choice.LOOKOUT
    assert chosen(waits, runs, has_lease=True, **outdated) is Choice.LOOKOUT
    assert chosen(runs, runs, has_lease=True, **outdated) is Choice.SCHEDULER
    assert chosen(runs, runs, **outdated) is Choice.END_UNKNOWN


GROUP = GroupId(JOB)
TERMS = ev.Group(roles=(ev.GroupRole("train", 1, 2),))
ENDED_STATES = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


def known_group(state: JobState, terms: ev.Group = TERMS) -> KnownGroup:
    return KnownGroup(state=state, submitted=ev.GroupSubmitted(group=GROUP, terms=terms, digest=""))


@pytest.mark.parametrize(
    ("known", "truth", "expected"),
    [
        (None, JobState.QUEUED, [ev.GroupSubmitted]),
        (None, JobState.RUNNING, [ev.GroupSubmitted, ev.GroupRunning]),
        (None, JobState.FAILED, []),
        (JobState.QUEUED, JobState.RUNNING, [ev.GroupRunning]),
        (JobState.RUNNING, JobState.RUNNING, []),
        (JobState.RUNNING, JobState.QUEUED, [ev.GroupRestarting]),
        (JobState.RUNNING, JobState.SUCCEEDED, [ev.GroupSucceeded]),
        (JobState.RUNNING, JobState.CANCELLED, [ev.GroupCancelled]),
        (JobState.QUEUED, JobState.FAILED, [ev.GroupFailed]),
    ],
)
def test_events_bring_a_view_to_the_true_state_of_a_group(
    known: JobState | None, truth: JobState, expected: list[type]
) -> None:
    view = None if known is None else known_group(known)
    made = repair_events.make_group_events(GROUP, view, known_group(truth))
    assert [type(event) for event in made] == expected


def test_the_newer_generation_of_a_group_is_true_if_both_views_are_old() -> None:
    again = known_group(JobState.QUEUED, msgspec.structs.replace(TERMS, generation=2))
    before = known_group(JobState.RUNNING)
    for scheduler, lookout, choice in (
        (before, again, Choice.LOOKOUT),
        (again, before, Choice.SCHEDULER),
    ):
        chosen = repair_events.choose_for_group(
            scheduler, lookout, scheduler_complete=False, lookout_complete=False
        )
        assert chosen is choice


def test_a_view_gets_the_terms_and_the_generation_of_a_group() -> None:
    larger = ev.Group(roles=(ev.GroupRole("train", 1, 3),))
    again = msgspec.structs.replace(larger, generation=2)
    running, queued = JobState.RUNNING, JobState.QUEUED
    (changed,) = repair_events.make_group_events(
        GROUP, known_group(running), known_group(running, larger)
    )
    assert isinstance(changed, ev.GroupChanged)
    assert changed.terms == larger
    recreated = list(
        repair_events.make_group_events(GROUP, known_group(running), known_group(queued, again))
    )
    assert [type(event) for event in recreated] == [ev.GroupChanged]


@pytest.mark.parametrize("ended", ENDED_STATES)
def test_a_view_that_knows_the_end_of_a_group_is_right(ended: JobState) -> None:
    live_group, done = known_group(JobState.RUNNING), KnownGroup(state=ended)
    for complete in (True, False):
        choose = repair_events.choose_for_group
        at = {"scheduler_complete": complete, "lookout_complete": not complete}
        assert choose(done, live_group, **at) is Choice.SCHEDULER
        assert choose(live_group, done, **at) is Choice.LOOKOUT


@pytest.mark.parametrize(
    ("scheduler", "lookout", "complete", "choice"),
    [
        (False, True, (True, False), Choice.END_UNKNOWN),
        (True, False, (False, True), Choice.END_UNKNOWN),
        (False, True, (False, True), Choice.LOOKOUT),
        (False, True, (False, False), Choice.LOOKOUT),
        (True, True, (False, False), Choice.SCHEDULER),
        (True, True, (False, True), Choice.LOOKOUT),
        (True, True, (True, True), Choice.SCHEDULER),
    ],
)
def test_a_complete_view_is_right_about_a_live_group(
    scheduler: bool, lookout: bool, complete: tuple[bool, bool], choice: Choice
) -> None:
    group = known_group(JobState.RUNNING)
    chosen = repair_events.choose_for_group(
        group if scheduler else None,
        group if lookout else None,
        scheduler_complete=complete[0],
        lookout_complete=complete[1],
    )
    assert chosen is choice
