"""Webhooks of the kind airflow in a real Airflow: runs of a DAG, and events of an asset."""

import asyncio
from typing import Any

from fairlead_common.domain.records.events import JobSucceeded
from fairlead_standalone.service.testing import wait_for
from tests.e2e.airflow.installation import PASSWORD, USER, AirflowInstallation
from tests.integration.webhooks.webhook_harness import WebhookHarness, delivering
from tests.unit.lookout.builders import job_id, leased, submitted

ASSET = "s3://fairlead/results"
TARGET = {"dag": "on_event", "asset": ASSET, "username": USER, "password": PASSWORD}


async def read(airflow: AirflowInstallation, path: str) -> Any:
    return await asyncio.to_thread(airflow.request, "GET", path)


async def wait_for_attempts(harness: WebhookHarness, name: str) -> dict[str, Any]:
    """The only delivery of a webhook, as soon as it was attempted."""
    async with asyncio.timeout(60):
        while True:
            found = await harness.list_deliveries(name)
            if found and found[0]["state"] == "DELIVERED":
                return found[0]
            await asyncio.sleep(0.02)


async def test_an_event_starts_one_run_and_updates_an_asset_once(
    airflow: AirflowInstallation, fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        # Two webhooks send the same event to the same DAG and asset, one after the other.
        for name in ("first", "second"):
            await harness.create(airflow.url, name, kind="airflow", airflow=TARGET)
        await harness.append_events(submitted("a"), leased("a"), job_set="n/ä & <m>")
        await harness.append_events(JobSucceeded(job_id=job_id("a")), job_set="n/ä & <m>")
        first = await wait_for_attempts(harness, "first")
        await wait_for_attempts(harness, "second")
        again = await harness.post(f"/webhooks/first/deliveries/{first['id']}/replay")
        assert again.status_code == 200
        await wait_for_attempts(harness, "first")
        (run,) = (await read(airflow, "dags/on_event/dagRuns"))["dag_runs"]
        assert run["dag_run_id"] == f"fairlead__{first['messageId']}"
        assert run["conf"]["type"] == "finished"
        assert run["conf"]["data"]["jobSet"] == "n/ä & <m>"
        events = (await read(airflow, "assets/events"))["asset_events"]
        updates = [each for each in events if each["uri"] == ASSET]
        assert 1 <= len(updates) <= 2, "two at the same time do not see each other"
        assert {each["extra"]["fairleadEvent"] for each in updates} == {first["messageId"]}

        def has_run() -> bool:
            return bool(airflow.request("GET", "dags/on_asset/dagRuns")["dag_runs"])

        await asyncio.to_thread(wait_for, has_run)


async def test_what_airflow_refuses_is_in_the_delivery(
    airflow: AirflowInstallation, fresh_database: str, valkey_url: str
) -> None:
    wrong: dict[str, tuple[dict[str, str], str]] = {
        "password": ({"password": "wrong"}, "Airflow refuses the user name or the password."),
        "dag": ({"dag": "nope"}, "Airflow has no DAG nope."),
        "asset": ({"asset": "s3://nope"}, "Airflow has no asset s3://nope"),
    }
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(airflow.url, "right", kind="airflow", airflow=TARGET)
        right = (await harness.post("/webhooks/right/test")).json()
        assert (right["state"], right.get("error")) == ("DELIVERED", None)
        for name, (changes, text) in wrong.items():
            await harness.create(airflow.url, name, kind="airflow", airflow={**TARGET, **changes})
            tested = (await harness.post(f"/webhooks/{name}/test")).json()
            assert tested["state"] == "FAILED"
            assert tested["error"].startswith(text)
        token = {"dag": "on_event", "token": "expired"}
        await harness.create(airflow.url, "token", kind="airflow", airflow=token)
        tested = (await harness.post("/webhooks/token/test")).json()
        assert tested["error"] == "Airflow refuses the token."
        other = {"dag": "on_event", "token": "x"}
        await harness.create(f"{airflow.url}/other", "other", kind="airflow", airflow=other)
        tested = (await harness.post("/webhooks/other/test")).json()
        assert tested["error"].startswith("No API of Airflow 3")
