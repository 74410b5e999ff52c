"""The pages offer an action only to callers who are permitted it."""

import re
from typing import Final

from fairlead_common.db import open_pool
from fairlead_common.domain.ids import JobId, array_id
from fairlead_common.domain.records import configuration, events
from fairlead_common.domain.records.configuration import Permission
from fairlead_submit.store import schema, token_store
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_groups import announced
from tests.unit.lookout.builders import job_id, leased, submitted
from tests.unit.lookout.builders import running as started

SCAN: Final = array_id(job_id("scan"))
QUEUE: Final = configuration.Queue(
    name="q",
    permissions=(
        Permission(("anna", "vic"), ("view",)),
        Permission(("anna",), ("cancel",)),
        Permission(("nobody",), ("submit", "preempt", "reprioritize")),
    ),
)
ROLES: Final = {"vic": "viewer", "anna": "submitter", "root": "admin"}


async def _prepare_tokens(database: str) -> dict[str, str]:
    pool = await open_pool(database)
    await schema.migrate(pool)
    await pool.execute(
        "INSERT INTO fairlead_submit.queues (name, version, value) VALUES ('q', 1, $1)",
        configuration.record(QUEUE).value,
    )
    made = {name: await token_store.make_token(pool, name, [role]) for name, role in ROLES.items()}
    await pool.close()
    return made


async def test_a_page_offers_what_its_caller_is_permitted(
    fresh_database: str, valkey_url: str
) -> None:
    tokens = await _prepare_tokens(fresh_database)
    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        array = events.ArraySubmitted(
            array=SCAN, template=submitted("scan", job_id=JobId(SCAN)), count=2, indexes="0-1"
        )
        after = await harness.append_events(
            submitted("a"), leased("a"), started("a"), *announced("g"), array
        )
        headers = {who: {"Authorization": f"Bearer {token}"} for who, token in tokens.items()}
        query = {"after": after, "wait": "30s"}
        await harness.client.get("/api/v1/jobs", params=query, headers=headers["root"])

        async def read_page(who: str, path: str) -> str:
            answer = await harness.client.get(path, headers=headers[who])
            assert answer.status_code == 200, (who, path, answer.text)
            return answer.text

        async def list_offered(who: str, path: str) -> list[str]:
            text = await read_page(who, path)
            return re.findall(r'<button name="action" value="(\w+)"', text)

        everything = ["cancel", "preempt", "reprioritize", "resubmit"]
        for path, of_root in (
            (f"/jobs/{job_id('a')}", everything),
            (f"/arrays/{SCAN}", ["cancel", "reprioritize"]),
            ("/jobs?queue=q", everything),
            ("/jobs?queue=q&state=QUEUED", ["cancel", "reprioritize", "resubmit"]),
        ):
            assert await list_offered("root", path) == of_root, path
            assert await list_offered("anna", path) == ["cancel"], path
            assert await list_offered("vic", path) == [], path
        assert await list_offered("root", "/jobs?state=FAILED") == ["resubmit"]
        assert await list_offered("anna", "/jobs") == everything  # of jobs of other queues
        assert await list_offered("vic", "/jobs") == []
        await _check_texts(harness, headers)


async def _check_texts(harness: LookoutHarness, headers: dict[str, dict[str, str]]) -> None:
    """A caller who can change no job sees no offer to do so, and no command that cancels."""
    for who, can_change in (("root", True), ("anna", True), ("vic", False)):
        for path in ("/jobsets/q/s", f"/jobs/{job_id('a')}"):
            text = (await harness.client.get(path, headers=headers[who])).text
            assert ("fairlead cancel" in text) is can_change, (who, path)
        text = (await harness.client.get("/jobsets/q/s", headers=headers[who])).text
        assert ('class="changer"' in text) is can_change
        text = (await harness.client.get(f"/jobs/{job_id('a')}", headers=headers[who])).text
        assert ('data-actions="cancel preempt reprioritize resubmit"') in text
