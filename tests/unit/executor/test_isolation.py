"""Processors of runs, users of queues, and what is closed to jobs."""

from pathlib import Path

import pytest

from fairlead_common.domain.ids import RunId
from fairlead_common.service.settings import SettingsError
from fairlead_executor.backends.process import isolation
from fairlead_executor.backends.process.isolation import Isolation, Processors, User
from fairlead_executor.confinement import child
from fairlead_executor.confinement.choice import Choice, choose


def test_runs_get_the_processors_with_the_least_load() -> None:
    processors = Processors([0, 1, 2, 3])
    assert processors.assign(RunId("a-1"), 2_000) == [0, 1]
    assert processors.assign(RunId("b-1"), 500) == [2]
    assert processors.assign(RunId("c-1"), 1_000) == [3]
    assert processors.assign(RunId("d-1"), 400) == [2]
    processors.release(RunId("a-1"))
    processors.release(RunId("a-1"))
    assert processors.assign(RunId("e-1"), 1_500) == [0, 1]


def test_a_run_that_requests_all_or_no_processors_gets_all() -> None:
    processors = Processors([0, 1])
    assert processors.assign(RunId("a-1"), 2_000) == []
    assert processors.assign(RunId("b-1"), 0) == []


def test_a_queue_has_its_own_user_or_the_default_user() -> None:
    ann, bob = (User(name, 1, 1, (), f"/home/{name}", "/bin/sh") for name in ("ann", "bob"))
    some = Isolation(Choice(child.OFF), ["/data"], {"a": ann, "*": bob}, [])
    assert (some.user_of("a"), some.user_of("b")) == (ann, bob)
    assert Isolation(Choice(child.OFF), ["/data"], {"a": ann}, []).user_of("b") is None
    assert ann.environment["HOME"] == "/home/ann"


def test_unknown_users_and_root_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        isolation.find_users({"a": "no-such-user"}, tmp_path)
    with pytest.raises(SettingsError):
        isolation.find_users({"a": "root"}, tmp_path)


def test_the_data_folder_and_the_settings_file_are_closed(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "settings.yaml"
    data.mkdir()
    file.touch()
    link = tmp_path / "link"
    link.symlink_to(data)
    closed = isolation.closed_paths(link, {"FAIRLEAD_SETTINGS": str(file)})
    assert closed == [str(data.resolve()), str(file.resolve())]
    inside = data / "settings.yaml"
    inside.touch()
    assert isolation.closed_paths(data, {"FAIRLEAD_SETTINGS": str(inside)}) == [str(data.resolve())]


def test_disabled_confinement_has_a_reason(tmp_path: Path) -> None:
    choice = choose("off", tmp_path)
    assert not choice.confines
    assert "switched off" in choice.why
    assert isolation.describe(choice).startswith("jobs are not confined: ")


def test_an_attempt_without_confinement_can_read_the_folder(tmp_path: Path) -> None:
    assert child.attempt(child.OFF, str(tmp_path)) == "the data folder could still be read"
