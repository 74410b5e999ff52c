"""Which Postgres is taken, and what is said when none will do."""

from pathlib import Path

import pytest

from fairlead_standalone.processes.child_process import ServerFailed
from fairlead_standalone.servers.embedded_postgres import (
    BIN_VARIABLE,
    Installation,
    choose_installation,
    find_installations,
    wheel_places,
)

OLD, DEBIAN, WHEEL = (Installation(Path(f"/p/{n}"), n) for n in (13, 15, 18))


def test_the_first_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    assert choose_installation(tmp_path, [OLD, DEBIAN, WHEEL]) == DEBIAN


def test_data_already_there_decides_the_version(tmp_path: Path) -> None:
    (tmp_path / "postgres-18").mkdir()
    assert choose_installation(tmp_path, [DEBIAN, WHEEL]) == WHEEL


def test_data_of_a_version_that_is_not_there_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "postgres-17").mkdir()
    with pytest.raises(ServerFailed, match=r"written by Postgres 17.*postgresql-17.*--data"):
        choose_installation(tmp_path, [DEBIAN, WHEEL])


def test_without_any_the_install_line_is_said(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match=r"13.*apt-get install postgresql.*--postgres"):
        choose_installation(tmp_path, [OLD])


def test_a_half_made_cluster_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "postgres-18.new").mkdir()
    assert choose_installation(tmp_path, [DEBIAN, WHEEL]) == DEBIAN


def test_the_pinned_version_comes_first_unless_a_folder_is_named(tmp_path: Path) -> None:
    (wheel,) = wheel_places()
    assert next(find_installations({})).bin == wheel.resolve()
    assert list(find_installations({BIN_VARIABLE: str(tmp_path)})) == []
