"""The pages in a real browser: live numbers, links, what is wrong, who may look, and no scripts
of anybody else's."""

import pytest
from playwright.async_api import Browser, expect

from fairlead_common.db import open_pool
from fairlead_common.domain.records import clusters, events, scheduling_reports
from fairlead_common.domain.scheduling import shapes
from fairlead_common.web import auth
from fairlead_submit.store import schema, token_store
from tests.e2e.pages.browser import EVIL, address, browser_page
from tests.e2e.pages.log_server import log_server
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import (
    SHAPE,
    cancel,
    failed_run,
    job_id,
    leased,
    requeued,
    submitted,
    succeeded,
)
from tests.unit.lookout.builders import running as started

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_counts_are_live_without_a_reload(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        await harness.read(
            "/jobsets/q/s", await harness.append_events(submitted("a"), submitted("b"))
        )
        await page.goto(address(harness, "/"))
        row = page.locator("tr[data-job-set=s]")
        await expect(row.locator("td").nth(2)).to_have_text("2")
        await page.evaluate("window.notReloaded = true")
        await harness.append_events(leased("a"), started("a"))
        await expect(row.locator("td").nth(3)).to_have_text("1")
        await expect(page.locator("[data-count=RUNNING]")).to_have_text("1")
        await harness.append_events(*succeeded("a"), cancel("b"))
        await expect(row.locator("td").nth(4)).to_have_text("1")
        await harness.append_events(submitted("c", "new set"), job_set="new set")
        await expect(page.locator("tr[data-job-set='new set']")).to_have_count(1)
        assert await page.evaluate("window.notReloaded")


async def test_from_the_job_sets_to_a_job_and_its_runs(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        history = [submitted("a"), leased("a"), started("a"), failed_run("a"), requeued("a")]
        await harness.read("/jobsets/q/s", await harness.append_events(*history, submitted("b")))
        await page.goto(address(harness, "/"))
        await page.get_by_role("link", name="s", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("s")
        await page.get_by_role("link", name="Queued 2").click()
        await page.get_by_role("link", name="a", exact=True).click()
        await expect(page.locator("[data-state]")).to_have_text("Queued")
        await expect(page.locator("#run-1")).to_contain_text("exit code other than 0")
        await harness.append_events(leased("a", run=2), started("a", run=2))
        await expect(page.locator("[data-state]")).to_have_text("Running")
        await expect(page.locator("#run-2")).to_contain_text("Running")


async def test_a_job_page_has_the_reasons_of_waiting_and_failure(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        why = scheduling_reports.WaitingReport(
            pool="default",
            queue="q",
            code="insufficient-resources",
            sentence="The only eligible node of pool p has 2 CPUs free; the job needs 4 CPUs.",
            shape=shapes.key(bytes(SHAPE), "default"),
            jobs=1,
            nodes={"busy: cpu": 3},
        )
        await harness.append([scheduling_reports.record(why)])
        await harness.read("/jobsets/q/s", await harness.append_events(submitted("a")))
        await page.goto(address(harness, f"/jobs/{job_id('a')}"))
        note = page.get_by_label("Why the job waits")
        await expect(note).to_contain_text("has 2 CPUs free")
        await expect(note).to_contain_text("3 nodes: busy: cpu")
        failed = events.JobFailed(
            job_id=job_id("a"), category=events.FailureCategory.OOM, reason="used 3 GiB of 2 GiB"
        )
        await harness.append_events(leased("a"), started("a"), failed)
        await expect(page.get_by_label("Why the job ended")).to_contain_text("used 3 GiB of 2 GiB")


async def test_a_log_page_is_updated_only_while_the_run_is_live(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
        log_server("key") as executor,
    ):
        executor.text = "first line\n" + EVIL
        beat = clusters.Heartbeat(executor="e", address=executor.address)
        await harness.append([clusters.heartbeat_record(beat)])
        await harness.read(
            "/jobsets/q/s", await harness.append_events(submitted("a"), leased("a"), started("a"))
        )
        await page.goto(address(harness, f"/jobs/{job_id('a')}"))
        await expect(page.locator("pre.log")).to_contain_text("first line")
        await expect(page.locator("pre.log")).to_contain_text(EVIL)
        executor.text += "\nsecond line"
        await expect(page.locator("pre.log")).to_contain_text("second line")
        await harness.read("/jobsets/q/s", await harness.append_events(*succeeded("a")))
        await expect(page.locator("#log[hx-get]")).to_have_count(0)
        await expect(page.locator("pre.log")).to_contain_text("second line")
        assert executor.run_ids == {f"{job_id('a')}-1"}
        answer = await harness.get(f"/jobs/{job_id('a')}/logs", follow=True, tail=7)
        assert answer.text == executor.text
        assert executor.parameters["tail"] == "7"
        executor.gone = True
        answer = await harness.get(f"/jobs/{job_id('a')}/logs")
        assert answer.status_code == 404
        assert "removed" in answer.json()["detail"]


async def test_user_input_is_escaped_in_pages(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        name = job_id("x", EVIL)
        history = [
            submitted("x", EVIL, client_id=EVIL, labels={"l": EVIL}),
            leased("x", job_set=EVIL, node=EVIL),
            events.JobCancelRequested(job_id=name, reason=EVIL),
            events.JobCancelled(job_id=name, reason=EVIL),
        ]
        after = await harness.append_events(*history, job_set=EVIL)
        await harness.read("/jobs", after)
        for path in ("/", f"/jobs/{name}"):
            await page.goto(address(harness, path))
            await expect(page.get_by_text(EVIL).first).to_be_visible()
            assert await page.locator("main img").count() == 0
        await page.get_by_role("link", name=EVIL).first.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(EVIL)
        assert await page.title() != "owned"


async def test_job_lists_have_next_pages(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        after = await harness.append_events(*[submitted(f"j{number}") for number in range(70)])
        await harness.read("/jobsets/q/s", after)
        await page.goto(address(harness, "/jobsets/q/s"))
        await expect(page.locator("tbody tr")).to_have_count(50)
        await page.get_by_role("link", name="Older").click()
        await expect(page.locator("tbody tr")).to_have_count(20)


async def test_an_anonymous_page_explains_how_to_sign_in(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    pool = await open_pool(fresh_database)
    await schema.migrate(pool)
    viewer = token_store.TokenGrant(name="anna", roles=("viewer",))
    session, _ = await token_store.insert_token(pool, viewer, None, token_store.KIND_SESSION)
    await pool.close()
    async with (
        running(fresh_database, valkey_url, anonymous=False) as harness,
        browser_page(browser) as page,
    ):
        for path in ("/", "/jobsets/q/s", "/jobs/x", "/jobs/x/log", "/live/jobsets"):
            answer = await harness.client.get(path)
            assert answer.status_code == 401, path
        await page.goto(address(harness, "/"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        await expect(page.locator("pre")).to_have_text("fairlead token link")
        await expect(page.get_by_role("button", name="Copy")).to_be_visible()
        cookie = auth.cookie_name(harness.client.base_url.netloc.decode())
        await page.context.add_cookies(
            [{"name": cookie, "value": session, "url": str(harness.client.base_url)}]
        )
        await page.reload()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Job sets")
        await expect(page.locator(".who")).to_have_text("anna")


async def test_a_missing_object_has_an_error_page(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        await page.goto(address(harness, "/"))
        await expect(page.locator(".empty")).to_contain_text("No jobs have been submitted yet")
        await page.goto(address(harness, "/jobs/nothing"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
        answer = await harness.client.get("/")
        assert "'unsafe" not in answer.headers["content-security-policy"]


async def test_an_address_that_is_not_valid_leads_to_the_page_without_filters(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        await page.goto(address(harness, "/jobs?state=TIRED&q=x"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("Invalid address")
        await expect(page.locator("main")).to_contain_text("state: 'TIRED' is not a job state.")
        await page.get_by_role("link", name="Open this page without filters").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        assert page.url == address(harness, "/jobs")
        await page.goto(address(harness, "/nothing"))
        await expect(page.locator("main")).to_contain_text("/nothing does not exist.")
        await expect(page.locator("main")).not_to_contain_text("openapi")


async def test_a_queue_shows_its_share_over_time_and_why_its_jobs_wait(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        why = scheduling_reports.WaitingReport(
            pool="default",
            queue="q",
            code="queue-limit",
            sentence="at its limit",
            shape="x",
            jobs=7,
        )
        shares = [
            scheduling_reports.QueueShare(
                pool="default", queue="q", weight=1.0, fair_share=0.5, actual_share=actual,
                demand_share=0.6, queued=7,
            )
            for actual in (0.2, 0.4)
        ]  # fmt: skip
        await harness.append(
            [*map(scheduling_reports.record, shares), scheduling_reports.record(why)]
        )
        await harness.read(
            "/jobsets", await harness.append_events(submitted("a"), submitted("b"), leased("b"))
        )
        await page.goto(address(harness, f"/jobs/{job_id('a')}"))
        await expect(page.get_by_text("Position in its queue: 1")).to_be_visible()
        await expect(page.get_by_text("add a node that has what they require")).to_be_visible()
        await page.locator(".facts").get_by_role("link", name="q", exact=True).click()
        await expect(page.get_by_role("heading", name="Queue q")).to_be_visible()
        await expect(page.get_by_text("Fair share 50.0 %")).to_be_visible()
        await expect(page.get_by_text("queue limit")).to_be_visible()
        await expect(page.get_by_text("at its limit")).to_be_visible()
        await expect(page.get_by_role("cell", name="cpu")).to_be_visible()
