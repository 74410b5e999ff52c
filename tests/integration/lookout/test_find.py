"""What /find answers: only what the caller is permitted to view."""

from fairlead_common.domain import ids
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_arrays import array, array_id
from tests.integration.lookout.test_groups import announced, group_id
from tests.integration.lookout.test_permissions import prepare_tokens
from tests.unit.lookout.builders import job_id, submitted


async def _find(harness: LookoutHarness, token: str, q: str) -> str:
    answer = await harness.client.get(
        "/find/results", params={"q": q}, headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_only_what_the_caller_may_view_is_found(fresh_database: str, valkey_url: str) -> None:
    tokens = await prepare_tokens(fresh_database)
    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        after = await harness.append_events(submitted("a"))
        await harness.client.get(
            "/api/v1/jobs",
            params={"after": after, "wait": "30s"},
            headers={"Authorization": f"Bearer {tokens['bob']}"},
        )
        for q, address in (
            ("q", 'href="/queues/q"'),
            ("s", 'href="/jobsets/q/s"'),
            (job_id("a"), f'href="/jobs/{job_id("a")}"'),
            ("q/s/a", 'href="/jobs/'),
        ):
            assert address in await _find(harness, tokens["bob"], q), q
            assert address not in await _find(harness, tokens["anna"], q), q
        assert (await harness.client.get("/find/results")).status_code == 401


async def test_groups_and_arrays_are_found_by_name_and_by_id(
    fresh_database: str, valkey_url: str
) -> None:
    tokens = await prepare_tokens(fresh_database)
    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        after = await harness.append_events(*announced("fit-7"), array("scan-7", 10))
        await harness.append_events(*announced("fit-8"), job_set="other")
        await harness.client.get(
            "/api/v1/groups",
            params={"after": after, "wait": "30s"},
            headers={"Authorization": f"Bearer {tokens['bob']}"},
        )
        group, scan = group_id("fit-7"), array_id("scan-7")
        to_group, to_array = f'href="/groups/{group}"', f'href="/arrays/{scan}"'
        for q, address in (
            ("fit", to_group),
            ("q/s/fit-7", to_group),
            (group, to_group),
            ("scan", to_array),
            ("q/s/scan-7", to_array),
            (scan, to_array),
            (ids.task_id(scan, 3), to_array),
        ):
            found = await _find(harness, tokens["bob"], q)
            assert address in found, q
            assert found.count("<li>") == (2 if q == "fit" else 1), q
            assert address not in await _find(harness, tokens["anna"], q), q
        found = await _find(harness, tokens["bob"], "7")
        assert ">queued in q/s<" in found
        assert "10 queued in q/s" in found


async def test_pages_are_found_without_regard_to_case(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        answer = await harness.client.get("/find", params={"q": "CLUST"})
        assert 'href="/clusters"><span' in answer.text
        assert 'href="/pools"><span' not in answer.text
        too_long = await harness.client.get("/find", params={"q": "x" * 257})
        assert too_long.status_code == 422
