"""Undecodable records in every topic of a running Fairlead: jobs run, and doctor lists them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from fairlead import Client
from fairlead_common.log import Record, topics
from fairlead_common.log.opening import open_log
from fairlead_standalone.data.data_folder import Holder
from fairlead_standalone.service.testing import StandaloneInstallation
from tests import undecodable_records
from tests.e2e.commands import run_fairlead
from tests.undecodable_records import LEASES, TOPICS

LOCAL = topics.leases("local").name
DAMAGED = "undecodable record"


async def append_undecodable_records(standalone: StandaloneInstallation) -> int:
    """Append every kind of undecodable record to every topic; returns their number."""
    holder = msgspec.json.decode((standalone.data / "lock").read_bytes(), type=Holder)
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


def run_a_job(standalone: StandaloneInstallation, job_set: str) -> None:
    with Client(standalone.address, token=standalone.token) as client:
        client.submit("default", job_set, [{"command": ["true"], "cpu": "50m"}])
        assert client.wait("default", job_set).states == {"SUCCEEDED": 1}


def doctor(standalone: StandaloneInstallation) -> list[dict[str, Any]]:
    """What `fairlead doctor` finds of records that could not be decoded."""
    done = run_fairlead(standalone, "doctor", "-o", "json")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [found for found in json.loads(done.stdout) if found["name"] in (DAMAGED, "log")]


def listed(standalone: StandaloneInstallation) -> dict[str, set[str]]:
    """Each record in the quarantine as topic/partition/position, and its readers."""
    with Client(standalone.address, token=standalone.token) as client:
        return {
            f"{each.topic}/{each.partition}/{each.position}": {r.reader for r in each.readers}
            for each in client.quarantine()
        }


def check(standalone: StandaloneInstallation, count: int) -> None:
    """Every record is listed, with all who read it, and the pages answer."""
    standalone.wait_for(lambda: len(listed(standalone)) == count)
    standalone.wait_for(
        lambda: all(
            {"scheduler", "lookout"} <= readers
            for place, readers in listed(standalone).items()
            if place.startswith((topics.JOBS, topics.CLUSTERS, topics.CONFIG))
        )
    )
    standalone.wait_for(
        lambda: all(
            "executor local" in readers
            for place, readers in listed(standalone).items()
            if place.startswith(LOCAL)
        )
    )
    found = doctor(standalone)
    assert found[0]["name"] == DAMAGED
    assert "partition" in found[0]["message"]
    headers = {"authorization": f"Bearer {standalone.token}"}
    for path in ("/", "/queues/default", "/api/v1/clusters", "/readyz"):
        answer = httpx2.get(f"{standalone.address}{path}", headers=headers, timeout=30)
        assert answer.status_code < 400, (path, answer.text)


@pytest.mark.nightly
def test_undecodable_records_are_listed_and_jobs_run_also_after_a_restart(
    tmp_path: Path,
) -> None:
    with StandaloneInstallation(tmp_path) as standalone:
        standalone.start()
        run_a_job(standalone, "before")
        children = {name: standalone.child(name).pid for name in ("web", "scheduler", "executor")}
        count = asyncio.run(append_undecodable_records(standalone))
        run_a_job(standalone, "after")
        check(standalone, count)
        assert {name: standalone.child(name).pid for name in children} == children
        standalone.interrupt()
        standalone.start()
        run_a_job(standalone, "restarted")
        check(standalone, count)
