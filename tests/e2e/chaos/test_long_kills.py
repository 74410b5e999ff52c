"""Everything is killed and stopped at random while many jobs run: nothing is lost or unexplained.

FAIRLEAD_CHAOS_JOBS and FAIRLEAD_CHAOS_SEED choose how many jobs, and repeat a run as far as chance
in other programs allows.
"""

import asyncio
import os
import random
import secrets
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from fairlead import Client
from fairlead_common.service import clock
from fairlead_standalone.service.testing import StandaloneInstallation
from tests.e2e.chaos import replay
from tests.e2e.chaos.test_kills import VICTIMS, check_views, database_of, lines

JOBS = int(os.environ.get("FAIRLEAD_CHAOS_JOBS", "100000"))
SET_JOBS = 5_000
FAILURES_MAX = 200
PAUSE_S_MAX = 4.0
WAIT_S_MAX = 120.0
"""How long a fault may keep all work from going on."""


class Chaos:
    """Chooses who is hit and how, and waits until work has gone on."""

    def __init__(
        self, standalone: StandaloneInstallation, folder: Path, chance: random.Random
    ) -> None:
        self._standalone = standalone
        self._folder = folder
        self._chance = chance
        self.failures: list[str] = []

    def hit(self) -> None:
        """One fault: a kill, a short stop, or a stop that only the supervisor ends."""
        name = self._chance.choice(VICTIMS)
        failure = self._chance.choices(("kill", "pause", "stop"), (6, 3, 1))[0]
        self.failures.append(f"{failure} {name}")
        try:
            victim = self._standalone.child(name)
            if failure == "kill":
                victim.send_signal(signal.SIGKILL)
                return
            victim.suspend()
            if failure == "pause":
                pause_s = self._chance.uniform(0.0, PAUSE_S_MAX)
                self.wait(JOBS, pause_s)
                victim.resume()
        except (psutil.NoSuchProcess, AssertionError):
            self.failures[-1] += ", which was gone"

    def wait(self, more: int, wait_s: float) -> bool:
        """Whether this number of further jobs wrote their line within this time."""
        enough = min(JOBS, len(lines(self._folder)) + more)
        end_s = clock.monotonic_s() + wait_s
        while len(lines(self._folder)) < enough:
            if clock.monotonic_s() > end_s:
                return False
            os.sched_yield()
            self._standalone.supervisor.cpu_percent(interval=0.1)
        return True


def job(folder: Path, number: int) -> dict[str, object]:
    """A job that writes its id as its last act."""
    command = ["/bin/sh", "-c", f'echo "$FAIRLEAD_JOB_ID" >> {folder}/lines']
    return {"clientId": f"job-{number}", "command": command, "cpu": "50m", "memory": "16Mi"}


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_each_job_writes_its_line_once_or_the_log_explains_it(tmp_path: Path) -> None:
    seed = int(os.environ.get("FAIRLEAD_CHAOS_SEED", secrets.randbelow(2**32)))
    print(f"FAIRLEAD_CHAOS_SEED={seed} FAIRLEAD_CHAOS_JOBS={JOBS}")  # noqa: T201
    with StandaloneInstallation(tmp_path, environment={"FAIRLEAD_PROBE_S": "0.5"}) as standalone:
        standalone.start()
        chaos = Chaos(standalone, tmp_path, random.Random(seed))
        sets = range(-(-JOBS // SET_JOBS))
        with Client(standalone.address, token=standalone.token) as client:
            for number in sets:
                numbers = range(number * SET_JOBS, min(JOBS, (number + 1) * SET_JOBS))
                client.submit("default", f"set-{number}", [job(tmp_path, n) for n in numbers])
            step = max(10, JOBS // FAILURES_MAX)
            while len(lines(tmp_path)) < JOBS:
                chaos.hit()
                went_on = chaos.wait(step, WAIT_S_MAX)
                assert went_on, f"nothing runs after {chaos.failures[-3:]}:\n{standalone.report}"
            standalone.wait_ready()
            for number in sets:
                done = client.wait("default", f"set-{number}")
                assert set(done.states) == {"SUCCEEDED"}, (chaos.failures, done)
        print(f"{len(chaos.failures)} faults: {Counter(chaos.failures)}")  # noqa: T201
        ran = Counter(lines(tmp_path))
        assert len(ran) == JOBS
        repeated = {job_id: count for job_id, count in ran.items() if count > 1}
        print(f"{len(repeated)} jobs wrote their line more than once")  # noqa: T201
        log_url = database_of(standalone)
        assert asyncio.run(replay.unexplained(log_url, repeated)) == {}
        check_views(standalone, log_url)
