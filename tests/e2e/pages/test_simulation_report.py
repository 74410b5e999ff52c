"""The report of a simulation in a real browser: one file, both themes, nobody's scripts."""

from pathlib import Path

import pytest
from playwright.async_api import Browser

from fairlead_scheduler.simulate import simulation
from tests.e2e.pages.browser import EVIL
from tests.unit.simulate.simulations import ignore_progress, job, write


def report(folder: Path) -> Path:
    """A report of a simulation in which everything happens, with names that would be code."""
    jobs = [job(f"a{n}", queue=EVIL, runSeconds=100) for n in range(4)]
    jobs += [job(f"b{n}", queue="b", submitSeconds=30 + n) for n in range(9)]
    jobs += [job(EVIL, cpu=64), job("stuck", gang={"name": EVIL, "size": 2})]
    jobs += [job(f"q{n}", queue=f"queue {n}", submitSeconds=n) for n in range(9)]
    options = write(folder, jobs)
    simulation.run_simulation(
        options, simulation.read_input(options), folder / "out", ignore_progress
    )
    return folder / "out" / "report.html"


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_report_stands_alone_and_shows_everything(
    tmp_path: Path, browser: Browser, theme: str
) -> None:
    file = report(tmp_path)
    page = await browser.new_page(color_scheme="dark" if theme == "dark" else "light")
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    await page.goto(file.as_uri())
    assert await page.title() == "Simulation of jobs.jsonl"
    headings = await page.locator("h2").all_inner_texts()
    assert headings == [
        "Shares of the queues",
        "Utilisation",
        "Jobs waiting and running",
        "Nodes",
        "How long jobs waited",
        "Waits by job size",
        "Preemptions",
        "By queue",
        "What jobs waited for",
        "Jobs refused or left waiting",
    ]
    assert await page.locator("svg").count() == 6
    assert await page.locator("td").filter(has_text=EVIL).count() > 0
    ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(14, 18, 23)" if theme == "dark" else "rgb(246, 247, 249)")
    wide = await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.set_viewport_size({"width": 390, "height": 800})
    narrow = await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.close()
    assert asked == [file.as_uri()]
    assert said == []
    assert (wide, narrow) == (True, True)
