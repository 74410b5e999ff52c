"""What runs use is counted once, in the hours in which it was used."""

import random

from fairlead_common.domain.records import events, scheduling_reports
from fairlead_lookout.domain import fairness_fold, resource_usage
from fairlead_lookout.domain.fairness_fold import MINUTE_MS, ReportRecord
from fairlead_lookout.domain.model import JobSet, Run
from fairlead_lookout.domain.resource_usage import HOUR_MS, UsageMeter
from tests.unit.lookout.builders import PlainView, job_id, leased, message, submitted, succeeded

KEY = ("q", "s")
USER = "ada"
ONE_CORE = {"cpu": 1000}
ASKED = {"x": ONE_CORE}


def run(number: int, leased_ms: int) -> Run:
    """A run that holds one core."""
    return Run(number, "LEASED", "e", "n0", "default", leased_ms, shape="x")


def test_a_long_run_is_spread_over_its_hours() -> None:
    job_set, meter = JobSet(1, KEY, 0), UsageMeter(ASKED)
    meter.start_run(job_set, USER, run(1, HOUR_MS // 2))
    meter.end_run(job_set, USER, run(1, HOUR_MS // 2), 3 * HOUR_MS)
    meter.finish_runs()
    hours = {hour: usage.used["cpu"] / 1000 for (_, _, hour, _), usage in meter.usage.items()}
    assert hours == {0: HOUR_MS / 2, HOUR_MS: HOUR_MS, 2 * HOUR_MS: HOUR_MS}
    assert job_set.used == {"cpu": 1000 * (5 * HOUR_MS // 2)}
    assert job_set.held == {}


def test_runs_that_overlap_add_up_whenever_they_are_counted() -> None:
    chance = random.Random(3)
    for _ in range(20):
        job_set, meter = JobSet(1, KEY, 0), UsageMeter(ASKED)
        spans = [(begin, begin + chance.randrange(9 * HOUR_MS)) for begin in
                 sorted(chance.randrange(5 * HOUR_MS) for _ in range(10))]  # fmt: skip
        moments = [(begin, 0, n) for n, (begin, _) in enumerate(spans)]
        moments += [(end, 1, n) for n, (_, end) in enumerate(spans)]
        for at_ms, is_end, number in sorted(moments):
            each = run(number, spans[number][0])
            meter.end_run(job_set, USER, each, at_ms) if is_end else meter.start_run(
                job_set, USER, each
            )
            if chance.random() < 0.3:
                meter.finish_runs()
                meter.count_until(job_set, at_ms)
        meter.finish_runs()
        total = 1000 * sum(end - begin for begin, end in spans)
        assert job_set.used["cpu"] == total
        assert sum(usage.used["cpu"] for usage in meter.usage.values()) == total


def test_the_usage_of_a_preempted_run_is_lost() -> None:
    view = PlainView()
    asked = events.JobPreemptRequested(job_id=job_id("a"), reason="room")
    stopped = events.JobRunStopped(job_id=job_id("a"), run=1, reason="asked to")
    view.fold(message(0, submitted("a"), leased("a"), submitted("b"), leased("b")))
    view.fold(message(400, asked), message(500, stopped, *succeeded("b")))
    assert sum(view.lost.values()) == 1000 * 500
    assert {key[-1]: lost for key, lost in view.lost_by_user.items()} == {"anna": 1000 * 500}
    assert sum(view.used.values()) == 2 * 1000 * 500
    assert view.cache.job_sets[KEY].held == {}


def test_what_runs_use_is_counted_for_the_user_who_submitted_the_job() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a")), message(1, submitted("b"), submitted("c"), by="ben"))
    view.fold(message(2, leased("a"), leased("b"), by="scheduler"))
    assert view.cache.job_sets[KEY].held == {"default": {"anna": ONE_CORE, "ben": ONE_CORE}}
    view.fold(message(3, leased("c"), by="scheduler"), message(6, *succeeded("b"), by="e"))
    assert view.cache.job_sets[KEY].held == {"default": {"anna": ONE_CORE, "ben": ONE_CORE}}
    view.fold(message(8, *succeeded("a"), *succeeded("c"), by="e"))
    hour = resource_usage.start_of_hour(1_000_000)
    assert dict(view.used_by_user) == {
        ("q", hour, "cpu", "anna"): 6 * 1000,
        ("q", hour, "cpu", "ben"): (4 + 5) * 1000,
    }
    assert dict(view.used) == {("q", "default", hour, "cpu"): 15 * 1000}


def test_live_runs_are_counted_until_now() -> None:
    job_set, meter = JobSet(1, KEY, 0, jobs=4, live=3, last_ms=1_000), UsageMeter(ASKED)
    meter.start_run(job_set, USER, run(1, 0))
    meter.finish_runs()
    assert resource_usage.total_usage(job_set, 5_000) == {"cpu": 5_000_000}
    assert job_set.used == {}
    assert resource_usage.estimate_end_ms(job_set, 1_500) == 4_000
    assert resource_usage.estimate_end_ms(job_set, 5_000) is None


def test_a_mean_share_is_weighted_with_the_time_for_which_it_held() -> None:
    def said(at_ms: int, share: float) -> ReportRecord:
        record = scheduling_reports.QueueShare(pool="p", queue="q", weight=1, actual_share=share)
        return ReportRecord("p/q", at_ms, record)

    whole = fairness_fold.fold_reports({}, [said(0, 1.0), said(45_000, 0.0), said(60_000, 0.5)])
    first = whole.totals[MINUTE_MS, "q", 0, "p"]
    assert (first.ms, first.actual_share) == (60_000, 45_000)
    known: dict[fairness_fold.ShareKey, fairness_fold.ReportedShare] = {}
    parts = []
    for record in [said(0, 1.0), said(45_000, 0.0), said(60_000, 0.5)]:
        added = fairness_fold.fold_reports(known, [record])
        known |= {key: each for key, each in added.current.items() if each is not None}
        parts.append(added.totals.get((MINUTE_MS, "q", 0, "p")))
    assert sum(each.actual_share for each in parts if each) == first.actual_share
    ended = fairness_fold.fold_reports(known, [ReportRecord("p/q", 120_000, None)])
    assert ended.current == {("p", "q"): None}
    assert ended.totals[MINUTE_MS, "q", 60_000, "p"].actual_share == 30_000


def test_a_deleted_shape_is_recorded_again_with_the_next_job_that_has_it() -> None:
    view = PlainView()
    (shape,) = view.fold(message(0, submitted("a"))).shapes
    assert not view.fold(message(1, submitted("b"))).shapes
    view.cache.requests[shape] = {}  # as when the table has it no more
    assert view.fold(message(2, submitted("c"))).shapes == {shape: {"cpu": 1000}}
