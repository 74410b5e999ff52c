"""How much memory an idle Fairlead needs: the sum of PSS of all its processes, after a rest.

    python bench/idle.py [--rest-seconds 15]

Goal: below 700 MB. The last line is one JSON object.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from fairlead_standalone.service.testing import StandaloneInstallation, memory_bytes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/idle.py`

from bench import folders

MEGABYTE = 1_000_000
GOAL_MB = 700


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rest-seconds", type=float, default=15.0)
    rest_s = parser.parse_args().rest_seconds
    with (
        folders.temporary_folder("idle") as folder,
        StandaloneInstallation(Path(folder)) as standalone,
    ):
        standalone.start()
        time.sleep(rest_s)
        sizes: dict[str, int] = {}
        for process in (standalone.supervisor, *standalone.supervisor.children(recursive=True)):
            words = process.cmdline()
            name = words[words.index("-m") + 1] if "-m" in words else words[0]
            name = "postgres" if name.startswith("postgres") else Path(name).name
            sizes[name] = sizes.get(name, 0) + memory_bytes(process)
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{size / MEGABYTE:8.1f} MB  {name}")
    total = sum(sizes.values()) / MEGABYTE
    print(json.dumps({"bench": "idle", "pssMegabytes": round(total, 1), "goal": GOAL_MB}))


if __name__ == "__main__":
    main()
