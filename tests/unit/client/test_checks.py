"""What `fairlead doctor` makes of a server's answers."""

import datetime

import pytest

from fairlead.calls.exchange_types import Reply
from fairlead.cli.support import command_base, doctor_checks
from fairlead.models.cluster_models import Cluster, QuarantineReader, QuarantineRecord
from tests.unit.client.world import ok

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
WELL = {"ready": True, "version": "1.2.3", "checks": {"log": "ok", "view": "ok"}}


def test_a_fairlead_is_recognized_by_its_liveness_response() -> None:
    assert (
        doctor_checks.check_server("u", Reply(200, {}, b"ok\n"), 0.0123).message
        == "u answers in 12 ms"
    )
    assert (
        doctor_checks.check_server("u", Reply(200, {}, b"<html>"), 0.1).code
        == command_base.EXIT_UNREACHABLE
    )


@pytest.mark.parametrize(
    ("date", "said", "code"),
    [
        ("Thu, 01 Jan 2026 12:00:09 GMT", "agree", 0),
        ("Thu, 01 Jan 2026 11:55:00 GMT", "5m0s ahead of", 1),
        ("Thu, 01 Jan 2026 12:02:00 GMT", "2m0s behind", 1),
        ("", "no valid date", 0),
    ],
)
def test_different_clocks_are_reported(date: str, said: str, code: int) -> None:
    found = doctor_checks.check_clock({"date": date}, NOW)
    assert said in found.message
    assert found.code == code
    assert bool(found.hint) == bool(code)


def test_unavailable_dependencies_of_a_server_are_reported() -> None:
    assert [found.code for found in doctor_checks.check_health(ok(WELL))] == [0]
    ill = {"ready": False, "checks": {"log": "does not answer", "view": "ok"}}
    well, bad = doctor_checks.check_health(ok(ill))
    assert (well.code, bad.name, bad.message) == (0, "log", "does not answer")
    assert bad.code == command_base.EXIT_UNREACHABLE


def test_a_problem_document_is_not_a_readiness_response() -> None:
    assert doctor_checks.is_readiness(ok(WELL))
    assert doctor_checks.is_readiness(Reply(503, {}, b'{"ready": false, "checks": {}}'))
    assert not doctor_checks.is_readiness(Reply(401, {}, b'{"type": "/problems/unauthenticated"}'))
    assert not doctor_checks.is_readiness(Reply(404, {}, b"not found"))


def test_a_server_that_works_without_a_dependency_is_not_unreachable() -> None:
    _, bad = doctor_checks.check_health(
        ok({"ready": True, "checks": {"log": "ok", "cache": "away"}})
    )
    assert bad.code == command_base.EXIT_JOBS_FAILED


@pytest.mark.parametrize(("ours", "code"), [("1.2.0", 0), ("1.3.0", 1), ("0.2.3", 1)])
def test_patch_versions_are_not_compared(ours: str, code: int) -> None:
    assert doctor_checks.check_versions(ours, ok(WELL)).code == code


def test_a_view_with_a_large_lag_is_reported() -> None:
    def metrics(outdated: str) -> Reply:
        return Reply(200, {}, f"# HELP x\nfairlead_lookout_lag_messages {outdated}\n".encode())

    assert doctor_checks.check_lag(metrics("1.0")).message == "the view is 1 message behind the log"
    assert doctor_checks.check_lag(metrics("20000.0")).code == 1
    assert doctor_checks.check_lag(Reply(404, {})).code == 0


def test_silent_and_missing_clusters_are_reported() -> None:
    fresh = Cluster(executor="a", last_heartbeat="2026-01-01T11:59:58.000Z", nodes=2)
    stale = Cluster(executor="b", last_heartbeat="2026-01-01T11:00:00.000Z", status="STALE")
    lost = Cluster(executor="e", last_heartbeat="2026-01-01T11:00:00.000Z", status="LOST")
    marked = Cluster(
        executor="c", last_heartbeat="2026-01-01T12:00:00.000Z", cordoned=True, reason="why"
    )
    found = [fresh, stale, marked, Cluster(executor="d"), lost]
    findings = doctor_checks.check_clusters(found, NOW)
    assert [found.code for found in findings] == [0, 1, 0, 1, 1]
    assert "2 nodes" in findings[0].message
    assert findings[1].message == "stale: its last heartbeat came 1h0m ago"
    assert findings[2].message == "cordoned: why"
    assert findings[3].message == "it has never sent a heartbeat"
    assert findings[4].message.startswith("lost: ")
    assert "its runs are given up" in findings[4].hint
    assert doctor_checks.check_clusters([], NOW)[0].code == 1


def undecodable(outcome: str, *, stopped: bool = False, day: int = 1) -> QuarantineRecord:
    reader = QuarantineReader(
        reader="scheduler", outcome=outcome, stopped=stopped, reason="it is garbage"
    )
    return QuarantineRecord(
        topic="fairlead.jobs",
        partition=3,
        position=17,
        time=f"2026-01-{day:02}T11:00:00.000Z",
        key="q/s",
        head="garb\\xff",
        size=5,
        readers=(reader,),
    )


def test_a_log_without_undecodable_records_is_ok() -> None:
    (found,) = doctor_checks.check_quarantine([], NOW)
    assert found.code == 0


def test_a_skipped_record_is_reported_with_its_position_and_reason() -> None:
    (found,) = doctor_checks.check_quarantine([undecodable("skipped")], NOW)
    for part in ("fairlead.jobs, partition 3, position 17", "scheduler skipped", "it is garbage"):
        assert part in found.message
    assert found.code == command_base.EXIT_JOBS_FAILED


def test_an_old_skipped_record_is_only_listed() -> None:
    later = NOW + datetime.timedelta(days=3)
    (found,) = doctor_checks.check_quarantine([undecodable("skipped")], later)
    assert found.code == 0


def test_a_stopped_partition_has_an_upgrade_hint() -> None:
    later = NOW + datetime.timedelta(days=3)
    (found,) = doctor_checks.check_quarantine([undecodable("stopped", stopped=True)], later)
    assert found.code == command_base.EXIT_JOBS_FAILED
    assert "upgrade scheduler" in found.hint
    assert 'FAIRLEAD_SKIP_RECORDS=["fairlead.jobs/3/17"]' in found.hint


def test_further_records_are_counted() -> None:
    many = [undecodable("skipped")] * (doctor_checks.QUARANTINE_LISTED_MAX + 7)
    found = doctor_checks.check_quarantine(many, NOW)
    assert len(found) == doctor_checks.QUARANTINE_LISTED_MAX + 1
    assert "7 older records" in found[-1].message
