"""Prints the path of a Chromium for the tests of pages, installing Debian's when that may be done.

    python tools/chromium.py              # installs one if there is no Chromium
    python tools/chromium.py --prefer     # also if there is one, but not the preferred one

Exit code 0 and the path on standard output, or 1 and the reason on standard error. The order:
`FAIRLEAD_TEST_CHROMIUM`, a browser on the path, `apt-get install` (as root, on Debian). Preferred
is Chromium's headless shell: it has no window, and a page takes a third of the processor time.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

GIVEN = "FAIRLEAD_TEST_CHROMIUM"
PREFERRED = "chromium-headless-shell"
NAMES = (PREFERRED, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL_S_MAX = 240
LOCK = Path(__file__).parent.parent / ".cache" / "chromium.lock"


def find() -> str | None:
    """A browser that is there already."""
    given = os.environ.get(GIVEN)
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


def is_wanted(path: str | None) -> bool:
    """Whether to install a browser although this one is there."""
    if path is None:
        return True
    is_chosen = GIVEN in os.environ or Path(path).name == PREFERRED
    return not is_chosen and "--prefer" in sys.argv and os.geteuid() == 0


def install() -> str | None:
    """Install Debian's package. None when it worked, else why it did not."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return f"no Chromium found; as root on Debian: apt-get install -y {PREFERRED}"
    _say("installing Debian's Chromium for the tests of pages ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["-y", "-q", "-o", "DPkg::Lock::Timeout=120"]
    for words in (
        [apt, "update", *options],
        [apt, "install", "--no-install-recommends", *options, PREFERRED],
    ):
        try:
            done = subprocess.run(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=INSTALL_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"{' '.join(words)} took longer than {INSTALL_S_MAX} s"
        if done.returncode != 0:
            last = (done.stdout.strip().splitlines() or ["no output"])[-1]
            return f"{' '.join(words)} failed: {last}"
    return None


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> int:
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:  # several test workers ask at once; one installs
        fcntl.flock(lock, fcntl.LOCK_EX)
        why_not = install() if is_wanted(find()) else None
    path = find()
    if path is None:
        _say(why_not or "no Chromium after its installation")
        return 1
    if why_not is not None:
        _say(f"{path} is used: {why_not}")
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
