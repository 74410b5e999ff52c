"""Compiled kernels are looked for only where the compiler finds them again."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fairlead_scheduler
from fairlead_scheduler.kernels import compilation

SOURCE = Path(fairlead_scheduler.__file__).parent


def checkout(folder: Path) -> Path:
    """A package of that name that holds the module and the engine's sources, as another clone."""
    package = folder / "fairlead_scheduler"
    shutil.copytree(SOURCE / "engine", package / "engine")
    (package / "kernels").mkdir()
    for file in ("__init__.py", "kernel_cache.py"):
        shutil.copy(SOURCE / "kernels" / file, package / "kernels")
    shutil.copy(SOURCE / "__init__.py", package)
    return folder


def folder_of(checkout: Path, **environment: str) -> str:
    """What a process that runs this checkout says is the folder of its kernels."""
    asks = "from fairlead_scheduler.kernels import kernel_cache as k; print(k.folder())"
    given: Mapping[str, str] = {
        **os.environ,
        "NUMBA_CACHE_DIR": "/kept",
        "PYTHONPATH": str(checkout),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", asks], env=given, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_same_checkout_finds_its_kernels_again(tmp_path: Path) -> None:
    one = checkout(tmp_path / "one")
    assert folder_of(one) == folder_of(one)
    assert folder_of(one).startswith("/kept/engine-")


def test_another_checkout_has_separate_kernels(tmp_path: Path) -> None:
    one, two = checkout(tmp_path / "one"), checkout(tmp_path / "two")
    assert folder_of(one) != folder_of(two)


def test_another_processor_has_separate_kernels(tmp_path: Path) -> None:
    one = checkout(tmp_path / "one")
    assert folder_of(one) != folder_of(one, NUMBA_CPU_NAME="generic")


def test_a_changed_source_has_separate_kernels(tmp_path: Path) -> None:
    one = checkout(tmp_path / "one")
    before = folder_of(one)
    with (one / "fairlead_scheduler" / "engine" / "round.py").open("a") as file:
        file.write("# changed\n")
    assert folder_of(one) != before


def test_only_the_most_recent_kernels_are_retained(tmp_path: Path) -> None:
    folders = [tmp_path / f"engine-{number}" for number in range(compilation.FOLDERS_MAX + 3)]
    for used_s, folder in enumerate(folders):
        folder.mkdir()
        (folder / "ready").touch()
        os.utime(folder / "ready", (used_s, used_s))
        os.utime(folder, (0, 0))
    os.utime(folders[1] / "ready", (1_000, 1_000))
    compilation.remove_unused_folders(folders[-1] / "ready")
    assert {folder for folder in folders if folder.exists()} == {folders[1], *folders[4:]}


def test_processes_can_remove_unused_kernels_at_the_same_time(tmp_path: Path) -> None:
    used = tmp_path / "engine-used" / "ready"
    used.parent.mkdir()
    used.touch()
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            for number in range(compilation.FOLDERS_MAX + 20):
                folder = tmp_path / f"engine-{number}"
                folder.mkdir(exist_ok=True)
                for name in ("one", "two", "three"):
                    (folder / name).touch()
                    os.utime(folder / name, (number, number))
            removals = [threads.submit(compilation.remove_unused_folders, used) for _ in range(4)]
            for removal in removals:
                removal.result()
            assert len(list(tmp_path.iterdir())) <= compilation.FOLDERS_MAX
            assert used.exists()


def test_a_file_that_another_process_has_just_deleted_is_left_out(tmp_path: Path) -> None:
    for number in range(compilation.FOLDERS_MAX + 1):
        folder = tmp_path / f"engine-{number}"
        folder.mkdir()
        (folder / "gone").symlink_to("nothing")
    compilation.remove_unused_folders(tmp_path / "engine-0" / "ready")
    assert len(list(tmp_path.iterdir())) == compilation.FOLDERS_MAX
