"""Messages to Slack-compatible servers and by e-mail, and runs in Airflow, from events of jobs."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import asyncpg

from fairlead_common.domain.records.events import FailureCategory, JobFailed, JobSucceeded
from tests.integration.webhooks.fake_airflow import ASSET, PASSWORD, USER, running_airflow
from tests.integration.webhooks.receiver import receiving
from tests.integration.webhooks.smtp_server import receiving_mail
from tests.integration.webhooks.webhook_harness import WebhookHarness, delivering
from tests.unit.lookout.builders import job_id, leased, submitted

FROM = "fairlead@example.org"


async def test_slack_is_sent_one_message_for_each_event_of_its_filter(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        made = await harness.create(receiver.url, kind="slack")
        assert (made["kind"], made["secrets"], "secret" in made) == ("slack", [], False)
        own = {"text": "{state} in {jobSet}: <{link}|{job}>"}
        await harness.create(
            receiver.url, "own", kind="slack", template=own, filter={"types": ["succeeded"]}
        )
        await harness.append_events(submitted("a"), leased("a"), job_set="n & <m>")
        await harness.append_events(JobSucceeded(job_id=job_id("a")), job_set="n & <m>")
        received = await receiver.wait_for(2)
        texts = sorted(each.message["text"] for each in received)
        base = "https://fairlead.example.org"
        assert texts == [
            "Job set q/n &amp; &lt;m&gt; has finished: 1 succeeded.\n"
            f"<{base}/jobsets/q/n%20%26%20%3Cm%3E|Open in Fairlead>",
            f"SUCCEEDED in n &amp; &lt;m&gt;: <{base}/jobs/{job_id('a')}|{job_id('a')}>",
        ]
        assert "webhook-signature" not in received[0].headers
        tested = (await harness.post("/webhooks/hook/test")).json()
        assert tested["state"] == "DELIVERED"
        assert "a test of the webhook hook" in receiver.received[-1].message["text"]
        rotated = await harness.post("/webhooks/hook/rotate")
        assert rotated.status_code == 409


async def test_a_failed_job_is_reported_by_email(fresh_database: str, valkey_url: str) -> None:
    async with receiving_mail() as mail:
        server: dict[str, Any] = {
            "smtp_host": "127.0.0.1",
            "smtp_port": mail.port,
            "smtp_security": "none",
            "smtp_from": FROM,
        }
        async with delivering(fresh_database, valkey_url, **server) as harness:
            given = {"name": "mail", "kind": "email", "recipients": ["anna@example.org"]}
            made = await harness.post("/webhooks", {**given, "filter": {"queue": "q"}})
            assert made.status_code == 201, made.text
            await harness.append_events(submitted("a"), leased("a"))
            await harness.append_events(
                JobFailed(job_id=job_id("a"), category=FailureCategory.START, reason="no such file")
            )
            delivered = await harness.wait_for_state("DELIVERED", 2, "mail")
            by_subject = {str(each["Subject"]): each for each in mail.received}
            failed = f"[Fairlead] Job {job_id('a')} of q/s failed: start. no such file."
            assert set(by_subject) == {
                failed,
                "[Fairlead] Job set q/s has finished: 1 failed.",
            }
            ids = {f"<{each['messageId']}.mail@example.org>" for each in delivered}
            assert {str(each["Message-ID"]) for each in mail.received} == ids
            plain = by_subject[failed].get_body(("plain",))
            assert plain is not None
            link = f"https://fairlead.example.org/jobs/{job_id('a')}"
            assert f"Open in Fairlead: {link}" in plain.get_content()
            replayed = f"/webhooks/mail/deliveries/{delivered[0]['id']}/replay"
            assert (await harness.post(replayed)).status_code == 200
            await harness.wait_for_state("DELIVERED", 2, "mail")


async def test_without_an_smtp_server_there_is_no_email(
    fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        given = {"name": "mail", "kind": "email", "recipients": ["anna@example.org"]}
        refused = await harness.post("/webhooks", {**given, "filter": {"queue": "q"}})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "/kind"


async def test_a_finished_job_set_starts_one_run_although_it_is_replayed(
    fresh_database: str, valkey_url: str
) -> None:
    target = {"dag": "report", "asset": ASSET, "username": USER, "password": PASSWORD}
    async with running_airflow() as airflow, delivering(fresh_database, valkey_url) as harness:
        made = await harness.create(airflow.url, kind="airflow", airflow=target)
        assert made["airflow"] == {"dag": "report", "asset": ASSET, "username": USER}
        assert made["credentials"] == ["password"]
        connection = await asyncpg.connect(fresh_database)
        row = await connection.fetchrow("SELECT * FROM fairlead_webhooks.webhooks")
        await connection.close()
        assert PASSWORD not in repr(row)
        await harness.append_events(submitted("a"), leased("a"))
        await harness.append_events(JobSucceeded(job_id=job_id("a")))
        (delivery,) = await harness.wait_for_state("DELIVERED", 1)
        (conf,) = airflow.runs.values()
        assert (conf["type"], conf["data"]["counts"]) == ("finished", {"SUCCEEDED": 1})
        again = await harness.post(f"/webhooks/hook/deliveries/{delivery['id']}/replay")
        assert again.status_code == 200
        await _wait_for_attempt(harness, delivery)
        assert (len(airflow.runs), len(airflow.events)) == (1, 1)
        body = {"url": airflow.url, "filter": {"queue": "q"}, "airflow": {"dag": "none"}}
        changed = await harness.client.put(
            "/api/v1/webhooks/hook", json={**body, "airflow": {"dag": "none", "username": USER}}
        )
        assert changed.json()["credentials"] == ["password"]
        failed = (await harness.post("/webhooks/hook/test")).json()
        assert failed["state"] == "FAILED"
        assert failed["error"].startswith("Airflow has no DAG none.")


async def _wait_for_attempt(harness: WebhookHarness, before: dict[str, Any]) -> None:
    """Wait until a delivery was attempted again."""
    async with asyncio.timeout(60):
        while True:
            (found,) = await harness.list_deliveries()
            if found["state"] == "DELIVERED" and found["lastAttempt"] != before["lastAttempt"]:
                return
            await asyncio.sleep(0.02)


async def test_commands_make_and_apply_webhooks_of_every_kind(
    fresh_database: str, valkey_url: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    smtp = {"smtp_host": "127.0.0.1", "smtp_from": FROM, "smtp_port": 9}
    async with (
        running_airflow() as airflow,
        delivering(fresh_database, valkey_url, **smtp) as harness,
    ):
        server = str(harness.client.base_url)

        async def call(*arguments: str, given: str = "", code: int = 0) -> str:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "fairlead", *arguments),
                env={**os.environ, "FAIRLEAD_SERVER": server},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await process.communicate(given.encode())
            assert process.returncode == code, errors.decode()
            return output.decode() + errors.decode()

        await call(
            *("webhook", "create", "dag", "--kind", "airflow", "--url", airflow.url, "-q", "q"),
            *("--dag", "report", "--username", USER, "--password-file", str(secret)),
        )
        assert "delivered" in await call("webhook", "test", "dag")
        description = await call("webhook", "get", "dag", "-o", "yaml")
        assert PASSWORD not in description
        assert "unchanged" in await call("apply", "-f", "-", given=description)
        changed = description.replace("dag: report", "dag: other")
        assert "would change" in await call("apply", "-f", "-", "--dry-run", given=changed)
        assert "airflow.dag: report -> other" in await call("apply", "-f", "-", given=changed)
        documents = (
            f"kind: slack\nname: chat\nurl: {airflow.url}\nfilter: {{queue: q}}\n"
            "template: {text: '{summary}'}\n---\n"
            "{kind: email, name: mail, recipients: [a@b.org], filter: {queue: q}}\n"
        )
        created = await call("apply", "-f", "-", given=documents)
        assert "webhook chat created" in created
        assert "webhook mail created" in created
        await call("webhook", "update", "mail", "--to", "c@d.org", "--subject", "{jobSet}")
        mail = json.loads(await call("webhook", "get", "mail", "-o", "json"))
        assert (mail["recipients"], mail["template"]) == (
            ["c@d.org"],
            {"subject": "{jobSet}", "text": None},
        )
        await call("webhook", "update", "chat", "--disable")
        enabled = await call("apply", "-f", "-", given=documents)
        assert "fairlead webhook replay chat --since" in enabled
        assert "--until None" not in enabled
        assert "fairlead webhook replay" not in await call("apply", "-f", "-", given=description)
        wrong = documents.replace("{summary}", "{nothing}")
        assert "unknown field" in await call("apply", "-f", "-", given=wrong, code=3)
