"""Tokens and cordons, in a real browser against all services."""

from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Browser, Page, expect

from fairlead_standalone.service.testing import StandaloneInstallation
from tests.e2e.pages.browser import browser_page
from tests.e2e.pages.test_job_actions import open_jobs
from tests.e2e.pages.test_keyboard import check_themes
from tests.e2e.pages.test_scheduling_pages import look

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def open_page(page: Page, standalone: StandaloneInstallation, path: str) -> None:
    """Sign in and open a page."""
    await open_jobs(page, standalone, "")
    await page.goto(f"{standalone.address}{path}")


async def ask(standalone: StandaloneInstallation, path: str, token: str) -> httpx2.Response:
    """What the API answers to a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        return await client.get(f"{standalone.address}/api/v1{path}")


async def test_a_token_is_created_and_withdrawn(
    standalone: StandaloneInstallation, browser: Browser, tmp_path: Path, axe_script: str
) -> None:
    async with browser_page(browser) as page:
        await open_page(page, standalone, "/tokens")
        await expect(page.locator("#tokens tr").first).to_be_visible()
        await page.get_by_label("Label").fill("page <b>test</b>")
        await page.get_by_role("button", name="Create").click()
        secret = page.get_by_label("Token", exact=True)
        await expect(secret).to_be_visible()
        token = await secret.inner_text()
        assert (await ask(standalone, "/jobs", token)).status_code == 200
        await look(page, tmp_path, "tokens")
        await check_themes(page, axe_script)
        await page.reload()
        row = page.locator("#tokens tr", has_text="page <b>test</b>")
        await expect(row).to_contain_text("viewer")
        await expect(page.get_by_text(token)).to_have_count(0)
        await row.get_by_role("button").click()
        await page.get_by_role("dialog").get_by_role("button", name="Withdraw").click()
        await expect(page.get_by_text("page <b>test</b> was withdrawn.")).to_be_visible()
        await expect(row).to_have_count(0)
        assert (await ask(standalone, "/jobs", token)).status_code == 401


async def test_a_refused_token_says_why(
    standalone: StandaloneInstallation, browser: Browser
) -> None:
    async with browser_page(browser) as page:
        await open_page(page, standalone, "/tokens")
        await page.get_by_label("Viewer").uncheck()
        await page.get_by_role("button", name="Create").click()
        await expect(page.locator("#token-result.wrong")).to_contain_text("roles")


async def test_an_operator_cordons_a_node_and_uncordons_it(
    standalone: StandaloneInstallation, browser: Browser, tmp_path: Path, axe_script: str
) -> None:
    clusters = (await ask(standalone, "/clusters", standalone.token)).json()["clusters"]
    executor = clusters[0]["executor"]
    path = f"/clusters/{executor}/nodes"
    node = (await ask(standalone, path, standalone.token)).json()["nodes"][0]["node"]
    async with browser_page(browser) as page:
        await open_page(page, standalone, f"/clusters/{executor}")
        row = page.locator(f"tr[data-node={node}]")
        await row.get_by_role("button", name="Cordon").click()
        await page.get_by_label("Reason").fill("disk check")
        await look(page, tmp_path, "cordon")
        await check_themes(page, axe_script)
        await page.get_by_role("button", name="Back").click()
        await expect(row).not_to_contain_text("disk check")
        await row.get_by_role("button", name="Cordon").click()
        await page.get_by_role("dialog").get_by_role("button", name=f"Cordon {node}").click()
        await expect(page.get_by_text(f"{node} was cordoned.")).to_be_visible()
        await expect(row).to_contain_text("disk check")
        await row.get_by_role("link", name=node, exact=True).click()
        await expect(page.get_by_role("heading", name="Cordoned")).to_be_visible()
        await page.get_by_role("button", name=f"Uncordon {node}").click()
        await page.get_by_role("dialog").get_by_role("button", name="Uncordon").click()
        await expect(page.get_by_role("heading", name="Cordoned")).to_be_hidden()


async def test_a_viewer_has_no_buttons_to_cordon(
    standalone: StandaloneInstallation, browser: Browser
) -> None:
    headers = {"Authorization": f"Bearer {standalone.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        made = await client.post(
            f"{standalone.address}/api/v1/tokens", json={"roles": ["viewer"], "label": "no cordon"}
        )
        assert made.status_code == 201, made.text
        clusters = (await client.get(f"{standalone.address}/api/v1/clusters")).json()["clusters"]
        async with browser_page(browser) as page:
            await page.set_extra_http_headers({"Authorization": f"Bearer {made.json()['token']}"})
            await page.goto(f"{standalone.address}/clusters/{clusters[0]['executor']}")
            await expect(page.locator("[data-cordon]").first).to_be_hidden()
            await expect(page.locator("#live.operator")).to_have_count(0)
        await client.delete(f"{standalone.address}/api/v1/tokens/{made.json()['id']}")
