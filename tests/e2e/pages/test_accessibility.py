"""No page violates a rule of axe-core for WCAG 2.2 AA or of its best practices."""

from typing import Any, Final

import pytest
from playwright.async_api import Browser, Page

from fairlead_common.domain.ids import JobId, array_id
from fairlead_common.domain.records import clusters, events
from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.log_server import log_server
from tests.e2e.pages.reported_state import fill
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_groups import announced, group_id
from tests.unit.lookout.builders import failed_run, job_id, leased, requeued, submitted
from tests.unit.lookout.builders import running as started

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATHS: Final = (
    "/",
    "/?q=nothing",
    "/jobsets/q/s",
    "/jobsets/q/s?state=SUCCEEDED",
    f"/jobs/{job_id('a')}",
    f"/jobs/{job_id('b')}",
    f"/jobs/{job_id('c')}",
    f"/arrays/{array_id(job_id('scan'))}",
    f"/arrays/{array_id(job_id('scan'))}?state=CANCELLED",
    f"/groups/{group_id('g')}",
    "/jobs",
    "/jobs?q=nothing",
    "/jobs?groupBy=queue,state",
    "/jobs?queue=q&state=QUEUED&label.team=x",
    "/jobs/nothing",
    "/queues",
    "/queues/q",
    "/clusters",
    "/clusters/e",
    "/clusters/e?q=nothing",
    "/pools",
    "/pools/default",
    "/pools/gpu",
    "/find?q=q",
    "/about",
    "/preemptions",
    "/preemptions?queue=nothing",
    "/fairness",
    "/clusters/e/nodes/n0",
    "/tokens",
    "/saved-views",
    "/find?q=nothing",
)
EMPTY_PATHS: Final = (
    "/",
    "/jobs",
    "/queues",
    "/clusters",
    "/pools",
    "/preemptions",
    "/fairness",
)
WINDOWS: Final = {"wide": (1280, 900), "phone": (390, 844)}
VIEWS: Final = (("wide", "light"), ("phone", "dark"))
"""Windows and themes in which pages are checked. A theme changes only colours, and a window only
the layout."""
EVERY_VIEW: Final = tuple((window, theme) for window in WINDOWS for theme in ("light", "dark"))
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN_AXE: Final = "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"


async def find_violations(page: Page) -> list[str]:
    """The violations of the page that is shown, which has axe-core in it, each with the elements
    that it is of."""
    found: dict[str, Any] = await page.evaluate(RUN_AXE, RULES)
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


async def check(
    browser: Browser,
    harness: LookoutHarness,
    axe_script: str,
    paths: tuple[str, ...],
    views: tuple[tuple[str, str], ...] = VIEWS,
) -> dict[str, list[str]]:
    """The violations of pages in these windows and themes, by page."""
    found: dict[str, list[str]] = {}
    async with browser_page(browser) as page:
        for path in paths:
            await page.goto(address(harness, path))
            # Not a <script>: the pages' policy refuses foreign ones.
            await page.evaluate(axe_script)
            for window, theme in views:
                width, height = WINDOWS[window]
                await page.set_viewport_size({"width": width, "height": height})
                await page.emulate_media(
                    color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce"
                )
                violations = await find_violations(page)
                if violations:
                    found[f"{path} {window} {theme}"] = violations
    return found


@pytest.mark.parametrize("views", [VIEWS, pytest.param(EVERY_VIEW, marks=pytest.mark.nightly)])
async def test_no_page_violates_a_rule(
    fresh_database: str,
    valkey_url: str,
    browser: Browser,
    axe_script: str,
    views: tuple[tuple[str, str], ...],
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        log_server("key") as executor,
    ):
        executor.text = "first line\n" * 100
        await fill(harness)
        beat = clusters.Heartbeat(executor="e", backend="simulated", address=executor.address)
        await harness.append([clusters.heartbeat_record(beat)])
        history = [
            submitted("c"),
            leased("c"),
            started("c"),
            failed_run("c"),
            requeued("c"),
        ]
        failed = events.JobFailed(
            job_id=job_id("c"), category=events.FailureCategory.OOM, reason="used 3 GiB of 2 GiB"
        )
        again = [leased("c", run=2), started("c", run=2), failed]
        array = array_id(job_id("scan"))
        template = submitted("scan", job_id=JobId(array))
        made = events.ArraySubmitted(array=array, template=template, count=99, indexes="0-98")
        await harness.append_events(made, *announced("g"))
        await harness.read("/jobs", await harness.append_events(*history, *again))
        assert await check(browser, harness, axe_script, PATHS, views) == {}


async def test_no_empty_page_violates_a_rule(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        assert await check(browser, harness, axe_script, EMPTY_PATHS) == {}


async def test_the_page_to_sign_in_violates_no_rule(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        assert await check(browser, harness, axe_script, ("/",)) == {}
