"""The disk of the data folder is filled while jobs run: reads go on, and work when there is space.

The disk is a small file system in memory, which only root can mount.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from fairlead import Client
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
from tests import disks
from tests.disks import MIB, fill
from tests.e2e.chaos.test_kills import check_views, database_of, has_lines, kill_child, lines

DISK = "700m"
JOBS = 600


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own at the place of the data folder of `StandaloneInstallation(tmp_path)`."""
    with disks.small_disk(tmp_path / "data", DISK) as folder:
        yield folder


def job(folder: Path, number: int) -> dict[str, object]:
    """A job that writes its id, not on the full disk, as its last act."""
    command = ["/bin/sh", "-c", f'echo "$FAIRLEAD_JOB_ID" >> {folder}/lines']
    return {
        "clientId": f"job-{number}",
        "command": command,
        "cpu": "50m",
        "memory": "16Mi",
    }


class Asked:
    """What a person sees of a Fairlead, by its API and a page."""

    def __init__(self, http: httpx2.Client, folder: Path) -> None:
        self._http = http
        self._folder = folder

    def reads(self) -> bool:
        """Whether lists and pages are answered."""
        found = [self._http.get("/api/v1/jobs?limit=1"), self._http.get("/")]
        return all(answer.status_code == 200 for answer in found)

    def submits(self) -> httpx2.Response:
        """The answer to one more submission, the same each time."""
        jobs = [job(self._folder, JOBS)]
        return self._http.post(
            "/api/v1/jobs", json={"queue": "default", "jobSet": "full", "jobs": jobs}
        )

    def refuses(self, word: str) -> bool:
        """Whether a submission is refused because of the disk."""
        answer = self.submits()
        if answer.status_code != 503 or word not in answer.json()["detail"]:
            return False
        return int(answer.headers["retry-after"]) >= 1

    def makes_a_queue(self) -> httpx2.Response:
        return self._http.post("/api/v1/queues", json={"name": "other"})

    def checks(self) -> dict[str, str]:
        """What `/readyz` says while it is ready."""
        answer = self._http.get("/readyz")
        assert answer.status_code == 200, answer.text
        checks: dict[str, str] = answer.json()["checks"]
        return checks


def test_a_full_disk_permits_reads_and_jobs_resume_with_space(
    tmp_path: Path, small_disk: Path
) -> None:
    with StandaloneInstallation(tmp_path, environment=PYTHON_ENGINE) as standalone:
        standalone.start()
        web = standalone.child("web").pid
        headers = {"Authorization": f"Bearer {standalone.token}"}
        with (
            httpx2.Client(base_url=standalone.address, headers=headers, timeout=30) as http,
            Client(standalone.address, token=standalone.token) as client,
        ):
            asked = Asked(http, tmp_path)
            client.submit("default", "full", [job(tmp_path, number) for number in range(JOBS)])
            standalone.wait_for(lambda: has_lines(tmp_path, JOBS // 6))

            fill(small_disk / "filler", leave=100 * MIB)
            standalone.wait_for(lambda: asked.refuses("almost full"))
            assert asked.makes_a_queue().status_code == 201  # there is space for small things

            fill(small_disk / "filler.too")
            standalone.wait_for(lambda: asked.refuses("The disk is full"))
            assert asked.makes_a_queue().status_code == 503
            assert asked.reads()
            assert "The disk is full" in asked.checks()["disk"]

            kill_child(standalone, "postgres")
            standalone.wait_for(asked.reads)
            assert asked.refuses("disk is")

            for name in ("filler", "filler.too"):
                (small_disk / name).unlink()
            standalone.wait_for(lambda: asked.submits().status_code == 200)
            client.submit("default", "full", [job(tmp_path, JOBS)])  # a duplicate: wait for it too
            done = client.wait("default", "full")
            failed = http.get("/api/v1/jobs?state=FAILED,PREEMPTED,CANCELLED").json()["jobs"]
            assert done.states == {"SUCCEEDED": JOBS + 1}, failed
        ran = Counter(lines(tmp_path))
        assert len(ran) == JOBS + 1
        assert set(ran.values()) == {1}
        check_views(standalone, database_of(standalone))
        assert standalone.child("web").pid == web, standalone.printed
        standalone.wait_for((small_disk / "reserve").exists)


def test_a_start_on_a_disk_that_is_too_small_names_the_amount(
    tmp_path: Path, small_disk: Path
) -> None:
    fill(small_disk / "filler", leave=400 * MIB)
    (small_disk / "lock").touch()  # as in a folder of ours
    standalone = StandaloneInstallation(tmp_path)
    refused = subprocess.run(
        standalone.words, capture_output=True, text=True, check=False, timeout=60
    )
    assert refused.returncode == 2
    assert re.search(r"Only \d+ MiB are free .* 6\d\d MiB are needed. Free 2\d\d", refused.stderr)
