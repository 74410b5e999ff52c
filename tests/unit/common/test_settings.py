"""Settings: defaults, a file, the environment over it, and every error said at once."""

from pathlib import Path

import pytest

from fairlead_common.service.settings import FILE_VARIABLE, Settings, SettingsError, load
from fairlead_executor.service.settings import ExecutorSettings
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_submit.service.settings import SubmitSettings


class Own(Settings, frozen=True, kw_only=True):
    """Settings of some service."""

    lease_s_max: int = 60
    speed: float = 1.0
    nickname: str | None = None
    shares: dict[str, float] = {}  # noqa: RUF012
    pools: tuple[str, ...] = ("default",)


def written(folder: Path, text: str) -> dict[str, str]:
    """An environment that names a settings file with this text."""
    file = folder / "settings.yaml"
    file.write_text(text)
    return {FILE_VARIABLE: str(file)}


def errors_of(environment: dict[str, str]) -> dict[str, str]:
    """What is wrong with it: name -> why."""
    with pytest.raises(SettingsError) as caught:
        load(Own, environment)
    return {error.pointer: error.detail for error in caught.value.errors}


def test_defaults_apply_and_permit_no_access() -> None:
    made = load(Own, {})
    assert made == Own()
    assert made.http_host == "127.0.0.1"
    assert not made.anonymous


def test_the_file_overrides_defaults(tmp_path: Path) -> None:
    made = load(Own, written(tmp_path, "leaseSMax: 5\nshares: {gpu: 0.5}\npools: [a, b]\n"))
    assert (made.lease_s_max, made.shares, made.pools) == (5, {"gpu": 0.5}, ("a", "b"))


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    environment = written(tmp_path, "leaseSMax: 5\nspeed: 2.0\n")
    made = load(Own, environment | {"FAIRLEAD_LEASE_S_MAX": "7"})
    assert (made.lease_s_max, made.speed) == (7, 2.0)


def test_a_file_is_read_by_the_core_schema_of_yaml(tmp_path: Path) -> None:
    made = load(Own, written(tmp_path, "nickname: on\npools: [12:30, 0o17x]\nspeed: 1e3\n"))
    assert (made.nickname, made.pools, made.speed) == ("on", ("12:30", "0o17x"), 1000.0)


def test_a_setting_that_is_given_twice_is_an_error(tmp_path: Path) -> None:
    errors = errors_of(written(tmp_path, "speed: 1.0\nspeed: 2.0\n"))
    (detail,) = errors.values()
    assert "the key 'speed' is given twice" in detail
    assert "line 2" in detail


def test_an_empty_file_changes_no_setting(tmp_path: Path) -> None:
    assert load(Own, written(tmp_path, "")) == Own()


@pytest.mark.parametrize(("text", "want"), [("true", True), ("1", True), ("false", False)])
def test_common_spellings_of_booleans_are_accepted(text: str, want: bool) -> None:
    assert load(Own, {"FAIRLEAD_ANONYMOUS": text}).anonymous is want


def test_texts_need_no_quotes_in_the_environment() -> None:
    made = load(Own, {"FAIRLEAD_SIGNING_KEY": "12", "FAIRLEAD_NICKNAME": "sea"})
    assert (made.signing_key, made.nickname) == ("12", "sea")


def test_lists_and_mappings_are_json_in_the_environment() -> None:
    made = load(Own, {"FAIRLEAD_POOLS": '["a"]', "FAIRLEAD_SHARES": '{"cpu": 0.5}'})
    assert (made.pools, made.shares) == (("a",), {"cpu": 0.5})


def test_variables_of_other_programs_are_ignored() -> None:
    assert load(Own, {"FAIRLEAD_SOMETHING_ELSE": "x", "PATH": "/bin"}) == Own()


def test_every_invalid_variable_is_reported_by_name(tmp_path: Path) -> None:
    environment = written(tmp_path, "leeseSMax: 5\nspede: 1\n")
    environment |= {"FAIRLEAD_LEASE_S_MAX": "many", "FAIRLEAD_ANONYMOUS": "perhaps"}
    errors = errors_of(environment)
    file = environment[FILE_VARIABLE]
    assert errors.keys() == {
        f"{file}: leeseSMax",
        f"{file}: spede",
        "FAIRLEAD_LEASE_S_MAX",
        "FAIRLEAD_ANONYMOUS",
    }
    assert errors[f"{file}: spede"] == "is not a setting of this service"


def test_every_invalid_value_of_the_file_is_reported_by_name(tmp_path: Path) -> None:
    environment = written(tmp_path, "leaseSMax: soon\nspeed: fast\n")
    file = environment[FILE_VARIABLE]
    assert errors_of(environment).keys() == {f"{file}: leaseSMax", f"{file}: speed"}


def test_a_missing_settings_file_is_reported(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.yaml")
    assert "cannot be read" in errors_of({FILE_VARIABLE: missing})[missing]


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words", "{a: [}"])
def test_a_settings_file_that_is_not_a_mapping_is_reported(text: str, tmp_path: Path) -> None:
    environment = written(tmp_path, text)
    errors = errors_of(environment)
    assert list(errors) == [environment[FILE_VARIABLE]]


def test_one_file_serves_several_services(tmp_path: Path) -> None:
    text = "logLevel: DEBUG\npriorityClasses: [{name: only, value: 1}]\nscheduler: {cycleS: 5}\n"
    environment = written(tmp_path, text)
    scheduler = load(SchedulerSettings, environment)
    assert (scheduler.log_level, scheduler.cycle_s) == ("DEBUG", 5)
    assert [item.name for item in scheduler.priority_classes] == ["only"]
    assert load(SubmitSettings, environment).priority_classes == scheduler.priority_classes
    assert load(LookoutSettings, environment).log_level == "DEBUG"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("executor: gpus\nshutdownS: 3\n", "gpus"),
        ("executor: {executor: gpus, shutdownS: 3}\n", "gpus"),
        ("executor: {shutdownS: 3}\n", ExecutorSettings().executor),
    ],
)
def test_the_executor_section_and_name_are_distinguished(
    text: str, name: str, tmp_path: Path
) -> None:
    settings = load(ExecutorSettings, written(tmp_path, text))
    assert (settings.executor, settings.shutdown_s) == (name, 3)
    assert load(SchedulerSettings, written(tmp_path, "executor: {shutdownS: 3}\n")).cycle_s > 0


def test_a_section_that_is_not_a_mapping_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"scheduler: is not a mapping of settings"):
        load(SchedulerSettings, written(tmp_path, "scheduler: fast\n"))


def test_an_unknown_setting_in_a_section_is_reported(tmp_path: Path) -> None:
    environment = written(tmp_path, "scheduler: {cycel: 5}\n")
    with pytest.raises(SettingsError, match="cycel: is not a setting of this service"):
        load(SchedulerSettings, environment)
