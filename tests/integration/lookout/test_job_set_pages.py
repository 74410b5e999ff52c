"""The page of a job set leads to its groups and arrays, also to those without any job."""

import html
import re
from datetime import datetime

from fairlead_common.domain.records import events
from fairlead_common.service import clock
from tests.integration.lookout.lookout_harness import running
from tests.integration.lookout.test_arrays import array, array_id
from tests.integration.lookout.test_groups import announced, group_id
from tests.unit.lookout.builders import job_id, leased, submitted, succeeded
from tests.unit.lookout.builders import running as started


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
        assert not re.search("<h2>(Groups|Arrays)</h2>", page)


async def test_job_sets_show_progress_failures_and_when_they_will_end(
    fresh_database: str, valkey_url: str
) -> None:
    hour_ms = 3_600_000
    now_ms = clock.now_ms()
    times = [now_ms - hour_ms]
    async with running(fresh_database, valkey_url, log_now_ms=lambda: times[-1]) as harness:
        names = ("a", "b", "c", "d")
        begin = [*map(submitted, names), leased("a"), started("a"), *succeeded("a")]
        await harness.append_events(*begin)
        times.append(now_ms)
        reason = "used 3 GiB of 2 GiB"
        failed = events.JobFailed(
            job_id=job_id("b"), category=events.FailureCategory.OOM, reason=reason
        )
        await harness.read("/jobs", await harness.append_events(failed))
        text = (await harness.client.get("/")).text
        assert "50 %, ends" in text
        assert ">1 oom</span>" in text
        (eta,) = re.findall(r'ends <time datetime="([^"]+)"', text)
        left_ms = datetime.fromisoformat(eta).timestamp() * 1_000 - now_ms
        assert 0.9 * hour_ms < left_ms < 1.1 * hour_ms
        page = (await harness.client.get("/jobsets/q/s")).text
        assert f'<dt>Estimated end</dt><dd><time datetime="{eta}"' in page
        (failures,) = re.findall(r'<a href="([^"]+)">1 oom</a>', page)
        listed = (await harness.client.get(html.unescape(failures))).text
        assert "<strong data-jobs>1</strong>" in listed
        ended = await harness.append_events(*map(cancelled, names[2:]))
        await harness.read("/jobs", ended)
        page = (await harness.client.get("/jobsets/q/s")).text
        assert "<dd>100 %</dd>" in page
        assert "Estimated end" not in page


def cancelled(name: str) -> events.AnyEvent:
    return events.JobCancelled(job_id=job_id(name), reason="enough")


async def test_the_list_of_job_sets_is_exported_with_its_filters(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.append_events(submitted("a"), job_set="night")
        after = await harness.append_events(submitted("b"), job_set="day")
        await harness.read("/jobs", after)
        page = (await harness.client.get("/?q=night&queue=q")).text
        assert "Queued</dt>" not in page  # the totals are of more job sets than are listed
        for kind, lines in (("CSV", 2), ("NDJSON", 1)):
            (address,) = re.findall(rf'<a href="([^"]+)" download>{kind}<', page)
            text = (await harness.client.get(html.unescape(address))).text
            assert len(text.splitlines()) == lines
            assert "night" in text
            assert "day" not in text


async def test_a_nul_in_a_parameter_of_a_page_is_refused(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        for path in (
            "/jobs?cluster=%00",
            "/live/jobs?q=a%00",
            "/export/queues?sort=%00",
            "/?%00=1",
        ):
            answer = await harness.client.get(path)
            assert (path, answer.status_code) == (path, 422)
            assert "contains a NUL character" in answer.text
