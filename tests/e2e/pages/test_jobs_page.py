"""The page of jobs in a real browser: filters, groups, pages, exports and actions."""

import re
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from fairlead_common.domain.records import events
from tests.e2e.pages.browser import EVIL, address, browser_page
from tests.e2e.pages.test_scheduling_pages import check_width
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import failed_run, job_id, leased, submitted, succeeded
from tests.unit.lookout.builders import running as started

pytestmark = pytest.mark.asyncio(loop_scope="session")

OTHERS: Final = 60


async def fill(harness: LookoutHarness) -> None:
    """Five jobs in different states, and a job set of another queue that fills more than a page."""
    out_of_memory = events.FailureCategory.OOM
    await harness.append_events(
        *(submitted(f"bulk-{number}", "big") for number in range(OTHERS)),
        queue="research",
        job_set="big",
    )
    history: list[events.AnyEvent] = [
        submitted("a", labels={"team": "x"}),
        submitted("b", labels={"team": "y"}),
        submitted("c", priority_class="high"),
        submitted("d", labels={"team": "x"}),
        leased("b", node="n1"),
        started("b"),
        leased("d", node="n2"),
        started("d"),
        failed_run("d"),
        events.JobFailed(job_id=job_id("d"), category=out_of_memory, reason="it was killed"),
        leased("c", node="n1"),
        *succeeded("c"),
    ]
    await harness.read("/jobs", await harness.append_events(*history))


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def rows(page: Page) -> Locator:
    """The rows of the table."""
    return page.locator("tbody tr")


async def test_filters_are_in_the_address_and_can_be_removed(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/"))
        await page.get_by_role("link", name="Jobs", exact=True).click()
        await expect(page.locator("[data-jobs]")).to_have_text(str(4 + OTHERS))
        await expect(rows(page)).to_have_count(50)
        await check_width(page)
        await page.get_by_label("Queue", exact=True).select_option("q")
        await page.get_by_role("button", name="Show").click()
        await expect(rows(page)).to_have_count(4)
        await page.get_by_label("State", exact=True).select_option("FAILED")
        await page.get_by_label("Failure").select_option("oom")
        await page.get_by_role("button", name="Show").click()
        await expect(rows(page)).to_have_count(1)
        await expect(rows(page).first).to_contain_text("it was killed")
        await page.goto(address(harness, "/jobs?node=n1&label.team=y"))
        await expect(rows(page)).to_have_count(1)
        await page.locator("a.chip", has_text="team").click()
        await expect(rows(page)).to_have_count(2)
        await page.locator("a.chip", has_text="n1").click()
        await expect(rows(page)).to_have_count(50)


async def test_more_filters_have_fields_and_addresses_are_short(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/jobs?submittedAfter=2020-01-01T00:00:00Z"))
        await page.get_by_text("More filters").click()
        await page.get_by_label("Label", exact=True).fill("team=x")
        await page.get_by_label("Node", exact=True).fill("n2")
        await page.keyboard.press("Enter")
        await expect(rows(page)).to_have_count(1)
        first = address(
            harness, "/jobs?submittedAfter=2020-01-01T00%3A00%3A00Z&node=n2&label.team=x"
        )
        assert page.url == first
        await page.locator("details.more").evaluate("each => each.open = true")
        await page.get_by_label("Node", exact=True).fill("")
        await page.get_by_label("Class", exact=True).fill("default")
        await page.keyboard.press("Enter")
        await expect(rows(page)).to_have_count(2)
        await expect(page.locator("a.chip")).to_have_text(
            [re.compile("Submitted after"), re.compile("team x"), re.compile("Class default")]
        )
        await page.go_back()
        await expect(rows(page)).to_have_count(1)
        assert page.url == first
        await page.reload()
        await expect(rows(page)).to_have_count(1)


async def test_filters_of_a_link_are_in_the_form_although_it_does_not_offer_them(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/jobs?queue=elsewhere&category=infeasible"))
        await expect(page.get_by_label("Queue", exact=True)).to_have_value("elsewhere")
        await expect(page.get_by_label("Failure")).to_have_value("infeasible")
        await expect(page.get_by_text("No job matches.")).to_be_visible()
        await page.goto(address(harness, "/jobs/filter?label=team"))
        await expect(page.get_by_text("The label 'team' is not NAME=VALUE.")).to_be_visible()


async def test_pages_continue_and_new_jobs_appear(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/jobs?queue=research"))
        await page.get_by_role("link", name="Older").click()
        await expect(rows(page)).to_have_count(OTHERS - 50)
        await expect(page.get_by_role("link", name="Older")).to_have_count(0)
        await page.get_by_role("link", name="Newest").click()
        await expect(rows(page)).to_have_count(50)
        await expect(page.get_by_role("link", name="Newest")).to_have_count(0)
        await page.goto(address(harness, "/jobs?queue=q&state=QUEUED"))
        await expect(rows(page)).to_have_count(1)
        await harness.append_events(submitted("new"))
        await expect(rows(page)).to_have_count(2)


async def test_buttons_are_those_that_a_selected_job_permits(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/jobs?queue=q"))
        cancel, preempt, resubmit = (
            page.get_by_role("button", name=f"{name}…")
            for name in ("Cancel", "Preempt", "Resubmit")
        )
        await expect(cancel).to_be_disabled()
        await page.get_by_label("Select c", exact=True).check()  # has succeeded
        await expect(resubmit).to_be_enabled()
        await expect(cancel).to_be_disabled()
        await expect(cancel).to_have_attribute("title", re.compile("these jobs have ended"))
        await page.get_by_label("Select a", exact=True).check()  # waits
        await expect(cancel).to_be_enabled()
        await expect(preempt).to_be_disabled()
        await page.get_by_label("Select b", exact=True).check()  # runs
        await expect(preempt).to_be_enabled()
        await harness.append_events(*succeeded("b"))
        await expect(preempt).to_be_disabled()
        await page.get_by_label("all that match").check()
        await expect(preempt).to_be_enabled()


async def test_groups_lead_to_their_jobs(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/jobs"))
        await page.get_by_label("Group by").fill("queue,state")
        await page.get_by_role("button", name="Show").click()
        await expect(rows(page)).to_have_count(5)
        await check_width(page)
        await expect(rows(page).first).to_contain_text("research")
        await rows(page).first.get_by_role("link", name="Jobs").click()
        await expect(page.locator("[data-jobs]")).to_have_text(str(OTHERS))
        await page.goto(address(harness, "/jobs?queue=q&groupBy=label.team"))
        await expect(rows(page)).to_have_count(3)
        await page.goto(address(harness, "/jobs?groupBy=colour"))
        await expect(page.get_by_text("'colour' is not a group")).to_be_visible()


async def test_the_page_is_read_and_filtered_without_scripts(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser, scripts=False) as page,
    ):
        await fill(harness)
        await page.goto(address(harness, "/jobs"))
        await page.get_by_label("Part of a client id").fill("bulk-7")
        await page.get_by_role("button", name="Show").click()
        await expect(rows(page)).to_have_count(1)
        await expect(page.locator("#actions")).to_be_hidden()
        async with page.expect_download() as download:
            await page.get_by_role("link", name="CSV").click()
        lines = read_lines(await (await download.value).path())
        assert len(lines) == 2
        assert "bulk-7" in lines[1]


async def test_an_empty_list_says_what_to_do(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await page.goto(address(harness, "/jobs"))
        await expect(page.get_by_text("fairlead run -- echo hello")).to_be_visible()
        await harness.read("/jobs", await harness.append_events(submitted("a", labels={"k": EVIL})))
        await page.goto(address(harness, "/jobs?label.k=other"))
        await page.get_by_role("link", name="Show all jobs").click()
        await expect(rows(page)).to_have_count(1)
        await page.goto(f"{address(harness, '/jobs')}?label.k={EVIL.replace('&', '%26')}")
        await expect(rows(page)).to_have_count(1)
        await expect(page.locator("a.chip")).to_contain_text(EVIL)
