"""The tasks of docs/dashboard-tasks.md in a real browser, with the clicks that the page lists."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import httpx2
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from fairlead_common.domain.records import clusters, events
from fairlead_standalone.service.testing import StandaloneInstallation
from tests.conftest import ROOT
from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.log_server import log_server
from tests.e2e.pages.reported_state import NODES, fill
from tests.e2e.pages.test_job_actions import api, list_jobs, open_jobs
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import job_id, leased, submitted
from tests.unit.lookout.builders import running as started

__all__ = ["api"]
pytestmark = pytest.mark.asyncio(loop_scope="session")

CLICKS_MAX: Final = 5
ROW: Final = re.compile(r"^\| ([^|]+) \| (\d+) \|", re.MULTILINE)
TASKS: Final = {
    name: int(clicks)
    for name, clicks in ROW.findall((ROOT / "docs" / "dashboard-tasks.md").read_text())
}


class Clicks:
    """A page on which each click is counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    async def click(self, target: Locator) -> None:
        self.count += 1
        await target.click()

    async def main(self, title: str) -> None:
        """A link of the main navigation."""
        links = self.page.get_by_role("navigation", name="Main")
        await self.click(links.get_by_role("link", name=title, exact=True))

    async def link(self, name: str) -> None:
        await self.click(self.page.get_by_role("link", name=name, exact=True).first)

    async def button(self, name: str) -> None:
        await self.click(self.page.get_by_role("button", name=name, exact=True))


Task = Callable[[Clicks], Awaitable[None]]


async def find_jobs_out_of_memory(clicks: Clicks) -> None:
    await clicks.main("Jobs")
    await clicks.link("Out of memory in the last 24 hours")
    await expect(clicks.page.locator("tbody tr")).to_have_count(1)
    await expect(clicks.page.locator("tbody")).to_contain_text("it was killed")


async def see_why_a_job_waits(clicks: Clicks) -> None:
    await clicks.link("s")
    await clicks.link("b")
    await expect(clicks.page.locator("[data-state=QUEUED]")).to_be_visible()
    await expect(clicks.page.get_by_label("Why the job waits")).to_be_visible()


async def find_errors_in_a_log(clicks: Clicks) -> None:
    await clicks.link("s")
    await clicks.link("a")
    await clicks.page.get_by_label("Lines of the log that contain").fill("error")
    await clicks.button("Search")
    await expect(clicks.page.get_by_text("1 line contains error.")).to_be_visible()


async def download_failed_jobs(clicks: Clicks) -> None:
    await clicks.main("Jobs")
    await clicks.link("Failed in the last 24 hours")
    await expect(clicks.page.locator("tbody tr")).to_have_count(1)
    async with clicks.page.expect_download() as download:
        await clicks.link("CSV")
    lines = (await (await download.value).path()).read_text().splitlines()
    assert len(lines) == 2


async def save_a_list(clicks: Clicks) -> None:
    await clicks.main("Jobs")
    await clicks.link("Failed in the last 24 hours")
    await expect(clicks.page.locator("tbody tr")).to_have_count(1)
    await clicks.button("Save view…")
    await clicks.page.get_by_label("Name", exact=True).fill("failed")
    await clicks.button("Save")
    await expect(clicks.page.get_by_text("View failed was saved.")).to_be_visible()


async def count_jobs_by_queue_and_state(clicks: Clicks) -> None:
    await clicks.main("Jobs")
    await clicks.page.get_by_label("Group by").fill("queue,state")
    await clicks.button("Show")
    await expect(clicks.page.locator("tbody tr")).to_have_count(3)


async def see_jobs_of_a_node(clicks: Clicks) -> None:
    await clicks.main("Clusters")
    await clicks.link("e")
    await clicks.click(clicks.page.get_by_title("Jobs on this node").first)
    await expect(clicks.page.locator("tbody tr")).to_have_count(1)


async def see_cordoned_nodes(clicks: Clicks) -> None:
    await clicks.main("Clusters")
    await clicks.link("e")
    await expect(clicks.page.locator(".map .cells .cell")).to_have_count(NODES)
    await expect(clicks.page.locator(".map .cells .closed")).to_have_count(1)


async def see_why_a_queue_waits(clicks: Clicks) -> None:
    await clicks.main("Queues")
    await clicks.link("q")
    await expect(clicks.page.get_by_text("It is at its limit.")).to_be_visible()


async def see_preemptions(clicks: Clicks) -> None:
    await clicks.main("Preemptions")
    await expect(clicks.page.get_by_role("heading", level=1)).to_have_text("Preemptions")


async def see_fairness_of_a_week(clicks: Clicks) -> None:
    await clicks.main("Fairness")
    await clicks.link("Last 7 days")
    await expect(clicks.page.locator("[aria-current=true]")).to_have_text("Last 7 days")


async def see_rounds(clicks: Clicks) -> None:
    await clicks.main("Pools")
    await clicks.link("default")
    await expect(clicks.page.locator(".rounds rect")).to_have_count(8)


READING: Final[dict[str, Task]] = {
    "Which jobs of the last 24 hours ran out of memory?": find_jobs_out_of_memory,
    "Why does this job wait?": see_why_a_job_waits,
    "Find the errors in the log of a job": find_errors_in_a_log,
    "Download the list of failed jobs": download_failed_jobs,
    "Save a list of jobs under a name": save_a_list,
    "How many jobs has each queue in each state?": count_jobs_by_queue_and_state,
    "Which jobs run on a node?": see_jobs_of_a_node,
    "Which nodes are full, or cordoned?": see_cordoned_nodes,
    "Why do the jobs of a queue wait?": see_why_a_queue_waits,
    "Which jobs were preempted, and for whom?": see_preemptions,
    "Did my queue get its fair share this week?": see_fairness_of_a_week,
    "Are rounds slow, or stopped by a limit?": see_rounds,
}
"""Tasks that lookout alone carries out."""
RESUBMIT: Final = "Run all of these again with double memory"
CORDON: Final = "Take a cluster out of use"
TOKEN: Final = "Create a token for a script"


async def test_no_task_needs_many_clicks() -> None:
    assert TASKS.keys() == {*READING, RESUBMIT, CORDON, TOKEN}
    assert max(TASKS.values()) <= CLICKS_MAX


async def test_tasks_that_read_need_the_listed_clicks(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        log_server("key") as executor,
        browser_page(browser) as page,
    ):
        executor.text = "begin\nan Error\n"
        await fill(harness)
        beat = clusters.Heartbeat(executor="e", backend="simulated", address=executor.address)
        await harness.append([clusters.heartbeat_record(beat)])
        failed = events.JobFailed(
            job_id=job_id("c"), category=events.FailureCategory.OOM, reason="it was killed"
        )
        after = await harness.append_events(submitted("c"), leased("c"), started("c"), failed)
        await harness.read("/jobs", after)
        counted = {}
        for name, task in READING.items():
            await page.goto(address(harness, "/"))
            clicks = Clicks(page)
            await task(clicks)
            counted[name] = clicks.count
        assert counted == {name: TASKS[name] for name in READING}


@asynccontextmanager
async def start_task(standalone: StandaloneInstallation, browser: Browser) -> AsyncIterator[Clicks]:
    """The first page of an installation, signed in."""
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "")
        await page.goto(f"{standalone.address}/")
        yield Clicks(page)


async def test_jobs_that_ran_out_of_memory_are_run_again_with_double_memory(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    command = ["python3", "-c", "import time; data = b'x' * 400_000_000; time.sleep(600)"]
    job = {"command": command, "cpu": "100m", "memory": "64Mi"}
    body = {"queue": "default", "jobSet": "page-night", "jobs": [job, job]}
    assert (await api.post("/jobs", json=body)).status_code == 200
    answer = await api.get(
        "/jobsets/default/page-night", params={"until": "finished", "wait": "60s"}
    )
    assert answer.json()["failures"] == {"oom": 2}, answer.text
    async with start_task(standalone, browser) as clicks:
        page = clicks.page
        await clicks.main("Jobs")
        await clicks.link("Out of memory in the last 24 hours")
        await expect(page.locator("[data-jobs]")).to_have_text("2")
        await clicks.click(page.get_by_label("all that match"))
        await clicks.button("Resubmit…")
        await page.get_by_label("Job set of the new jobs").fill("page-morning")
        await page.get_by_label("Multiply the memory by").fill("2")
        await clicks.button("Resubmit 2 jobs")
        await expect(page.get_by_text("Resubmission of 2 jobs requested.")).to_be_visible()
        assert clicks.count == TASKS[RESUBMIT]
        await page.goto(f"{standalone.address}/jobs?jobSet=page-morning")
        await expect(page.locator("[data-jobs]")).to_have_text("2")
        await page.locator("tbody a").first.click()
        await expect(page.locator("dl.facts")).to_contain_text("128Mi memory")
    ids = [each["id"] for each in await list_jobs(api, "page-morning")]
    await api.post("/jobs/cancel", json={"ids": ids})


async def test_a_cluster_is_taken_out_of_use_and_a_token_created(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    executor = (await api.get("/clusters")).json()["clusters"][0]["executor"]
    async with start_task(standalone, browser) as clicks:
        await clicks.main("Clusters")
        await clicks.link(executor)
        await clicks.button("Cordon cluster…")
        await clicks.page.get_by_label("Reason").fill("task")
        await clicks.button(f"Cordon cluster {executor}")
        await expect(clicks.page.get_by_label("Cordoned")).to_contain_text("task")
        assert clicks.count == TASKS[CORDON]
        answer = await api.put(f"/executors/{executor}", json={"cordoned": False})
        assert answer.status_code == 200, answer.text
    async with start_task(standalone, browser) as clicks:
        await clicks.click(clicks.page.locator("footer").get_by_role("link", name="Tokens"))
        await clicks.page.get_by_label("Label").fill("task")
        await clicks.button("Create")
        await expect(clicks.page.get_by_label("Token", exact=True)).to_be_visible()
        assert clicks.count == TASKS[TOKEN]
