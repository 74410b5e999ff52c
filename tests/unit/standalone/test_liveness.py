"""When a child that does not answer counts as hung."""

import pytest

from fairlead_common.domain.errors import WorldError
from fairlead_standalone.processes.liveness import Liveness, ProbeFailures, load

LIVENESS = Liveness(every_s=5.0, answer_s=5.0, failures_max=3)


def test_only_failures_in_a_row_count() -> None:
    failures = ProbeFailures(LIVENESS)
    answers = [False, False, True, False, False, False]
    assert [failures.note(answered, 5.0) for answered in answers] == [False] * 5 + [True]


def test_a_machine_that_was_suspended_during_a_probe_kills_nothing() -> None:
    failures = ProbeFailures(LIVENESS)
    assert not any(failures.note(False, 3600.0) for _ in range(10))


def test_the_defaults_allow_a_service_to_pause_for_a_minute() -> None:
    default = load({})
    assert default.failures_max * default.every_s >= 60


def test_the_interval_is_set_by_the_environment() -> None:
    assert load({"FAIRLEAD_PROBE_S": "0.5"}).every_s == 0.5


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan", "inf"])
def test_an_interval_that_is_not_a_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(WorldError, match="FAIRLEAD_PROBE_S"):
        load({"FAIRLEAD_PROBE_S": text})
