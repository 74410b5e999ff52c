"""Undecodable records in every topic of a running Fairlead: jobs run, and doctor lists them."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from fairlead import Client
from fairlead_common.log import Record, topics
from fairlead_common.log.opening import open_log
from fairlead_standalone.data.data_folder import Holder
from fairlead_standalone.service.testing import Whole
from tests import undecodable_records
from tests.undecodable_records import LEASES, TOPICS

LOCAL = topics.leases("local").name
DAMAGED = "undecodable record"


async def append_undecodable_records(whole: Whole) -> int:
    """Append every kind of undecodable record to every topic; returns their number."""
    holder = msgspec.json.decode((whole.data / "lock").read_bytes(), type=Holder)
    log = await open_log(holder.database_url)
    count = 0
    try:
        producer = await log.producer("a stranger")
        for topic in TOPICS:
            there = LOCAL if topic == LEASES else topic
            for each in undecodable_records.make_records(topic):
                if each.is_utf8:
                    await producer.append([Record(there, each.key, each.value, each.partition)])
                    count += 1
    finally:
        await log.close()
    return count


def run_a_job(whole: Whole, job_set: str) -> None:
    with Client(whole.address, token=whole.token) as client:
        client.submit("default", job_set, [{"command": ["true"], "cpu": "50m"}])
        assert client.wait("default", job_set).states == {"SUCCEEDED": 1}


def doctor(whole: Whole, folder: Path) -> list[dict[str, Any]]:
    """What `fairlead doctor` finds of records that could not be decoded."""
    kept = {name: value for name, value in os.environ.items() if "FAIRLEAD" not in name}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("fairlead")), "doctor", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**kept, "FAIRLEAD_DATA": str(whole.data), "HOME": str(folder)},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [found for found in json.loads(done.stdout) if found["name"] in (DAMAGED, "log")]


def listed(whole: Whole) -> dict[str, set[str]]:
    """Each record in the quarantine as topic/partition/position, and its readers."""
    with Client(whole.address, token=whole.token) as client:
        return {
            f"{each.topic}/{each.partition}/{each.position}": {r.reader for r in each.readers}
            for each in client.quarantine()
        }


def check(whole: Whole, folder: Path, count: int) -> None:
    """Every record is listed, with all who read it, and the pages answer."""
    whole.wait_for(lambda: len(listed(whole)) == count)
    whole.wait_for(
        lambda: all(
            {"scheduler", "lookout"} <= readers
            for place, readers in listed(whole).items()
            if place.startswith((topics.JOBS, topics.CLUSTERS, topics.CONFIG))
        )
    )
    whole.wait_for(
        lambda: all(
            "executor local" in readers
            for place, readers in listed(whole).items()
            if place.startswith(LOCAL)
        )
    )
    found = doctor(whole, folder)
    assert found[0]["name"] == DAMAGED
    assert "partition" in found[0]["said"]
    headers = {"authorization": f"Bearer {whole.token}"}
    for path in ("/", "/queues/default", "/api/v1/clusters", "/readyz"):
        answer = httpx2.get(f"{whole.address}{path}", headers=headers, timeout=30)
        assert answer.status_code < 400, (path, answer.text)


@pytest.mark.nightly
def test_undecodable_records_are_listed_and_jobs_run_also_after_a_restart(
    tmp_path: Path,
) -> None:
    with Whole(tmp_path) as whole:
        whole.start()
        run_a_job(whole, "before")
        children = {name: whole.child(name).pid for name in ("web", "scheduler", "executor")}
        count = asyncio.run(append_undecodable_records(whole))
        run_a_job(whole, "after")
        check(whole, tmp_path, count)
        assert {name: whole.child(name).pid for name in children} == children
        whole.interrupt()
        whole.start()
        run_a_job(whole, "restarted")
        check(whole, tmp_path, count)
