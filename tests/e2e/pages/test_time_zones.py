"""Times on pages are in UTC, or in the time zone of the browser after a choice that it stores."""

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from fairlead_common.domain.records import events
from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.reported_state import fill
from tests.integration.lookout.lookout_harness import running
from tests.integration.lookout.test_groups import TERMS, announced, group_id
from tests.unit.lookout.builders import job_id

pytestmark = pytest.mark.asyncio(loop_scope="session")

ZONE: Final = "Australia/Eucla"
"""It differs from UTC by 8 h 45 min."""


async def check_times(page: Page, zone: str) -> None:
    """That the time of the submission is written in this zone."""
    time = page.locator("dl.facts time").first
    at = datetime.fromisoformat(await time.get_attribute("datetime") or "")
    await expect(time).to_contain_text(f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}")


async def test_times_are_in_the_zone_that_the_user_chose(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await fill(harness)
        wider = msgspec.structs.replace(
            TERMS, roles=(TERMS.roles[0], events.GroupRole("worker", 1, 5))
        )
        after = await harness.append_events(
            *announced("g"), events.GroupChanged(group=group_id("g"), terms=wider)
        )
        await harness.read(f"/groups/{group_id('g')}", after)
        job = address(harness, f"/jobs/{job_id('a')}")
        async with browser_page(browser, zone=ZONE) as page:
            await page.goto(job)
            await check_times(page, "UTC")
            await page.get_by_role("button", name="Times: UTC").click()
            await check_times(page, ZONE)
            await page.reload()
            await check_times(page, ZONE)
            await page.goto(address(harness, f"/groups/{group_id('g')}"))
            tick = page.locator(".chart .x time").first
            at = datetime.fromisoformat(await tick.get_attribute("datetime") or "")
            await expect(tick).to_have_text(f"{at.astimezone(ZoneInfo(ZONE)):%H:%M:%S}")
            mark = page.locator(".chart .mark title").first
            await expect(mark).to_contain_text("scaled at")
            at = datetime.fromisoformat(await mark.locator("time").get_attribute("datetime") or "")
            await expect(mark).to_contain_text(f"{at.astimezone(ZoneInfo(ZONE)):%H:%M:%S} GMT+8:45")
            await expect(page.locator("[data-zone]").first).to_have_text(f"Times in {ZONE}.")
            await page.goto(address(harness, "/pools/default"))
            summary = page.locator(".rounds rect title").first
            at = datetime.fromisoformat(
                await summary.locator("time").get_attribute("datetime") or ""
            )
            await expect(summary).to_contain_text(f"{at.astimezone(ZoneInfo(ZONE)):%H:%M:%S} GMT+8")
            await expect(summary).to_contain_text("7 waiting")
            await page.goto(address(harness, "/fairness"))
            await expect(page.locator("[data-zone]").first).to_have_text(f"Times in {ZONE}.")
            await page.goto(job)
            await page.get_by_role("button", name=f"Times: {ZONE}").click()
            await check_times(page, "UTC")
        async with browser_page(browser) as page:
            await page.goto(job)
            await check_times(page, "UTC")
            await expect(page.locator("[data-choose-zone]")).to_be_hidden()
