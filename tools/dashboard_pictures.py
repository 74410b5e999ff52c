"""Takes the pictures of docs/dashboard.md: pages of a simulated cluster on which three teams work.

    python tools/dashboard_pictures.py [FOLDER]       # default: docs/pictures

Needs a Chromium (tools/chromium.py). It takes a minute, and no two pictures are equal, because jobs
start and end meanwhile: take them again when the pages have changed.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec
from playwright.async_api import Page, ViewportSize, async_playwright

from fairlead import AsyncClient, Filter, Job, Queue
from fairlead_standalone.service.testing import StandaloneInstallation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python tools/...`

from tools import chromium

FOLDER: Final = Path(__file__).parent.parent / "docs" / "pictures"
SIZE: Final[ViewportSize] = {"width": 1180, "height": 720}
KINDS: Final = [
    {"name": "cpu-", "count": 40, "resources": {"cpu": 32, "memory": "128Gi"}},
    {"name": "gpu-", "count": 8, "resources": {"cpu": 64, "memory": "512Gi", "nvidia.com/gpu": 8}},
]
QUEUES: Final = {"research": 2.0, "genomics": 1.0, "reports": 1.0}
SECONDS: Final = "fairlead.dev/simulated-seconds"
FAILURE: Final = "fairlead.dev/simulated-failure"
WORK_S: Final = 40.0
"""How long the teams work before the pictures are taken."""
SETTLE_S: Final = 3.0


def simulated(
    seconds: float, count: int, memory: str, *, cpu: str = "4", failure: str = ""
) -> list[Job]:
    """Equal jobs that run for this time, and then fail if a category of failures is given."""
    annotations = {SECONDS: str(seconds)} | ({FAILURE: failure} if failure else {})
    return [
        Job(
            command=("python", "step.py", str(number)),
            annotations=annotations,
            cpu=cpu,
            memory=memory,
        )
        for number in range(count)
    ]


def build_work() -> dict[tuple[str, str], list[Job]]:
    """The jobs of three teams by queue and job set."""
    return {
        ("reports", "nightly"): [
            *simulated(4, 120, "3Gi"),
            *simulated(6, 4, "3Gi", failure="oom"),
            *simulated(300, 40, "3Gi"),
        ],
        ("research", "resnet-sweep"): [*simulated(12, 90, "8Gi"), *simulated(400, 180, "14Gi")],
        ("research", "tokenize"): [*simulated(5, 200, "3Gi"), *simulated(240, 60, "3Gi")],
        ("research", "resnet-baseline"): simulated(8, 60, "8Gi"),
        ("genomics", "align-cohort-7"): [*simulated(9, 150, "8Gi"), *simulated(500, 600, "8Gi")],
        ("genomics", "variants"): simulated(60, 10, "400Gi", cpu="48"),
    }


async def work(address: str, token: str) -> str:
    """Submit the jobs, and return the page of one that waits after `WORK_S`."""
    async with AsyncClient(address, token=token) as client:
        for name, weight in QUEUES.items():
            await client.create_queue(Queue(name=name, weight=weight))
        for (queue, job_set), jobs in build_work().items():
            named = [
                msgspec.structs.replace(job, client_id=f"{job_set}-{number}")
                for number, job in enumerate(jobs)
            ]
            await client.submit(queue, job_set, named)
        await asyncio.sleep(WORK_S)
        waiting = client.iter_jobs(Filter(queue="genomics", job_set="variants", states=("QUEUED",)))
        return f"/jobs/{(await anext(waiting)).id}"


async def take(page: Page, address: str, file: Path) -> None:
    """One picture of a page as it is first seen."""
    await page.goto(address)
    await asyncio.sleep(SETTLE_S)
    await page.screenshot(path=file)


async def take_all(address: str, token: str, folder: Path) -> None:
    """All pictures."""
    waiting = await work(address, token)
    pages = {
        "job-sets": "/",
        "waiting-job": waiting,
        "cluster": "/clusters/local?resource=memory",
    }
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium.find(), args=["--no-sandbox"]
        )
        page = await browser.new_page(
            viewport=SIZE, extra_http_headers={"authorization": f"Bearer {token}"}
        )
        for name, path in pages.items():
            await take(page, f"{address}{path}", folder / f"dashboard-{name}.png")
        await browser.close()


def main() -> None:
    """Start an installation, let the teams work, take the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    environment = {"FAIRLEAD_SIMULATION": json.dumps({"nodes": KINDS, "startS": 0.5})}
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-pictures-") as data,
        StandaloneInstallation(
            Path(data), "--backend", "simulated", environment=environment
        ) as running,
    ):
        running.start()
        asyncio.run(take_all(running.address, running.token, folder))


if __name__ == "__main__":
    main()
