"""Tokens and cordons, in a real browser against all services."""

from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, Page, Route, expect

from fairlead_standalone.service.testing import StandaloneInstallation
from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.reported_state import fill
from tests.e2e.pages.test_job_actions import open_jobs
from tests.e2e.pages.test_keyboard import check_themes
from tests.e2e.pages.test_scheduling_pages import check_width
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import succeeded

pytestmark = pytest.mark.asyncio(loop_scope="session")

HEAD = ("header.top .name", "#live-mark", "header.top .who", "header.top .sign-out button")


async def open_page(page: Page, standalone: StandaloneInstallation, path: str) -> None:
    """Sign in and open a page."""
    await open_jobs(page, standalone, "")
    await page.goto(f"{standalone.address}{path}")


async def ask(standalone: StandaloneInstallation, path: str, token: str) -> httpx2.Response:
    """What the API answers to a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        return await client.get(f"{standalone.address}/api/v1{path}")


async def test_a_token_is_created_and_revoked(
    standalone: StandaloneInstallation, browser: Browser, axe_script: str
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
        await check_width(page)
        await check_themes(page, axe_script)
        await page.reload()
        row = page.locator("#tokens tr", has_text="page <b>test</b>")
        await expect(row).to_contain_text("viewer")
        created = row.locator("time").first
        day = (await created.get_attribute("datetime") or "")[:10]
        await expect(created).to_have_text(day)
        await expect(page.get_by_text(token)).to_have_count(0)
        await row.get_by_role("button").click()
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await expect(page.get_by_text("page <b>test</b> was revoked.")).to_be_visible()
        await expect(row).to_have_count(0)
        assert (await ask(standalone, "/jobs", token)).status_code == 401


@pytest.mark.parametrize("name", ["admin", "a.very.long.name@example.com"])
async def test_the_name_the_live_mark_and_the_user_are_in_one_line_on_a_phone(
    standalone: StandaloneInstallation, browser: Browser, name: str
) -> None:
    async with browser_page(browser) as page:
        await open_page(page, standalone, "/clusters")
        await expect(page.locator("#live-mark")).to_have_text("Live")
        await page.set_viewport_size({"width": 390, "height": 844})
        user = page.locator("header.top .who")
        await user.evaluate("(user, name) => { user.textContent = name; }", name)
        boxes = [await page.locator(each).bounding_box() for each in HEAD]
        assert all(box is not None and box["y"] < 40 for box in boxes), boxes
        assert await page.evaluate("document.documentElement.scrollWidth") == 390


async def test_a_double_click_creates_one_token(
    standalone: StandaloneInstallation, browser: Browser
) -> None:
    async with browser_page(browser) as page:
        await open_page(page, standalone, "/tokens")
        await expect(page.locator("#tokens tr").first).to_be_visible()
        await page.get_by_label("Label").fill("page double")
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.method))
        await page.get_by_role("button", name="Create").dblclick()
        await expect(page.locator("#tokens tr", has_text="page double")).to_have_count(1)
    assert requests.count("POST") == 1


async def test_a_refused_token_says_why(
    standalone: StandaloneInstallation, browser: Browser
) -> None:
    async with browser_page(browser) as page:
        await open_page(page, standalone, "/tokens")
        await page.get_by_label("Viewer").uncheck()
        await page.get_by_role("button", name="Create").click()
        await expect(page.locator("#token-result.wrong")).to_contain_text("roles")


async def test_an_operator_cordons_a_node_and_uncordons_it(
    standalone: StandaloneInstallation, browser: Browser, axe_script: str
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
        await check_width(page)
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


async def test_an_operator_cordons_a_cluster_and_uncordons_it(
    standalone: StandaloneInstallation, browser: Browser
) -> None:
    clusters = (await ask(standalone, "/clusters", standalone.token)).json()["clusters"]
    executor = clusters[0]["executor"]
    async with browser_page(browser) as page:
        await open_page(page, standalone, f"/clusters/{executor}")
        await page.get_by_role("button", name="Cordon cluster…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("No new runs are started on this cluster.")
        await dialog.get_by_label("Reason").fill("new switch")
        await dialog.get_by_role("button", name="Cordon cluster").click()
        await expect(page.get_by_text(f"cluster {executor} was cordoned.")).to_be_visible()
        await expect(page.get_by_label("Cordoned")).to_contain_text("new switch")
        await page.get_by_role("button", name="Uncordon cluster…").click()
        await dialog.get_by_role("button", name="Uncordon cluster").click()
        await expect(page.get_by_label("Cordoned")).to_have_count(0)


async def test_a_change_that_fails_says_what_to_do(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    """Against lookout alone: the requests fail here, in each of the ways that a user meets."""
    refusal = {"detail": "It has errors.", "errors": [{"pointer": "/reason", "detail": "is long"}]}
    problem = {"detail": "Send `Authorization: Bearer <token>`."}
    expected: dict[str, tuple[str, dict[str, Any]]] = {
        "refused": ("reason is long", {"status": 422, "json": refusal}),
        "signed out": ("Your session has ended.", {"status": 401, "json": problem}),
        "a proxy": ("status 502", {"status": 502, "body": "<h1>Bad gateway</h1>"}),
        "no server": ("Look whether the change was made", {}),
    }

    async def fail(route: Route) -> None:
        _, response = expected[(route.request.post_data_json or {})["reason"]]
        await (route.fulfill(**response) if response else route.abort())

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.route("**/api/v1/executors/**", fail)
        for reason, (text, _) in expected.items():
            await page.goto(address(harness, "/clusters/e"))
            await page.get_by_role("button", name="Cordon cluster…").click()
            await page.get_by_label("Reason").fill(reason)
            await page.get_by_role("dialog").get_by_role("button", name="Cordon cluster").click()
            await expect(page.locator("#cordon-result.wrong")).to_contain_text(text)


async def test_a_secret_is_selected_where_it_cannot_be_copied(
    standalone: StandaloneInstallation, browser: Browser
) -> None:
    async with browser_page(browser) as page:
        # As at a plain http:// address of another machine, where browsers have no clipboard.
        await page.add_init_script("delete Navigator.prototype.clipboard")
        await open_page(page, standalone, "/tokens")
        await page.get_by_label("Label").fill("page copy")
        await page.get_by_role("button", name="Create").click()
        secret = page.get_by_label("Token", exact=True)
        await expect(secret).to_be_visible()
        await page.get_by_role("button", name="Copy", exact=True).first.click()
        await expect(page.get_by_role("button", name="Press Ctrl-C")).to_be_visible()
        assert await page.evaluate("String(getSelection())") == await secret.inner_text()


async def test_selected_nodes_are_cordoned_together(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    """Against lookout alone: the requests are answered here, one of them with a refusal."""
    sent: list[tuple[str, object]] = []

    async def answer(route: Route) -> None:
        path = route.request.url.partition("/api/v1/executors/e/nodes/")[2]
        sent.append((path, route.request.post_data_json))
        if path == "n2":
            await route.fulfill(status=409, json={"detail": "It has been removed."})
        else:
            await route.fulfill(json={"cordoned": True})

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.route("**/api/v1/executors/**", answer)
        await page.goto(address(harness, "/clusters/e"))
        selected = page.get_by_role("button", name="Cordon selected…", exact=True)
        await expect(selected).to_be_disabled()
        for node in ("n0", "n1", "n2"):
            await page.get_by_label(f"Select {node}", exact=True).check()
        await expect(page.get_by_text("3 nodes selected")).to_be_visible()
        await check_width(page)
        await harness.append_events(*succeeded("a"))  # the list is live: the selection stays
        await expect(page.locator("tr[data-node=n0] td.num")).to_have_text("0")
        await expect(page.get_by_text("3 nodes selected")).to_be_visible()
        await selected.click()
        await page.get_by_label("Reason").fill("rack 7")
        await check_themes(page, axe_script)
        await page.get_by_role("dialog").get_by_role("button", name="Cordon 3 nodes").click()
        await expect(page.locator("#cordon-result.wrong")).to_have_text(
            "2 of 3 nodes were cordoned. n2: It has been removed."
        )
        body = {"cordoned": True, "reason": "rack 7"}
        assert sent == [("n0", body), ("n1", body), ("n2", body)]
        await page.get_by_label("3 nodes selected").check()
        await page.get_by_label("50 nodes selected").uncheck()
        await expect(selected).to_be_disabled()


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
            await expect(page.locator("[data-node]").first).to_be_visible()
            for buttons in ("[data-cordon]", "#node-actions", "[data-pick-node]"):
                await expect(page.locator(buttons).first).to_be_hidden()
            await expect(page.locator("#live.operator")).to_have_count(0)
        await client.delete(f"{standalone.address}/api/v1/tokens/{made.json()['id']}")
