"""How long from typing `make up` until the address answers.

    python bench/start.py            # warm: environment and data folder are there (goal: 5 s)
    python bench/start.py --fresh    # a fresh clone, an empty home: nothing cached (goal: 90 s)

The last line is one JSON object.
"""

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from fairlead_standalone.servers import fairlead_services
from fairlead_standalone.servers.addresses import free_port

ROOT = Path(__file__).parent.parent
GOALS_S = {"warm": 5, "fresh": 90}
WAIT_S_MAX = 300


def until_ready(folder: Path, data: Path, environment: dict[str, str]) -> float:
    """Seconds from `make up` until /readyz says so; it is ended again."""
    port = free_port()
    words = ["make", "-s", "up", f"ARGS=--data {data} --port {port}"]
    begun = time.monotonic()
    with subprocess.Popen(words, cwd=folder, env=environment, start_new_session=True) as process:
        while not fairlead_services.is_ready(port):
            if process.poll() is not None or time.monotonic() - begun > WAIT_S_MAX:
                raise SystemExit("`make up` did not become ready")
            time.sleep(0.02)
        took = time.monotonic() - begun
        os.killpg(process.pid, signal.SIGINT)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true")
    kind = "fresh" if parser.parse_args().fresh else "warm"
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        if kind == "fresh":
            subprocess.run(["git", "clone", "-q", str(ROOT), str(home / "clone")], check=True)
            ours = str(ROOT / ".venv")
            path = [part for part in environment["PATH"].split(os.pathsep) if ours not in part]
            environment |= {"HOME": str(home), "PATH": os.pathsep.join(path)}
            took = until_ready(home / "clone", home / "data", environment)
        else:
            until_ready(ROOT, home / "data", environment)  # makes the data folder
            took = until_ready(ROOT, home / "data", environment)
    print(json.dumps({"bench": f"start-{kind}", "seconds": round(took, 2), "goal": GOALS_S[kind]}))


if __name__ == "__main__":
    main()
