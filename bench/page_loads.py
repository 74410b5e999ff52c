"""How soon a browser shows the dashboard's pages, with a million jobs in the view.

    python bench/page_loads.py [--jobs 1000000] [--rate 2000] [--loads 30] [--json]
    python bench/page_loads.py --folder FOLDER --only node,label    use the view in FOLDER again

Starts a Postgres, a Valkey and one lookout process of its own, fills the view by COPY, with nodes,
shares, rounds, preemptions and usage, and lets a process of its own append whole lives of jobs at
the rate given. A Chromium opens each page, and each filter of the page of jobs, `--loads` times
each. `firstPaintMs` is from the start of the navigation to the first contentful paint; `pageMs` to
the later of that and the end of the document, when all rows are there. Filters are opened in two
ways: as a page (`filters`), and by a click on a link of the page of jobs, which exchanges its list
(`clicks`): `listMs` is from the click until the frame after the one that shows the new list begins.
Static files are cached, as after the first page of a user; `cold` are pages of `/jobs` without a
cache. All of it, the browser included, shares two cores. The last line of output is one JSON
object.
"""

import argparse
import asyncio
import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from playwright.async_api import Browser, Page, async_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/page_loads.py`

from bench import arguments, lookout
from fairlead_common.db import open_pool
from fairlead_common.domain import timestamps
from fairlead_common.domain.records import clusters, configuration, scheduling_reports
from fairlead_common.log import EventLog, Record, topics
from fairlead_common.log.opening import open_log
from fairlead_common.log.protocol import Producer
from fairlead_common.service import clock
from fairlead_lookout.domain.resource_usage import HOUR_MS, start_of_hour
from fairlead_lookout.store.view_schema import SCHEMA
from fairlead_standalone.servers.addresses import free_port

PAGE_GOAL_MS: Final = 300
FILTER_GOAL_MS: Final = 150
SETTLE_S: Final = 5.0
PAUSE_S_MAX: Final = 0.2
ROUNDS: Final = 200
USAGE_HOURS: Final = 720
PREEMPTIONS: Final = 100_000
TIMES: Final = """() => new Promise((resolve) => {
    new PerformanceObserver((paints) => {
        const paint = paints.getEntriesByName("first-contentful-paint")[0];
        if (paint) {
            const page = performance.getEntriesByType("navigation")[0];
            resolve([paint.startTime, Math.max(paint.startTime, page.domContentLoadedEventStart)]);
        }
    }).observe({ type: "paint", buffered: true });
})"""

SCRIPTS: Final = """() => new Promise((resolve) => {
    const look = () => (window.htmx ? resolve() : requestAnimationFrame(look));
    look();
})"""
CLICK: Final = """(path) => new Promise((resolve) => {
    const link = document.querySelector("h1").appendChild(document.createElement("a"));
    link.href = path;
    let began = 0;
    document.addEventListener("fairlead:exchange", () => requestAnimationFrame(() =>
        requestAnimationFrame(() => resolve(performance.now() - began))), { once: true });
    requestAnimationFrame(() => setTimeout(() => {
        began = performance.now();
        link.click();
    }));
})"""


def main() -> None:
    """Read the arguments, start everything, measure."""
    parser = arguments.make_parser(__doc__, jobs=1_000_000)
    parser.add_argument("--loads", type=int, default=30, help="of each page")
    parser.add_argument("--folder", type=Path, help="leave the view there and use it next time")
    parser.add_argument("--only", help="these pages and filters, separated by commas")
    parser.add_argument("--browser", default=shutil.which("chromium"), help="a Chromium")
    given = parser.parse_args()
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: lookout.CORES])
    with lookout.servers("page-loads", given.folder) as (folder, database, redis):
        found = asyncio.run(run(given, database, redis, folder))
    arguments.print_found(given, found)


async def run(given: argparse.Namespace, database: str, redis: str, folder: Path) -> dict[str, Any]:
    """Fill the view, open the pages."""
    seeded, log = await open_view(given, database)
    only = given.only and set(given.only.split(","))
    address = f"http://127.0.0.1:{free_port()}"
    async with (
        lookout.serving(address, database, redis, folder) as client,
        lookout.writing(database, given.rate),
        async_playwright() as playwright,
    ):
        await asyncio.sleep(SETTLE_S)
        browser = await playwright.chromium.launch(
            executable_path=given.browser, args=["--no-sandbox"]
        )
        began_s, before = time.perf_counter(), lookout.cpu_s()
        pages = {
            name: await measure(browser, address, name, paths, given.loads)
            for name, paths in page_paths(seeded).items()
            if not only or name in only
        }
        filters = {
            name: await measure(browser, address, name, paths, given.loads)
            for name, paths in filter_paths().items()
            if not only or name in only
        }
        clicks = {
            name: await measure_clicks(browser, address, name, paths, given.loads)
            for name, paths in filter_paths().items()
            if not only or name in only
        }
        cold = {}
        if not only or "cold" in only:
            cold = await measure(browser, address, "cold", ["/jobs"], given.loads, is_cached=False)
        passed_s, after = time.perf_counter() - began_s, lookout.cpu_s()
        lag_s = await lookout.lag_of(client, log)
        await browser.close()
    await log.close()
    return {
        "jobs": given.jobs,
        "eventsPerSecond": given.rate,
        "cores": {name: round((after[name] - before[name]) / passed_s, 2) for name in after},
        "load": [round(each, 1) for each in os.getloadavg()],
        "lagS": lag_s,
        "pageGoalMs": PAGE_GOAL_MS,
        "pages": pages,
        "cold": cold,
        "filterGoalMs": FILTER_GOAL_MS,
        "filters": filters,
        "clicks": clicks,
    }


async def open_view(given: argparse.Namespace, database: str) -> tuple[lookout.Seeded, EventLog]:
    """The view and the log, filled unless the folder has them from the last time."""
    ids = given.folder and given.folder / "jobs.json"
    if ids and ids.exists():
        return msgspec.json.decode(ids.read_bytes(), type=lookout.Seeded), await open_log(database)
    seeded, log = await lookout.fill_view(database, given.jobs)
    await fill_history(database)
    for topic in (topics.config(), topics.clusters(), topics.reports()):
        await log.create(topic)
    await append_reports(await log.producer("reports"))
    if ids:
        ids.write_bytes(msgspec.json.encode(seeded))
    return seeded, log


def page_paths(seeded: lookout.Seeded) -> dict[str, list[str]]:
    """Addresses by page; the first of each is opened once before it is measured."""
    queues = [f"queue-{number}" for number in range(lookout.QUEUES)]
    sets = [f"/jobsets/queue-{n % lookout.QUEUES}/set-{n}" for n in range(lookout.SETS)]
    return {
        "jobs": ["/jobs"],
        "job sets": ["/"],
        "job set": sets,
        "job": [f"/jobs/{job_id}" for job_id in seeded.ids],
        "queues": ["/queues"],
        "queue": [f"/queues/{queue}" for queue in queues],
        "clusters": ["/clusters"],
        "nodes": ["/clusters/cluster-a"],
        "node": [f"/clusters/cluster-a/nodes/n{number}" for number in range(lookout.NODES)],
        "pools": ["/pools"],
        "pool": ["/pools/default"],
        "preemptions": ["/preemptions"],
        "fairness": ["/fairness?pool=default"],
        "fairness of 30 days": ["/fairness?pool=default&period=30d"],
        "about": ["/about"],
    }


def filter_paths() -> dict[str, list[str]]:
    """Addresses of the page of jobs by filter."""
    queues = [f"queue-{number}" for number in range(lookout.QUEUES)]
    return {
        "queue": [f"/jobs?queue={queue}" for queue in queues],
        "state": ["/jobs?state=FAILED", "/jobs?state=RUNNING", "/jobs?state=QUEUED"],
        "rare state": ["/jobs?state=PREEMPTED"],
        "absent state": ["/jobs?state=REJECTED"],
        "queue and state": [f"/jobs?queue={queue}&state=SUCCEEDED" for queue in queues],
        "category": ["/jobs?category=oom"],
        "job set": [
            f"/jobs?queue=queue-{n % lookout.QUEUES}&jobSet=set-{n}" for n in range(lookout.SETS)
        ],
        "class": ["/jobs?class=default"],
        "cluster": ["/jobs?cluster=cluster-a"],
        "node": [f"/jobs?node=n{number}" for number in range(20)],
        "label": [f"/jobs?label.team=t{number}" for number in range(lookout.TEAMS)],
        "label of no job": ["/jobs?label.team=nobody"],
        "text": [f"/jobs?q=trial-{number}" for number in range(1000, 1050)],
        "text of no job": ["/jobs?q=nothing-has-this"],
        "last hour": [f"/jobs?submittedAfter={timestamps.rfc3339(clock.now_ms() - HOUR_MS)}"],
        "group by queue": ["/jobs?groupBy=queue"],
        "group by state": ["/jobs?groupBy=state"],
        "group by node": ["/jobs?groupBy=node"],
        "group by label": ["/jobs?groupBy=label.team"],
    }


async def measure(
    browser: Browser,
    address: str,
    name: str,
    paths: list[str],
    loads: int,
    *,
    is_cached: bool = True,
) -> dict[str, Any]:
    """Percentiles of loads one after the other, with pauses."""
    lookout.log_progress(f"opening {name}")
    pauses = random.Random(3)
    paints_ms, pages_ms = [], []
    page = await browser.new_page()
    if is_cached:
        await load(page, address + paths[0])
    for number in range(loads):
        if not is_cached:
            await page.close()
            page = await browser.new_page()
        first, whole = await load(page, address + paths[number % len(paths)])
        paints_ms.append(first)
        pages_ms.append(whole)
        await asyncio.sleep(pauses.uniform(0, PAUSE_S_MAX))
    await page.close()
    return {"firstPaintMs": lookout.percentiles(paints_ms), "pageMs": lookout.percentiles(pages_ms)}


async def measure_clicks(
    browser: Browser, address: str, name: str, paths: list[str], loads: int
) -> dict[str, Any]:
    """Percentiles of exchanges of the list, one after the other, with pauses."""
    lookout.log_progress(f"clicking {name}")
    pauses = random.Random(3)
    page = await browser.new_page()
    await load(page, f"{address}/jobs")
    await page.evaluate(SCRIPTS)
    lists_ms = []
    for number in range(loads):
        path = paths[number % len(paths)]
        lists_ms.append(await page.evaluate(CLICK, path))
        assert page.url == address + path, f"{page.url} is not {path}"
        await asyncio.sleep(pauses.uniform(0, PAUSE_S_MAX))
    await page.close()
    return {"listMs": lookout.percentiles(lists_ms)}


async def load(page: Page, address: str) -> tuple[float, float]:
    """Open an address: ms until the first contentful paint, and until all rows are there."""
    answer = await page.goto(address, wait_until="domcontentloaded")
    assert answer is not None
    assert answer.status == 200, f"{address}: {answer.status}"
    first, whole = await page.evaluate(TIMES)
    return first, whole


async def append_reports(producer: Producer) -> None:
    """Queues, a cluster with its nodes, shares and rounds."""
    now_ms = clock.now_ms()
    queues = [f"queue-{number}" for number in range(lookout.QUEUES)]
    records: list[Record] = [
        configuration.record(configuration.Queue(name=queue, version=1)) for queue in queues
    ]
    records.append(clusters.heartbeat_record(clusters.Heartbeat(executor="cluster-a")))
    amounts = {"cpu": 32_000, "memory": 256 << 30}
    records += [
        clusters.node_record(
            clusters.Node(executor="cluster-a", name=f"n{number}", allocatable=amounts)
        )
        for number in range(lookout.NODES)
    ]
    records += [
        scheduling_reports.record(
            scheduling_reports.QueueShare(
                pool="default", queue=queue, weight=1.0, weight_share=1 / lookout.QUEUES,
                fair_share=1 / lookout.QUEUES, actual_share=0.04, demand_share=0.2, queued=3_000,
                running=500,
            )
        )
        for queue in queues
    ]  # fmt: skip
    records += [
        scheduling_reports.record(
            scheduling_reports.RoundReport(
                pool="default", at_ms=now_ms - 1_000 * number, steps_ms={"pass": 3.0},
                scheduled=20, waiting=60_000, nodes=lookout.NODES,
            )
        )
        for number in range(ROUNDS, 0, -1)
    ]  # fmt: skip
    for first in range(0, len(records), 500):
        await producer.append(records[first : first + 500])


async def fill_history(database: str) -> None:
    """Usage by hour and user, shares by hour, and preemptions of the last 30 days."""
    lookout.log_progress("filling usage, shares and preemptions")
    pool = await open_pool(database)
    first_ms = start_of_hour(clock.now_ms()) - USAGE_HOURS * HOUR_MS
    await pool.execute(
        f"INSERT INTO {SCHEMA}.usage (queue, pool, hour_ms, resource, used, lost)"
        " SELECT 'queue-' || q, 'default', $1::bigint + h * 3600000::bigint, r, 5e10, 0"
        " FROM generate_series(0, $2 - 1) q, generate_series(0, $3 - 1) h,"
        " unnest(ARRAY['cpu', 'memory']) r",
        first_ms, lookout.QUEUES, USAGE_HOURS,
    )  # fmt: skip
    await pool.execute(
        f"INSERT INTO {SCHEMA}.user_usage (queue, hour_ms, submitted_by, resource, used, lost)"
        " SELECT 'queue-' || q, $1::bigint + h * 3600000::bigint, 'user-' || u, r, 1e9, 0"
        " FROM generate_series(0, $2 - 1) q, generate_series(0, $3 - 1) h,"
        " generate_series(0, $4 - 1) u, unnest(ARRAY['cpu', 'memory']) r",
        first_ms, lookout.QUEUES, USAGE_HOURS, lookout.USERS,
        timeout=600,
    )  # fmt: skip
    await pool.execute(
        f"INSERT INTO {SCHEMA}.standing (pool, queue, width_ms, start_ms, ms, actual_share,"
        " fair_share, demand_share, queued, running)"
        " SELECT 'default', 'queue-' || q, 3600000, $1::bigint + h * 3600000::bigint, 3600000,"
        " 3.6e6 * (0.02 + 0.06 * random()), 3.6e6 * (0.045 + 0.01 * random()),"
        " 3.6e6 * (0.1 + 0.4 * random()), 3.6e6 * floor(3000 * random()),"
        " 3.6e6 * floor(500 * random())"
        " FROM generate_series(0, $2 - 1) q, generate_series(0, $3 - 1) h",
        first_ms, lookout.QUEUES, USAGE_HOURS,
    )  # fmt: skip
    await pool.execute(
        f"INSERT INTO {SCHEMA}.preemptions (time_ms, job_id, run, queue, cause, reason)"
        " SELECT changed_ms, id, 1, queue, 'fair-share', 'for a queue below its fair share'"
        f" FROM {SCHEMA}.jobs WHERE run = 1 LIMIT $1 ON CONFLICT DO NOTHING",
        PREEMPTIONS,
    )
    for table in ("usage", "user_usage", "standing", "preemptions"):
        await pool.execute(f"VACUUM ANALYZE {SCHEMA}.{table}", timeout=600)
    await pool.close()


if __name__ == "__main__":
    main()
