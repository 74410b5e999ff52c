"""Prints the path of axe-core for the tests of pages, fetching it from the npm registry once.

axe-core checks a page in a browser against WCAG. Its licence is MPL 2.0; only tests load it, so it
is not a part of the repository. Exit code 0 and the path on standard output, or 1 and the reason on
standard error. The order: `FAIRLEAD_TEST_AXE`, the copy in `.cache`, `npm pack`.
"""

import base64
import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""Of the package, as the registry lists it."""
SCRIPT = "package/axe.min.js"
FETCH_S_MAX = 120
CACHE = Path(__file__).parent.parent / ".cache"


def fetch(target: Path) -> str | None:
    """Write the script to `target`. None when it worked, else why it did not."""
    npm = shutil.which("npm")
    if npm is None:
        return "no npm found to fetch axe-core with"
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [npm, "pack", "--silent", f"axe-core@{VERSION}"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=FETCH_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"npm pack took longer than {FETCH_S_MAX} s"
        packed = Path(folder) / f"axe-core-{VERSION}.tgz"
        if done.returncode != 0 or not packed.exists():
            last = (done.stdout.strip().splitlines() or ["no output"])[-1]
            return f"npm pack failed: {last}"
        content = packed.read_bytes()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != SHA512:
        return f"axe-core {VERSION} from the registry has another SHA-512 than expected"
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        script = archive.extractfile(SCRIPT)
        assert script is not None, "the package of a known SHA-512 contains the script"
        partial = target.with_suffix(".partial")
        partial.write_bytes(script.read())
        partial.rename(target)
    return None


def main() -> int:
    if given := os.environ.get("FAIRLEAD_TEST_AXE"):
        sys.stdout.write(f"{given}\n")
        return 0
    CACHE.mkdir(exist_ok=True)
    target = CACHE / f"axe-core-{VERSION}.min.js"
    with (CACHE / "axe.lock").open("w") as lock:  # several test workers ask at once; one fetches
        fcntl.flock(lock, fcntl.LOCK_EX)
        why_not = None if target.exists() else fetch(target)
    if why_not is not None:
        sys.stderr.write(f"{why_not}\n")
        return 1
    sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
