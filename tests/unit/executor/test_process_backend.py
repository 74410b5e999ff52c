"""The process backend: logs, retained folders, control groups, memory, settings."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fairlead_common.domain.ids import RunId
from fairlead_common.service.settings import SettingsError, load
from fairlead_executor.backends.process import cgroup, logs, machine, processes
from fairlead_executor.backends.process.folders import Folders
from fairlead_executor.backends.process.retained_folders import RetainedFolders
from fairlead_executor.backends.process.tree_removal import remove_tree
from fairlead_executor.domain.run_logs import LogEndRequest, LogRequest
from fairlead_executor.service.settings import ExecutorSettings


async def read(path: Path, request: LogRequest, bytes_max: int = 1 << 40) -> bytes:
    parts = logs.read(path, request, lambda: True, bytes_max)
    return b"".join([part async for part in parts])


@pytest.mark.parametrize(
    ("content", "lines", "want"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\n", 5, b"a\nb\n"),
        (b"a\n", 0, b""),
        (b"", 3, b""),
        (b"\n\n\n", 1, b"\n"),
        (b"x" * 200_000 + b"\nlast\n", 1, b"last\n"),
        (b"first\n" + b"x" * 200_000 + b"\n", 1, b"x" * 200_000 + b"\n"),
    ],
)
async def test_tail_returns_the_last_lines_of_a_log(
    tmp_path: Path, content: bytes, lines: int, want: bytes
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert await read(path, LogRequest(tail=lines)) == want


async def test_since_bytes_returns_a_log_from_that_offset(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    assert await read(path, LogRequest(since_bytes=7)) == b"789"
    assert await read(path, LogRequest(since_bytes=99)) == b""


async def read_end(path: Path, bytes_max: int, **fields: Any) -> bytes:
    """The end of a log; its part agrees with it. `Any`: fields of the request."""
    end = await logs.read_end(path, LogEndRequest(bytes_max=bytes_max, **fields), 1 << 40)
    data = b"".join([chunk async for chunk in end.chunks])
    whole = await read(path, LogRequest())
    assert end.part.begin is not None
    assert (end.part.first, end.part.size) == (0, len(whole))
    assert whole[end.part.begin :][: len(data)] == data
    assert end.part.is_cut == (end.part.begin > 0)
    return data


async def test_the_end_of_a_log_is_bounded_in_bytes_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789\nab\ncd")
    assert await read_end(path, 8) == b"89\nab\ncd"
    assert await read_end(path, 8, lines_max=2) == b"ab\ncd"
    assert await read_end(path, 8, lines_max=9) == b"89\nab\ncd"
    assert await read_end(path, 99) == path.read_bytes()
    assert await read_end(path, 4, before=11) == b"789\n"
    assert await read_end(path, 99, before=11) == b"0123456789\n"
    assert await read_end(path, 99, before=99) == path.read_bytes()
    assert await read_end(path, 99, before=0) == b""


async def test_a_log_is_read_to_the_end_that_it_had(tmp_path: Path) -> None:
    """A command that writes faster than the log is read would have it read for ever."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * 200_000)
    end = await logs.read_end(path, LogEndRequest(bytes_max=150_000), 1 << 40)
    for chunks, size in (
        (logs.read(path, LogRequest(), lambda: False, 1 << 40), 200_000),
        (end.chunks, 150_000),
    ):
        total = 0
        async for chunk in chunks:
            total += len(chunk)
            with path.open("ab") as command:
                command.write(b"y" * 200_000)
            assert total <= size
        assert total == size
        path.write_bytes(b"x" * 200_000)


async def test_only_what_is_retained_of_a_log_is_read(tmp_path: Path) -> None:
    """A command can make its output 4 TiB large at once; to look for lines there takes minutes."""
    path = tmp_path / "log"
    path.write_bytes(b"first\n")
    os.truncate(path, 1 << 42)
    with path.open("ab") as file:
        file.write(b"\nlast\n")
    for request in (LogRequest(), LogRequest(tail=9), LogRequest(since_bytes=2)):
        assert await read(path, request, 1 << 20) == bytes((1 << 20) - 6) + b"\nlast\n"
    assert await read(path, LogRequest(tail=1), 1 << 20) == b"last\n"


async def test_trim_frees_the_oldest_bytes_of_a_large_output(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab", buffering=0) as command:
        for number in range(3_000):
            command.write(f"line {number:94}\n".encode())
        logs.trim(path, 100_000)
        command.write(b"one more\n")
    if path.stat().st_blocks * 512 > 200_000:
        pytest.skip("this file system cannot give the front of a file back")
    assert path.stat().st_size == 300_009
    whole = await read(path, LogRequest())
    assert len(whole) < 100_000
    assert b"\0" not in whole
    assert whole.endswith(b"2999\none more\n")
    assert await read(path, LogRequest(tail=2)) == whole[-109:]
    assert await read(path, LogRequest(tail=9_999)) == whole


@pytest.mark.parametrize("size", [5 << 30, 1 << 30], ids=["5 GiB", "a line of 1 GiB"])
async def test_a_huge_or_binary_log_is_read_within_bounded_memory(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:  # without data in between, which takes no space
        file.write(b"first")
        file.seek(size - 4)
        file.write(b"\n\0\xff\n" if size == 5 << 30 else b"last")
    tracemalloc.start()
    try:
        assert len(await read(path, LogRequest(since_bytes=size - 3))) == 3
        end = await logs.read_end(path, LogEndRequest(bytes_max=1 << 20, lines_max=9), 1 << 40)
        assert sum([len(chunk) async for chunk in end.chunks]) == 1 << 20
        if size == 5 << 30:
            assert await read(path, LogRequest(tail=1)) == b"\0\xff\n"
        total = 0
        async for part in logs.read(path, LogRequest(), lambda: True, 1 << 40):
            total += len(part)
            if total > 1 << 26:
                break
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


async def test_a_log_is_followed_until_the_run_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one ")
    more = iter([b"two ", b"three"])

    def has_ended() -> bool:
        part = next(more, None)
        if part is not None:
            with path.open("ab") as file:
                file.write(part)
        return part is None

    request = LogRequest(follow=True)
    assert b"".join([part async for part in logs.read(path, request, has_ended, 100)]) == (
        b"one two three"
    )


def run_folder(root: Path, name: str, size: int) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "stdout").write_bytes(b"x" * size)
    return folder


def test_the_oldest_folders_are_deleted_beyond_the_number_limit(tmp_path: Path) -> None:
    retained = RetainedFolders(tmp_path, runs_max=2, bytes_max=10**9)
    for name in ("a", "b", "c"):
        retained.add(run_folder(tmp_path, name, 1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]


def test_the_oldest_folders_are_deleted_beyond_the_size_limit(tmp_path: Path) -> None:
    retained = RetainedFolders(tmp_path, runs_max=10, bytes_max=100_000)
    for name in ("a", "b", "c"):
        retained.add(run_folder(tmp_path, name, 40_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]


def test_a_folder_above_the_size_limit_loses_what_is_too_much_and_others_stay(
    tmp_path: Path,
) -> None:
    retained = RetainedFolders(tmp_path, runs_max=10, bytes_max=400_000)
    retained.add(run_folder(tmp_path, "a", 40_000))
    huge = run_folder(tmp_path, "b", 1_000_000)
    (huge / "stdout").write_bytes(b"x" * 999_990 + b"last line\n")
    retained.add(huge)
    assert (tmp_path / "a").exists()
    if sys.platform == "linux":
        assert (huge / "stdout").stat().st_blocks * 512 <= 100_000
        assert (huge / "stdout").read_bytes().endswith(b"xlast line\n")
    other = run_folder(tmp_path, "c", 1)
    (other / "cannot-be-trimmed").write_bytes(b"x" * 1_000_000)
    retained.add(other)
    assert "c" not in [path.name for path in tmp_path.iterdir()]
    assert (tmp_path / "a").exists()
    for name in ("d", "e"):  # nothing of what was deleted is counted
        retained.add(run_folder(tmp_path, name, 40_000))
    assert {"a", "d", "e"} <= {path.name for path in tmp_path.iterdir()}


def test_a_scratch_folder_of_any_depth_is_removed(tmp_path: Path) -> None:
    """A command can make more levels than Python's limit of recursion."""
    folders, run = Folders(tmp_path, "n"), RunId(f"{'0' * 28}-1")
    work = folders.folder(run) / "work"
    work.mkdir(parents=True)
    level = os.open(work, os.O_RDONLY)
    for _ in range(2_000):
        os.mkdir("d", dir_fd=level)
        below = os.open("d", os.O_RDONLY, dir_fd=level)
        os.close(level)
        level = below
    os.close(level)
    folders.retain(run)
    assert list(folders.retained.iterdir()) == [folders.retained / run]
    assert not list((folders.retained / run).iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_folders_without_permission_to_write_are_removed(tmp_path: Path) -> None:
    closed = tmp_path / "a" / "modules"
    closed.mkdir(parents=True)
    (closed / "file").write_text("x")
    closed.chmod(0o555)
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_folders_retained_earlier_count(tmp_path: Path) -> None:
    for age, name in ((300, "a"), (100, "c"), (200, "b")):
        folder = run_folder(tmp_path, name, 1)
        os.utime(folder, (10_000 - age, 10_000 - age))
    retained = RetainedFolders(tmp_path, runs_max=3, bytes_max=10**9)
    retained.load()
    retained.add(run_folder(tmp_path, "d", 1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c", "d"]


def delegated(root: Path, members: str) -> Path:
    group = root / "unit"
    group.mkdir()
    (group / "cgroup.controllers").write_text("cpu memory pids")
    (group / "cgroup.procs").write_text(members)
    own = root / "own"
    own.write_text("0::/unit\n")
    return own


def test_a_delegated_group_gets_a_child_for_each_run(tmp_path: Path) -> None:
    own = delegated(tmp_path, f"{os.getpid()}\n")
    groups = cgroup.find(tmp_path, own)
    assert groups is not None
    folder = groups.make(RunId("a-1"), 5, 1_500)
    assert (Path(folder) / "memory.max").read_text() == "5"
    assert (Path(folder) / "cpu.max").read_text() == "150000 100000"
    assert (tmp_path / "unit" / "cgroup.subtree_control").read_text() == "+cpu"
    assert (tmp_path / "unit" / "executor" / "cgroup.procs").read_text() == str(os.getpid())


def test_a_group_with_other_processes_is_not_used(tmp_path: Path) -> None:
    own = delegated(tmp_path, f"1\n{os.getpid()}\n")
    assert cgroup.find(tmp_path, own) is None


def test_find_returns_none_without_control_groups(tmp_path: Path) -> None:
    assert cgroup.find(tmp_path, tmp_path / "nothing") is None


def test_the_memory_of_a_run_includes_all_its_descendants() -> None:
    script = "x = b'x' * 30_000_000; import os; os.write(1, b'.'); os.read(0, 1)"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        table = processes.read_processes()
        assert processes.resident_bytes(table, [os.getpid()])[os.getpid()] > 30_000_000
        exact = processes.proportional_bytes(table, child.pid)
        assert 30_000_000 < exact < 60_000_000
        child.communicate(b"\n")


def test_only_run_ids_become_paths(tmp_path: Path) -> None:
    folders = Folders(tmp_path, "n")
    assert folders.find(RunId("../../etc")) is None
    with pytest.raises(ValueError, match="not a valid run id"):
        folders.folder(RunId("../x"))


def test_settings_replace_the_detected_resources_of_this_machine() -> None:
    node = machine.this_machine("e", "p", {"a": "b"}, {"cpu": "1.5", "nvidia.com/gpu": "2"})
    assert node.allocatable["cpu"] == 1500
    assert node.allocatable["nvidia.com/gpu"] == 2
    assert node.allocatable["memory"] > 0
    assert node.labels["a"] == "b"


def test_an_invalid_quantity_is_refused_with_its_name() -> None:
    with pytest.raises(SettingsError, match="FAIRLEAD_RESOURCES: cpu: "):
        machine.this_machine("e", "p", {}, {"cpu": "1.5x"})


SETTINGS = {
    "a name that is none": (
        {"FAIRLEAD_EXECUTOR": "a/b", "FAIRLEAD_DATA": "x"},
        "not a valid executor",
    ),
    "no folder": ({}, "needs a folder"),
    "a backend that is none": ({"FAIRLEAD_BACKEND": "magic"}, "magic"),
    "too many heartbeats": ({"FAIRLEAD_DATA": "x", "FAIRLEAD_HEARTBEAT_S": "0"}, "HEARTBEAT"),
    "no speed": ({"FAIRLEAD_BACKEND": "simulated", "FAIRLEAD_SIMULATION": '{"speed":0}'}, "speed"),
}


@pytest.mark.parametrize(("environment", "why"), SETTINGS.values(), ids=SETTINGS.keys())
def test_wrong_settings_are_refused_with_the_reason(environment: dict[str, str], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        load(ExecutorSettings, environment).check()


def test_settings_come_from_the_environment() -> None:
    found = load(
        ExecutorSettings,
        {
            "FAIRLEAD_EXECUTOR": "east",
            "FAIRLEAD_DATA": "/data",
            "FAIRLEAD_LABELS": '{"zone": "a"}',
            "FAIRLEAD_SUPERVISOR_FD": "7",
            "FAIRLEAD_SIMULATION": '{"nodes": [{"count": 5}], "minS": 1}',
        },
    )
    found.check()
    assert (found.executor, found.supervisor_fd, found.labels) == ("east", 7, {"zone": "a"})
    assert found.simulation.nodes[0].count == 5
