"""The temporary folders of benches, also of those that were killed."""

import subprocess
import sys
from pathlib import Path

from bench import folders

BENCH = """
import sys
from pathlib import Path
from bench import folders

with folders.temporary_folder("killed", Path(sys.argv[1])) as folder:
    (folder / "pg").mkdir()
    (folder / "pg" / "base").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_folder_of_a_killed_bench_is_removed_by_the_next_one(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", BENCH, str(tmp_path)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as bench:
        assert bench.stdout is not None
        folder = Path(bench.stdout.readline().strip())
        with folders.temporary_folder("other", tmp_path):
            assert folder.exists()  # its bench is running
        bench.kill()
        bench.wait()
        assert folder.exists()
        foreign = tmp_path / "fairlead-bench-numba"
        foreign.mkdir()
        with folders.temporary_folder("other", tmp_path) as other:
            assert not folder.exists()
            assert other.exists()
    assert not other.exists()
    assert foreign.exists()
