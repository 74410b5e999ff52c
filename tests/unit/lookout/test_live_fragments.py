"""Live fragments: one rendering for all who follow the same, and many of one delay no other."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead_common.domain import ids
from fairlead_common.domain.problems import Problem
from fairlead_common.web.fair_semaphore import CALLER, FairSemaphore
from fairlead_lookout.domain.model import JobSetKey
from fairlead_lookout.http.pages.live_fragments import LiveFragments, SharedFragment
from fairlead_lookout.store.view_progress import ViewProgress

WAIT_S = 60.0


class Renders:
    """Counts renderings by name; each says how many there were."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.order: list[str] = []

    def shared(self, name: str, job_set: JobSetKey | None = None) -> SharedFragment:
        async def render() -> bytes:
            self.counts[name] += 1
            self.order.append(name)
            return f"{name} {self.counts[name]}".encode()

        return SharedFragment(name, render, job_set)


@asynccontextmanager
async def fragments() -> AsyncIterator[tuple[LiveFragments, ViewProgress]]:
    progress = ViewProgress(None)
    live = LiveFragments(progress, FairSemaphore("live fragments", 1, 1, 1_000))
    async with asyncio.timeout(WAIT_S):
        yield live, progress
    await live.close()


async def test_tabs_that_show_the_same_share_one_rendering() -> None:
    renders = Renders()
    async with fragments() as (live, progress):
        tabs = [live.follow(renders.shared("overview")) for _ in range(100)]
        first = [await anext(tab) for tab in tabs]
        assert set(first) == {b"overview 1"}
        progress.advance({1: 1})
        assert {await anext(tab) for tab in tabs} == {b"overview 2"}
        assert renders.counts["overview"] == 2
        for tab in tabs:
            await tab.aclose()


async def test_a_changed_cordon_is_on_pages_at_once() -> None:
    renders = Renders()
    async with fragments() as (live, progress):
        cluster = live.follow(renders.shared("cluster"))
        assert await anext(cluster) == b"cluster 1"
        progress.notice_configuration()
        assert await anext(cluster) == b"cluster 2"
        await cluster.aclose()


async def test_a_fragment_of_one_job_set_waits_for_a_change_of_that() -> None:
    renders = Renders()
    async with fragments() as (live, progress):
        sets = [("q", f"set {n}") for n in (1, 2)]
        one, two = (live.follow(renders.shared(name, (queue, name))) for queue, name in sets)
        await asyncio.gather(anext(one), anext(two))
        moved = {ids.job_set_partition(*each): 5 for each in sets}
        progress.advance(moved, {sets[0]})
        assert await anext(one) == b"set 1 2"
        assert renders.counts["set 2"] == 1
        await one.aclose()
        await two.aclose()


async def test_a_page_that_was_left_is_not_rendered_again() -> None:
    renders = Renders()
    async with fragments() as (live, progress):
        await live.wait_until_rendered(renders.shared("left"))
        left = live.follow(renders.shared("left"))
        await anext(left)
        await left.aclose()
        other = live.follow(renders.shared("other"))
        for position in (1, 2, 3):
            await anext(other)
            progress.advance({1: position})
        assert renders.counts["left"] == 1
        assert len(live) == 1
        await other.aclose()


async def test_an_error_of_the_rendering_reaches_all_followers() -> None:
    async def render() -> bytes:
        raise Problem("not-found", "There is no such job set.")

    async with fragments() as (live, _):
        asked = [live.wait_until_rendered(SharedFragment("never", render)) for _ in range(3)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in answers] == [Problem] * 3
        assert len(live) == 0


async def test_a_fragment_stays_as_it_was_while_the_database_is_away() -> None:
    answers: list[bytes | Problem] = [b"one", Problem("unavailable", "away"), b"two"]
    failed = asyncio.Event()

    async def render() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Problem):
            failed.set()
            raise answer
        return answer

    async with fragments() as (live, progress):
        tab = live.follow(SharedFragment("page", render))
        assert await anext(tab) == b"one"
        progress.advance({1: 1})
        await failed.wait()
        progress.advance({1: 2})
        assert await anext(tab) == b"two"
        await tab.aclose()


async def test_a_stream_ends_when_what_it_shows_was_deleted() -> None:
    answers: list[bytes | Problem] = [b"one", Problem("not-found", "It does not exist.")]

    async def render() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Problem):
            raise answer
        return answer

    async with fragments() as (live, progress):
        tab = live.follow(SharedFragment("page", render))
        assert await anext(tab) == b"one"
        progress.advance({1: 1})
        assert [text async for text in tab] == []
        assert len(live) == 0


async def test_many_fragments_of_one_caller_do_not_delay_that_of_another() -> None:
    renders = Renders()

    async def open_tab(caller: str, name: str) -> None:
        CALLER.set(caller)
        await live.wait_until_rendered(renders.shared(name))

    async with fragments() as (live, _):
        tabs = [asyncio.create_task(open_tab("greedy", f"g{n}")) for n in range(50)]
        await asyncio.sleep(0)
        tabs.append(asyncio.create_task(open_tab("patient", "p")))
        await asyncio.gather(*tabs)
        assert renders.order.index("p") <= 2


async def test_an_internal_error_ends_the_stream() -> None:
    async def render() -> bytes:
        raise ValueError("a template is wrong")

    async with fragments() as (live, _):
        with pytest.raises(ValueError, match="template is wrong"):
            await live.wait_until_rendered(SharedFragment("broken", render))
