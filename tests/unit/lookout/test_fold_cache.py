"""The cache of the fold."""

from fairlead_lookout.store.fold.fold_cache import FoldCache
from tests.unit.lookout.builders import (
    PlainView,
    job_id,
    leased,
    message,
    running,
    submitted,
    succeeded,
)


def test_the_least_recently_used_jobs_are_evicted_first() -> None:
    view = PlainView()
    view.cache = FoldCache(jobs_max=2)
    view.fold(message(0, submitted("a"), submitted("b")))
    view.fold(message(1, leased("a")))
    view.fold(message(2, submitted("c")))
    assert list(view.cache.jobs) == [job_id("a"), job_id("c")]


def test_jobs_that_have_ended_are_not_retained() -> None:
    cache = FoldCache(jobs_max=2)
    view = PlainView()
    for _ in cache.apply(view.fold(message(0, submitted("a"), submitted("b")))):
        pass
    assert list(cache.jobs) == [job_id("a"), job_id("b")]
    for _ in cache.apply(view.fold(message(1, leased("a"), running("a"), *succeeded("a")))):
        pass
    assert list(cache.jobs) == [job_id("b")]
    assert view.cache.jobs[job_id("a")].state == "SUCCEEDED"


def test_jobs_of_weeks_that_have_expired_in_all_partitions_are_removed() -> None:
    view = PlainView()
    view.fold(message(0, submitted("old"), submitted("next"), submitted("new")))
    for name, week in (("old", 7), ("next", 8), ("new", 9)):
        view.cache.jobs[job_id(name)].week = week
    view.cache.expired_weeks = {0: 8, 1: 7}
    view.cache.remove_expired_jobs()
    assert list(view.cache.jobs) == [job_id("next"), job_id("new")]
    view.cache.clear()
    assert not view.cache.expired_weeks
