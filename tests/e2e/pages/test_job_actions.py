"""Bulk actions on the page of jobs, in a real browser against all services."""

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from fairlead_common.domain.ids import task_id
from fairlead_standalone.service.testing import StandaloneInstallation
from tests.e2e.pages.browser import browser_page
from tests.e2e.pages.test_scheduling_pages import check_width

PREFIX: Final = "page-"
"""Of the job sets of this module, which shares its installation with others."""
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def api(standalone: StandaloneInstallation) -> AsyncIterator[httpx2.AsyncClient]:
    """The API with the first token. Jobs that still wait at the end are cancelled."""
    headers = {"Authorization": f"Bearer {standalone.token}"}
    base = f"{standalone.address}/api/v1"
    async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=60) as client:
        yield client
        left = (await client.get("/jobs", params={"q": PREFIX, "state": "QUEUED"})).json()["jobs"]
        if left:
            await client.post("/jobs/cancel", json={"ids": [job["id"] for job in left]})


async def submit_held(
    api: httpx2.AsyncClient, job_set: str, jobs: int, queue: str = "default"
) -> list[str]:
    """Jobs that nothing starts."""
    job = {"command": ["true"], "cpu": 1, "memory": "16Mi", "hold": True}
    body = {
        "queue": queue,
        "jobSet": job_set,
        "jobs": [{"clientId": f"job-{number}", **job} for number in range(jobs)],
    }
    answer = await api.post("/jobs", json=body)
    assert answer.status_code == 200, answer.text
    await list_jobs(api, job_set, after=answer.json()["position"], wait="60s")
    return [each["id"] for each in answer.json()["jobs"]]


async def list_jobs(api: httpx2.AsyncClient, job_set: str, **query: str) -> list[dict[str, Any]]:
    """The jobs of a job set."""
    answer = await api.get("/jobs", params={"jobSet": job_set, **query})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["jobs"]
    return found


async def open_jobs(page: Page, standalone: StandaloneInstallation, query: str) -> None:
    """Sign in and open the page of jobs."""
    headers = {"Authorization": f"Bearer {standalone.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        answer = await client.post(f"{standalone.address}/api/v1/sign-in-links")
        assert answer.status_code < 300, answer.text
    await page.goto(standalone.address + answer.json()["path"])
    await page.goto(f"{standalone.address}/jobs?queue=default&{query}")


async def test_selected_jobs_are_cancelled_after_a_confirmation(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    await submit_held(api, "page-pick", 3)
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-pick")
        await page.get_by_label("Select job-1").check()
        await page.get_by_role("button", name="Cancel…").click()
        await expect(page.get_by_role("heading", name="Cancel 1 job?")).to_be_visible()
        await check_width(page)
        await page.get_by_role("button", name="Back").click()
        assert {job["state"] for job in await list_jobs(api, "page-pick")} == {"QUEUED"}
        await page.get_by_role("button", name="Cancel…").click()
        await page.get_by_label("Reason").fill("not needed")
        await page.get_by_role("button", name="Cancel 1 job").click()
        await expect(page.get_by_text("Cancellation of 1 job requested.")).to_be_visible()
        await expect(page.locator("tr", has_text="job-1")).to_contain_text("not needed")
        states = {job["clientId"]: job["state"] for job in await list_jobs(api, "page-pick")}
        assert states == {"job-0": "QUEUED", "job-1": "CANCELLED", "job-2": "QUEUED"}


async def test_an_action_concerns_the_jobs_that_its_dialog_named(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    ids = await submit_held(api, "page-live", 2)
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-live&state=QUEUED")
        await page.get_by_label("Select job-0").check()
        await page.get_by_label("Select job-1").check()
        await page.get_by_role("button", name="Reprioritize…").click()
        await expect(page.get_by_role("heading", name="Reprioritize 2 jobs?")).to_be_visible()
        await api.post("/jobs/cancel", json={"ids": ids[:1]})
        await expect(page.locator("tr", has_text="job-0")).to_have_count(0)
        await page.get_by_label("New priority").fill("7")
        async with page.expect_request("**/api/v1/jobs/reprioritize") as sent:
            await page.get_by_role("button", name="Reprioritize 2 jobs").click()
        body: dict[str, Any] = (await sent.value).post_data_json or {}
        assert sorted(body["ids"]) == sorted(ids)
        await expect(page.get_by_text("Change of priority of 1 job requested.")).to_be_visible()


async def test_all_jobs_of_a_filter_get_a_priority_and_are_cancelled(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    await submit_held(api, "page-all", 60)
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-all&state=QUEUED")
        await page.get_by_label("all that match").check()
        await page.get_by_role("button", name="Reprioritize…").click()
        await expect(page.get_by_role("heading", name="Reprioritize 60 jobs?")).to_be_visible()
        await page.get_by_label("New priority").fill("7")
        await page.get_by_role("button", name="Reprioritize 60 jobs").click()
        await expect(page.get_by_text("Change of priority of 60 jobs requested.")).to_be_visible()
        await page.get_by_label("all that match").check()
        await page.get_by_role("button", name="Cancel…").click()
        await page.get_by_role("button", name="Cancel 60 jobs").click()
        await expect(page.get_by_text("Cancellation of 60 jobs requested.")).to_be_visible()
        await expect(page.get_by_text("No job matches.")).to_be_visible()
    found = await list_jobs(api, "page-all")
    assert {(job["state"], job["priority"]) for job in found} == {("CANCELLED", 7)}
    assert len(found) == 60


async def test_selected_jobs_are_submitted_again_into_a_job_set(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    ids = await submit_held(api, "page-old", 2)
    await api.post("/jobs/cancel", json={"ids": ids})
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-old")
        await page.get_by_label("Select all on this page").check()
        await page.get_by_role("button", name="Resubmit…").click()
        await page.get_by_label("Job set of the new jobs").fill("page-new")
        await page.get_by_role("button", name="Resubmit 2 jobs").click()
        await expect(page.get_by_text("Resubmission of 2 jobs requested.")).to_be_visible()
        await page.goto(f"{standalone.address}/jobs?queue=default&jobSet=page-new")
        await expect(page.locator("[data-jobs]")).to_have_text("2")


async def test_an_action_on_a_filter_that_matches_more_by_then_is_confirmed_again(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    await submit_held(api, "page-grows", 2)
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-grows&state=QUEUED")
        await page.get_by_label("all that match").check()
        await page.get_by_role("button", name="Cancel…").click()
        await expect(page.get_by_role("heading", name="Cancel 2 jobs?")).to_be_visible()
        await api.post(
            "/jobs",
            json={
                "queue": "default",
                "jobSet": "page-grows",
                "jobs": [{"clientId": "late", "command": ["true"], "hold": True}],
            },
        )
        await expect(page.locator("tr", has_text="late")).to_have_count(1)
        await page.get_by_role("button", name="Cancel 2 jobs").click()
        await expect(page.get_by_role("heading", name="Cancel 3 jobs?")).to_be_visible()
        await expect(page.get_by_role("dialog")).to_contain_text("1 job more since you were asked.")
        assert {job["state"] for job in await list_jobs(api, "page-grows")} == {"QUEUED"}
        await page.get_by_role("button", name="Back").click()
        assert {job["state"] for job in await list_jobs(api, "page-grows")} == {"QUEUED"}


async def test_a_double_click_resubmits_jobs_once(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    ids = await submit_held(api, "page-twice", 1)
    await api.post("/jobs/cancel", json={"ids": ids})
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-twice")
        await page.get_by_label("Select job-0").check()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        await page.get_by_role("button", name="Resubmit…").dblclick()
        await page.get_by_label("Job set of the new jobs").fill("page-once")
        await page.get_by_role("button", name="Resubmit 1 job").click()
        await expect(page.get_by_text("Resubmission of 1 job requested.")).to_be_visible()
        # The page makes requests one after the other: a second resubmission precedes this count.
        await page.get_by_label("Select job-0").check()
        await page.get_by_role("button", name="Resubmit…").click()
        await expect(page.get_by_role("heading", name="Resubmit 1 job?")).to_be_visible()
    assert [url.endswith("/jobs/resubmit") for url in requests].count(True) == 1


async def test_jobs_of_several_queues_are_submitted_again_each_in_its_queue(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    other = "page-other"
    assert (await api.post("/queues", json={"name": other})).status_code in (201, 409)
    await submit_held(api, "page-here", 2)
    await submit_held(api, "page-here", 1, queue=other)
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "")
        await page.goto(f"{standalone.address}/jobs?jobSet=page-here")
        await page.get_by_label("all that match").check()
        await page.get_by_role("button", name="Resubmit…").click()
        await page.get_by_label("Job set of the new jobs").fill("page-there")
        await page.get_by_role("button", name="Resubmit 3 jobs").click()
        await expect(page.get_by_text("Resubmission of 3 jobs requested.")).to_be_visible()
        await page.goto(f"{standalone.address}/jobs?jobSet=page-there&groupBy=queue")
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_contain_text(re.compile(r"default\s+2"))
        await expect(rows.last).to_contain_text(re.compile(rf"{other}\s+1"))


async def test_only_jobs_that_an_action_changes_are_counted(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    ids = await submit_held(api, "page-ended", 3)
    await api.post("/jobs/cancel", json={"ids": ids[:1]})
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-ended")
        await expect(page.locator("tr", has_text="job-0")).to_contain_text("Cancelled")
        await page.get_by_label("Select all on this page").check()
        await page.get_by_role("button", name="Cancel…").click()
        await expect(page.get_by_role("heading", name="Cancel 2 jobs?")).to_be_visible()
        await expect(page.get_by_text("Of the 3 jobs that are selected")).to_be_visible()
        await page.get_by_role("button", name="Back").click()
        preempt = page.get_by_role("button", name="Preempt…")
        await expect(preempt).to_be_disabled()
        await expect(preempt).to_have_attribute("title", re.compile("none of these jobs runs"))
        await page.get_by_label("all that match").check()
        await preempt.click()
        await expect(page.locator("#result")).to_contain_text("none of these jobs runs")


async def test_a_job_is_cancelled_on_its_page(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    await submit_held(api, "page-one", 1)
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-one")
        await page.get_by_role("link", name="job-0").click()
        await check_width(page)
        await page.get_by_role("button", name="Cancel…").click()
        await page.get_by_role("button", name="Cancel 1 job").click()
        await expect(page.get_by_text("Cancellation of 1 job requested.")).to_be_visible()
        await expect(page.locator("[data-state]")).to_have_text("Cancelled")
        await expect(page.locator("#actions button:visible")).to_have_text(["Resubmit…"])


async def test_a_refused_action_shows_the_reason(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    await submit_held(api, "page-refused", 1)
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-refused")
        await page.get_by_label("Select all on this page").check()
        await page.get_by_role("button", name="Resubmit…").click()
        await page.get_by_role("button", name="Resubmit 1 job").click()
        await expect(page.locator("#result")).to_have_text("jobSet is missing")


async def test_all_jobs_of_a_filter_that_actions_do_not_know_are_cancelled(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    await submit_held(api, "page-named", 60)
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "")
        await expect(page.get_by_label("all that match")).to_be_visible()
        await page.goto(f"{standalone.address}/jobs?q=page-named&state=QUEUED")
        await page.get_by_label("all that match").check()
        await page.get_by_role("button", name="Cancel…").click()
        await page.get_by_role("button", name="Cancel 60 jobs").click()
        await expect(page.get_by_text("Cancellation of 60 jobs requested.")).to_be_visible()
        await expect(page.get_by_text("No job matches.")).to_be_visible()
        await page.goto(f"{standalone.address}/jobs")
        await expect(page.get_by_label("Select all on this page")).to_be_visible()
        await expect(page.get_by_label("all that match")).to_have_count(0)


async def submit_array(api: httpx2.AsyncClient, job_set: str) -> str:
    """An array of a hundred tasks that nothing starts; two are released."""
    job = {
        "command": ["true"],
        "cpu": 1,
        "memory": "16Mi",
        "startAfter": "2099-01-01T00:00:00Z",
        "array": {"count": 100, "maxRunning": 2},
    }
    body = {"queue": "default", "jobSet": job_set, "jobs": [job]}
    answer = await api.post("/jobs", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["jobs"][0]["id"])


async def test_tasks_of_an_array_are_cancelled_by_index_and_listed_by_state(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    array = await submit_array(api, "page-array")
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-array")
        await page.goto(f"{standalone.address}/arrays/{array}")
        await expect(page.get_by_text("98 tasks are not released")).to_be_visible()
        await check_width(page)
        await page.get_by_label("Tasks", exact=True).fill("0-99:2")
        await page.get_by_role("button", name="Cancel…").click()
        await expect(page.get_by_role("heading", name="Cancel 50 tasks?")).to_be_visible()
        await expect(page.get_by_text("Of the tasks 0-99:2, those that")).to_be_visible()
        await check_width(page)
        await page.get_by_role("button", name="Back").click()
        assert (await api.get(f"/arrays/{array}")).json()["states"] == {"QUEUED": 100}
        await page.get_by_role("button", name="Cancel…").click()
        await page.get_by_label("Reason").fill("wrong input")
        await page.get_by_role("button", name="Cancel 50 tasks").click()
        await expect(page.get_by_text("Cancellation of 50 tasks requested.")).to_be_visible()
        await page.get_by_role("link", name="Cancelled").click()
        await expect(page.locator("#task-98")).to_contain_text("wrong input")
        await expect(page.locator("#task-1")).to_have_count(0)
        await page.goto(f"{standalone.address}/arrays/{array}")
        await page.get_by_role("link", name="Next").click()
        await expect(page.locator("#task-99")).to_be_visible()
        await check_width(page)
        await page.get_by_role("link", name="99", exact=True).click()
        await expect(page.get_by_role("link", name="task 99 of 100")).to_be_visible()


async def test_an_array_has_a_priority_and_its_waiting_tasks_have_no_other(
    standalone: StandaloneInstallation, api: httpx2.AsyncClient, browser: Browser
) -> None:
    array = await submit_array(api, "page-array-2")
    async with browser_page(browser) as page:
        await open_jobs(page, standalone, "jobSet=page-array-2")
        await page.goto(f"{standalone.address}/arrays/{array}")
        await page.get_by_label("Tasks", exact=True).fill("5")
        await page.get_by_role("button", name="Reprioritize…").click()
        await expect(page.locator("#result")).to_contain_text("Remove the indexes.")
        await page.get_by_label("Tasks", exact=True).fill("")
        await page.get_by_role("button", name="Reprioritize…").click()
        await page.get_by_label("New priority").fill("7")
        await page.get_by_role("button", name="Reprioritize 100 tasks").click()
        await expect(page.get_by_text("Change of priority of 100 tasks requested.")).to_be_visible()
        await expect(page.get_by_text("7 in class")).to_be_visible()
        await page.goto(f"{standalone.address}/jobs/{task_id(array, 98)}")
        await expect(page.get_by_text("7 in class")).to_be_visible()
        await expect(page.locator("#actions button:visible")).to_have_text(["Cancel…"])
        await page.goto(f"{standalone.address}/arrays/{array}")
        await page.get_by_role("button", name="Cancel…").click()
        await page.get_by_role("button", name="Cancel 100 tasks").click()
        await expect(page.get_by_text("Cancellation of 100 tasks requested.")).to_be_visible()
        await expect(page.get_by_role("row", name="Cancelled 100")).to_be_visible()
        await expect(page.locator("#actions")).to_be_hidden()
