"""Settings of submit that contradict each other are refused at start, by name."""

import msgspec
import pytest

from fairlead_common.domain.scheduling.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.service.settings import SettingsError
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_submit.domain.policy import JobDefaults, Limits
from fairlead_submit.service.settings import SubmitSettings

PLAIN = SubmitSettings()

ERRORS: dict[str, tuple[dict[str, object], str]] = {
    "no class at all": (
        {"priority_classes": ()},
        "priorityClasses: must contain at least one class",
    ),
    "a default that is no class": (
        {"priority_classes": (PriorityClass(name="only", value=1),)},
        "jobDefaults.priorityClass: is 'default'; the priority classes are: only",
    ),
    "a request that is no quantity": (
        {"job_defaults": JobDefaults(requests={"memory": "1 GB"})},
        "jobDefaults.requests.memory: '1 GB' is not a quantity",
    ),
    "an overhead that is no quantity": (
        {"job_defaults": JobDefaults(overhead_by_runtime_class={"kata": {"cpu": "a"}})},
        "jobDefaults.overheadByRuntimeClass.kata.cpu: 'a' is not a quantity",
    ),
    "a claim that is no quantity": (
        {"job_defaults": JobDefaults(requests_by_claim={"gpu": {"gpu.example.com": "0.5"}})},
        "jobDefaults.requestsByClaim.gpu.gpu.example.com: '0.5' is not a whole number",
    ),
    "no job at all": ({"limits": Limits(jobs_max=0)}, "limits.jobsMax: is 0; at least 1"),
}


@pytest.mark.parametrize(("fields", "said"), ERRORS.values(), ids=ERRORS.keys())
def test_invalid_settings_are_refused_by_name(fields: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        msgspec.structs.replace(PLAIN, **fields).check()
    assert said in str(caught.value)


def test_contradictory_classes_are_refused_by_submit_and_scheduler() -> None:
    twice = (*DEFAULT_CLASSES, PriorityClass(name="low", value=3, limits={"cpu": 2.0}))
    said = []
    for settings in (SubmitSettings(), SchedulerSettings()):
        with pytest.raises(SettingsError) as caught:
            msgspec.structs.replace(settings, priority_classes=twice).check()
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "names 'low' 2 times" in said[0]


def test_the_default_settings_are_valid() -> None:
    PLAIN.check()


def test_the_default_instance_is_the_host_name() -> None:
    assert PLAIN.with_instance("3f1c9a7be07d").instance == "3f1c9a7be07d"
    assert msgspec.structs.replace(PLAIN, instance="a").with_instance("b").instance == "a"
