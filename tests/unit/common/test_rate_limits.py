"""Buckets that fill with time, and requests under way."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.web import rate_limits
from fairlead_common.web.rate_limits import ConcurrencyLimiter, RateLimiter


def test_a_full_bucket_permits_a_burst_and_then_the_rate() -> None:
    buckets: RateLimiter[str] = RateLimiter(2.0, 4, 10)
    assert [buckets.take("ann", 100.0).left for _ in range(4)] == [3, 2, 1, 0]
    refused = buckets.take("ann", 100.0)
    assert (refused.wait_s, refused.full_s) == (0.5, 2.0)
    assert buckets.wait_s("ann", 100.0) == 0.5
    assert buckets.take("ann", 100.5).wait_s == 0
    assert buckets.take("ann", 100.5).wait_s > 0
    assert buckets.take("ann", 1_000.0).left == 3


def test_a_refused_request_uses_no_token() -> None:
    buckets: RateLimiter[str] = RateLimiter(1.0, 1, 10)
    buckets.take("ann", 0.0)
    for _ in range(100):
        assert buckets.take("ann", 0.5).wait_s == 0.5
    assert buckets.take("ann", 1.0).wait_s == 0


def test_each_caller_has_a_separate_bucket() -> None:
    buckets: RateLimiter[str] = RateLimiter(1.0, 1, 10)
    assert buckets.take("ann", 0.0).wait_s == 0
    assert buckets.take("bob", 0.0).wait_s == 0
    assert buckets.take("ann", 0.0).wait_s > 0


def test_the_number_of_buckets_is_bounded() -> None:
    buckets: RateLimiter[int] = RateLimiter(0.001, 5, 100)
    for caller in range(10_000):
        buckets.take(caller, 0.0)
    assert len(buckets) == 100


def test_full_buckets_are_evicted_first() -> None:
    buckets: RateLimiter[str] = RateLimiter(1.0, 2, 3)
    for name in ("ann", "ann", "bob", "eve"):
        buckets.take(name, 0.0)
    buckets.take("new", 1.5)
    assert buckets.take("ann", 1.5).left == 0, "ann was not forgotten"


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 20), st.floats(0.5, 50))
def test_requests_never_exceed_the_burst_and_the_rate(
    pauses: list[float], burst: int, per_second: float
) -> None:
    buckets: RateLimiter[str] = RateLimiter(per_second, burst, 10)
    now_s, taken = 1_000.0, 0
    for pause_s in pauses:
        now_s += pause_s
        got = buckets.take("ann", now_s)
        taken += got.wait_s == 0
        assert 0 <= got.left < burst
        assert got.full_s <= burst / per_second + 1e-6
    assert taken <= burst + (now_s - 1_000.0) * per_second + 1e-6


def test_slots_are_acquired_and_released() -> None:
    under_way: ConcurrencyLimiter[str] = ConcurrencyLimiter(2)
    assert [under_way.begin("ann") for _ in range(3)] == [True, True, False]
    assert under_way.begin("bob")
    under_way.end("ann")
    assert under_way.begin("ann")
    for name in ("ann", "ann", "bob"):
        under_way.end(name)
    assert len(under_way) == 0


def test_retry_after_is_never_too_short() -> None:
    assert [rate_limits.retry_after_s(wait_s) for wait_s in (0.01, 1.0, 1.1, 60)] == [1, 1, 2, 60]
