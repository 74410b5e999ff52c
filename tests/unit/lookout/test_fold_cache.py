"""The cache of the fold."""

from fairlead_lookout.store.fold.fold_cache import FoldCache
from tests.unit.lookout.builders import PlainView, job_id, leased, message, submitted


def test_the_least_recently_used_jobs_are_evicted_first() -> None:
    view = PlainView()
    view.cache = FoldCache(jobs_max=2)
    view.fold(message(0, submitted("a"), submitted("b")))
    view.fold(message(1, leased("a")))
    view.fold(message(2, submitted("c")))
    assert list(view.cache.jobs) == [job_id("a"), job_id("c")]
