"""Who may use a data folder, and what is said to those who may not."""

import contextlib
import fcntl
from pathlib import Path

import pytest

from fairlead_standalone.data.data_folder import FolderRefused, claim


def test_it_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    claimed = claim(tmp_path / "a" / "b")
    assert claimed.path.stat().st_mode & 0o777 == 0o700
    assert (claimed.path / "secrets.json").stat().st_mode & 0o777 == 0o600
    claimed.close()


def test_secrets_survive_and_differ_between_folders(tmp_path: Path) -> None:
    first = claim(tmp_path / "a")
    first.close()
    again, other = claim(tmp_path / "a"), claim(tmp_path / "b")
    assert again.secrets == first.secrets != other.secrets
    again.close()
    other.close()


def test_a_folder_in_use_is_refused_with_who_and_the_way_out(tmp_path: Path) -> None:
    holder = claim(tmp_path / "a")
    holder.announce("http://127.0.0.1:8080", "")
    with pytest.raises(FolderRefused, match=r"in use .*process \d+, http://127.*--data.*--port"):
        claim(tmp_path / "a")
    holder.close()
    claim(tmp_path / "a").close()


def test_one_in_use_that_has_not_said_its_address_is_refused_too(tmp_path: Path) -> None:
    holder = claim(tmp_path / "a")
    with pytest.raises(FolderRefused, match="in use by another"):
        claim(tmp_path / "a")
    holder.close()


def test_the_address_is_gone_when_nobody_serves_any_more(tmp_path: Path) -> None:
    claimed = claim(tmp_path / "a")
    (claimed.path / "address").write_text("http://127.0.0.1:1234\n")
    claimed.close()
    assert not (claimed.path / "address").exists()


def test_a_folder_of_another_major_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("7\n")
    with pytest.raises(FolderRefused, match=r"another major version .*format 7.*--data"):
        claim(tmp_path)


@pytest.mark.parametrize("name", ["format", "log"])
def test_a_file_that_a_full_disk_left_empty_is_written_again(tmp_path: Path, name: str) -> None:
    with contextlib.closing(claim(tmp_path)) as claimed:
        claimed.bind_log("Postgres")
    complete = (tmp_path / name).read_text()
    (tmp_path / name).write_text("")
    with contextlib.closing(claim(tmp_path)) as claimed:
        claimed.bind_log("Postgres")
    assert (tmp_path / name).read_text() == complete


def test_only_the_holder_of_the_lock_writes_into_a_new_folder(tmp_path: Path) -> None:
    """Another `fairlead up` can see it at each step of the first one."""
    (tmp_path / "lock").touch()
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(FolderRefused, match="in use by another"):
            claim(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["lock"]


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(FolderRefused, match=r"contains other files \(thesis.tex"):
        claim(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderRefused, match="cannot be used: File exists"):
        claim(tmp_path / "file")


def test_views_of_one_log_are_not_started_with_another(tmp_path: Path) -> None:
    with contextlib.closing(claim(tmp_path)) as claimed:
        claimed.bind_log("Postgres")
        claimed.bind_log("Postgres")
        with pytest.raises(FolderRefused, match=r"log in Postgres.* log in Kafka.*--data"):
            claimed.bind_log("Kafka")


def test_damaged_secrets_are_said_so(tmp_path: Path) -> None:
    claim(tmp_path).close()
    (tmp_path / "secrets.json").write_text("{")
    with pytest.raises(FolderRefused, match="is damaged"):
        claim(tmp_path)
