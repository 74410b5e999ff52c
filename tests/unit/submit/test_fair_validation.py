"""Large requests do not block the event loop, and callers take turns."""

import asyncio
import threading
from collections.abc import Iterator

import msgspec
import pytest

from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests.decoding import Decoder
from fairlead_common.web.fair_semaphore import CALLER
from fairlead_submit.domain.request_types import Submission
from fairlead_submit.service.fair_validation import (
    INLINE_BYTES_MAX,
    LARGE_BYTES,
    LARGE_JOBS,
    FairValidation,
)

WAIT_S = 60.0


async def test_the_event_loop_continues_during_a_large_validation() -> None:
    validator, began, is_answered = FairValidation(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def check() -> bool:
        loop.call_soon_threadsafe(began.set)
        return is_answered.wait(WAIT_S)

    checking = asyncio.create_task(validator.run(check))
    await began.wait()
    is_answered.set()  # only a loop that is free comes here
    assert await checking
    validator.close()


async def test_validations_of_two_callers_alternate() -> None:
    validator, release = FairValidation(), threading.Event()
    order: list[str] = []

    async def send(caller: str) -> None:
        CALLER.set(caller)

        def check() -> None:
            release.wait(WAIT_S)
            order.append(caller)

        await validator.run(check)

    sent = [asyncio.create_task(send("greedy")) for _ in range(4)]
    await asyncio.sleep(0)
    sent.append(asyncio.create_task(send("patient")))
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*sent)
    assert order.index("patient") == 1
    validator.close()


async def test_the_event_loop_continues_between_the_slices_of_long_work() -> None:
    validator, is_answered = FairValidation(), asyncio.Event()
    asyncio.get_running_loop().call_soon(is_answered.set)

    def steps() -> Iterator[None]:
        while not is_answered.is_set():  # only a loop that is free sets it
            yield

    await validator.run_steps(steps(), 1)
    validator.close()


async def test_work_on_many_jobs_waits_for_its_turn_and_other_work_does_not() -> None:
    validator, order = FairValidation(), list[str]()
    began, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def check() -> None:
        loop.call_soon_threadsafe(began.set)
        release.wait(WAIT_S)
        order.append("large work before it")

    def steps(name: str) -> Iterator[None]:
        order.append(name)
        yield

    checking = asyncio.create_task(validator.run(check))
    await began.wait()
    large = asyncio.create_task(validator.run_steps(steps("large"), LARGE_JOBS + 1))
    await validator.run_steps(steps("small"), LARGE_JOBS)
    release.set()
    await asyncio.gather(checking, large)
    assert order == ["small", "large work before it", "large"]
    validator.close()


@pytest.mark.parametrize("bytes_min", [0, LARGE_BYTES, INLINE_BYTES_MAX])
async def test_valid_bodies_of_any_size_are_decoded(bytes_min: int) -> None:
    validator = FairValidation()
    jobs = [{"command": ["true"]}] * (bytes_min // 20 + 1)
    body = msgspec.json.encode({"queue": "q", "jobSet": "s", "jobs": jobs})
    request, found = await validator.decode(Decoder(Submission), body)
    assert not found
    assert len(request.jobs or ()) == len(jobs)
    validator.close()


@pytest.mark.parametrize("bytes_min", [LARGE_BYTES, INLINE_BYTES_MAX])
async def test_all_errors_of_a_body_are_listed(bytes_min: int) -> None:
    validator = FairValidation()
    jobs = [{"command": ["true"], "priority": "high"}] * (bytes_min // 20 + 1)
    body = msgspec.json.encode({"queue": "q", "jobSet": "s", "jobs": jobs})
    with pytest.raises(Problem) as refused:
        await validator.decode(Decoder(Submission), body)
    assert refused.value.slug == "invalid"
    assert refused.value.field_errors[0].pointer == "/jobs/0/priority"
    validator.close()
