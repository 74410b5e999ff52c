"""The page of a job set leads to its groups and arrays, also to those without any job."""

import re

from fairlead_common.domain.records import events
from tests.integration.lookout.lookout_harness import running
from tests.integration.lookout.test_arrays import array, array_id
from tests.integration.lookout.test_groups import announced, group_id
from tests.unit.lookout.builders import leased, submitted


async def test_a_job_set_lists_its_groups_and_arrays_with_their_states(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        failed = events.GroupFailed(group=group_id("h"), reason="member ps-0 failed")
        after = await harness.append_events(
            *announced("g"), *announced("h"), failed, leased("g/ps-0"), leased("g/worker-0"),
            array("scan", 10),
        )  # fmt: skip
        await harness.append_events(*announced("foreign"), job_set="other")
        await harness.read("/groups", after)
        page = (await harness.client.get("/jobsets/q/s")).text
        assert f'<a href="/groups/{group_id("g")}">g</a>' in page
        assert "Starting</span>" in page
        assert "ps 0 of 1, worker 0 of 2" in page
        assert "member ps-0 failed" in page
        assert f'<a href="/arrays/{array_id("scan")}">scan</a>' in page
        assert '<span class="under">10 queued</span>' in page
        assert "foreign" not in page
        for query in ("?state=QUEUED", "?state=LEASED"):
            part = (await harness.client.get(f"/jobsets/q/s{query}")).text
            assert "<h2>Groups</h2>" not in part
            assert "<h2>Arrays</h2>" not in part


async def test_older_groups_and_arrays_follow_on_pages_of_their_own(
    fresh_database: str, valkey_url: str
) -> None:
    def list_names(page: str, kind: str) -> list[str]:
        return re.findall(rf'<a href="/{kind}/[a-z0-9]+">([a-z]+-\d+)</a>', page)

    async with running(fresh_database, valkey_url) as harness:
        for number in range(12):
            after = await harness.append_events(
                *announced(f"group-{number}"), array(f"array-{number}", 2)
            )
        await harness.read("/groups", after)
        first = (await harness.client.get("/jobsets/q/s")).text
        assert len(list_names(first, "groups")) == len(list_names(first, "arrays")) == 10
        (older,) = re.findall(r'href="([^"]+)">Older groups<', first)
        second = (await harness.client.get(older)).text
        assert len(list_names(second, "groups")) == 2
        assert list_names(second, "arrays") == list_names(first, "arrays")
        found = {*list_names(first, "groups"), *list_names(second, "groups")}
        assert found == {f"group-{number}" for number in range(12)}
        (older,) = re.findall(r'href="([^"]+)">Older arrays<', first)
        assert len(list_names((await harness.client.get(older)).text, "arrays")) == 2
        assert (await harness.client.get("/jobsets/q/s?groups=x")).status_code == 400


async def test_a_job_set_of_jobs_alone_has_no_such_sections(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a")))
        page = (await harness.client.get("/jobsets/q/s")).text
        assert not re.search("<h2>(Groups|Arrays|Jobs)</h2>", page)
