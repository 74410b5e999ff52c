"""What a webhook matches, how requests are validated, and when retries are made."""

import msgspec
import pytest

from fairlead_common.domain.requests.decoding import Decoder
from fairlead_lookout.domain.webhooks.retry_schedule import (
    DELAYS_S,
    Attempt,
    decide_next_step,
    explain_disabling,
)
from fairlead_lookout.domain.webhooks.webhook_requests import (
    Permitted,
    WebhookRequest,
    check_webhook,
)
from fairlead_lookout.domain.webhooks.webhook_types import EventFilter, Secret, rotate_secrets

FAILED = Attempt(duration_ms=1, status=500, error="Status 500.")


def find_errors(**fields: object) -> dict[str, str]:
    body = msgspec.json.encode({"name": "a", "url": "https://example.org", **fields})
    given, known = Decoder(WebhookRequest)(body)
    checked = check_webhook(given, known, Permitted())
    return {e.pointer: e.detail for e in checked} if isinstance(checked, list) else {}


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (None, "anything", True),
        ("scan-*", "scan-12", True),
        ("scan-*", "a/scan-12", False),
        ("*/nightly", "a/b/nightly", True),
        ("run-?", "run-1", True),
        ("run-[12]", "run-2", True),
        ("run-[12]", "run-3", False),
        ("a" * 20 + "*" * 8 + "b", "a" * 256, False),
    ],
)
def test_patterns_of_job_sets(pattern: str | None, name: str, expected: bool) -> None:
    assert EventFilter("q", pattern).matches_job_set("q", name) is expected


def test_another_queue_does_not_match() -> None:
    assert not EventFilter("q").matches_job_set("r", "s")
    assert EventFilter().matches_job_set("r", "s")


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": "Not valid"}, "/name"),
        ({"url": "http://example.org"}, "/url"),
        ({"unknown": 1}, "/unknown"),
        ({"concurrency": 65}, "/concurrency"),
        ({"concurrency": 0}, "/concurrency"),
        ({"format": "xml"}, "/format"),
        ({"filter": {"types": ["nothing"]}}, "/filter/types/0"),
        ({"filter": {"jobSet": "*" * 9}}, "/filter/jobSet"),
        ({"filter": {"jobSet": "a" * 300}}, "/filter/jobSet"),
        ({"headers": {"Host": "x"}}, "/headers/Host"),
        ({"headers": {"webhook-id": "x"}}, "/headers/webhook-id"),
        ({"headers": {"a b": "x"}}, "/headers/a b"),
        ({"headers": {"x": "a\r\nb: c"}}, "/headers/x"),
        ({"headers": {"x": "a" * 1_025}}, "/headers/x"),
        ({"headers": {"x": "1", "X": "2"}}, "/headers/X"),
        ({"headers": {f"x{n}": "" for n in range(17)}}, "/headers"),
        ({"ordered": "yes"}, "/ordered"),
    ],
)
def test_each_invalid_field_is_named(fields: dict[str, object], pointer: str) -> None:
    assert list(find_errors(**fields)) == [pointer]


def test_all_errors_are_reported_at_once() -> None:
    errors = find_errors(name="-", url="ftp://x", concurrency=0, headers={"Host": "x"})
    assert set(errors) == {"/name", "/url", "/concurrency", "/headers/Host"}


def test_a_failed_attempt_is_repeated_after_a_random_part_of_the_delay() -> None:
    for number, delay_s in enumerate(DELAYS_S, 1):
        step = decide_next_step(FAILED, number, 1_000, 0.5)
        assert (step.state, step.due_ms) == ("PENDING", 1_000 + delay_s * 500)
    assert decide_next_step(FAILED, len(DELAYS_S) + 1, 1_000, 0.5).state == "FAILED"


def test_a_receiver_can_ask_for_more_time_within_a_bound() -> None:
    for asked_s, expected_s in ((60, 60), (10**6, 3_600)):
        attempt = Attempt(duration_ms=1, status=429, retry_after_s=asked_s)
        assert decide_next_step(attempt, 1, 0, 0.5).due_ms == expected_s * 1_000


def test_only_2xx_is_success() -> None:
    for status, expected in ((200, True), (204, True), (302, False), (400, False), (500, False)):
        assert Attempt(duration_ms=1, status=status).succeeded is expected
    assert not Attempt(duration_ms=1).succeeded


def test_a_webhook_is_disabled_after_days_of_failures_or_410() -> None:
    day_ms = 86_400_000
    assert explain_disabling(FAILED, 0, 4 * day_ms, 5 * 86_400) is None
    reason = explain_disabling(FAILED, 0, 5 * day_ms, 5 * 86_400)
    assert reason == "Every delivery failed for 5 days. The last error: Status 500."
    gone = Attempt(duration_ms=1, status=410, error="Status 410.")
    assert "410 Gone" in (explain_disabling(gone, 0, 0, 5 * 86_400) or "")


def test_at_most_two_secrets_are_valid_after_rotations() -> None:
    first = rotate_secrets((), "one", 0, 0)
    second = rotate_secrets(first, "two", 1_000, 60)
    assert second == (Secret("two", 1_000), Secret("one", 0, 61_000))
    third = rotate_secrets(second, "three", 2_000, 60)
    assert [secret.sealed for secret in third] == ["three", "two"]
    assert rotate_secrets(second, "three", 2_000, 0) == (Secret("three", 2_000),)
    assert [secret.is_valid(60_999) for secret in second] == [True, True]
    assert [secret.is_valid(61_000) for secret in second] == [True, False]
