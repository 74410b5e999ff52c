"""The page of fairness: which queues it shows, in what order, and what it says of the others."""

import html
import re
from typing import Final

import httpx2

from fairlead_common.domain.records import scheduling_reports
from fairlead_lookout.http.pages.scheduling.fairness_pages import QUEUES_PER_PAGE
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_reports import share
from tests.unit.lookout.builders import leased, submitted
from tests.waiting import until_read

QUEUES: Final = QUEUES_PER_PAGE + 3
FAIR: Final = 0.5


def distance(number: int) -> float:
    """How far queue `number` is from its fair share: odd ones are below it."""
    return 0.02 * (-number if number % 2 else number)


async def fill(harness: LookoutHarness) -> None:
    """The shares of all queues in two pools, and a run in one of them."""
    shares = [
        scheduling_reports.QueueShare(
            pool=pool, queue=f"q{number}", weight=1.0, weight_share=FAIR, fair_share=FAIR,
            actual_share=FAIR + distance(number), demand_share=1.0, queued=number, running=0,
        )
        for number in range(QUEUES)
        for pool in ("default", "gpu")
    ]  # fmt: skip
    await harness.append([share("other", 0.1), *map(scheduling_reports.record, shares)])
    await harness.read(
        "/jobsets", await harness.append_events(submitted("a"), leased("a"), queue="q3")
    )

    async def read_listed() -> list[str]:
        return list_queues(await harness.client.get("/fairness?period=1h&pool=default&q=q"))

    await until_read(read_listed, lambda listed: len(listed) == QUEUES_PER_PAGE)


def list_queues(answer: httpx2.Response) -> list[str]:
    """The queues of the table."""
    return re.findall(r'<tr data-queue="(\w+)"', answer.text)


async def test_queues_farthest_from_their_fair_share_are_first_and_the_others_follow(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await fill(harness)
        address = "/fairness?period=1h&pool=default&q=q"
        first = await harness.client.get(address)
        assert list_queues(first) == [f"q{number}" for number in range(QUEUES - 1, 2, -1)]
        assert first.text.count('<figure class="chart">') == QUEUES_PER_PAGE
        assert f"Queues 1 to {QUEUES_PER_PAGE} of {QUEUES}" in first.text
        (following,) = re.findall(r'href="([^"]+)">Next queues', first.text)
        second = await harness.client.get(following.replace("&amp;", "&"))
        assert list_queues(second) == ["q2", "q1", "q0"]
        assert f"Queues {QUEUES_PER_PAGE + 1} to {QUEUES} of {QUEUES}" in second.text
        assert "Next queues" not in second.text
        (before,) = re.findall(r'href="([^"]+)">Previous queues', second.text)
        assert list_queues(await harness.client.get(before.replace("&amp;", "&"))) == list_queues(
            first
        )
        below = list_queues(await harness.client.get(f"{address}&sort=difference"))
        assert below[:3] == [f"q{number}" for number in range(QUEUES - 1, 0, -1) if number % 2][:3]
        used = list_queues(await harness.client.get(f"{address}&sort=-used&offset=0"))
        assert used[0] == "q3"
        beyond = await harness.client.get(f"{address}&offset=900")
        assert list_queues(beyond) == []
        assert "Show all queues" in beyond.text
        assert (await harness.client.get(f"{address}&offset=-1")).status_code == 422
        one = await harness.client.get("/fairness?pool=default&period=1h&q=other")
        assert list_queues(one) == ["other"]
        assert "Queue 1 of 1" in one.text


async def test_a_pool_or_a_period_that_does_not_exist_is_refused(
    fresh_database: str, valkey_url: str
) -> None:
    """The page of another pool would be taken for that of this one."""
    async with running(fresh_database, valkey_url) as harness:
        await fill(harness)
        for query, status, text in (
            ("pool=nothing", 404, "Pool 'nothing' does not exist"),
            ("period=9d", 422, "'9d' is not a period. Use 1h, 6h, 24h, 7d, 30d."),
        ):
            for path in ("/fairness", "/export/fairness"):
                answer = await harness.client.get(f"{path}?{query}")
                assert answer.status_code == status
                assert text in html.unescape(answer.text)
