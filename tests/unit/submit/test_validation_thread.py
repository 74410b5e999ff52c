"""Large requests are checked beside the event loop, and callers take turns."""

import asyncio
import threading

import msgspec
import pytest

from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests.decoding import Decoder
from fairlead_common.web.fair_semaphore import CALLER
from fairlead_submit.domain.request_types import Submission
from fairlead_submit.service.validation_thread import LARGE_BYTES, ValidationThread

WAIT_S = 60.0


async def test_the_event_loop_continues_during_a_large_validation() -> None:
    validator, began, is_answered = ValidationThread(), asyncio.Event(), threading.Event()
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
    validator, release = ValidationThread(), threading.Event()
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


async def test_all_errors_of_a_large_body_are_listed() -> None:
    validator = ValidationThread()
    jobs = [{"command": ["true"], "priority": "high"}] * (LARGE_BYTES // 20)
    body = msgspec.json.encode({"queue": "q", "jobSet": "s", "jobs": jobs})
    with pytest.raises(Problem) as refused:
        await validator.decode(Decoder(Submission), body)
    assert refused.value.slug == "invalid"
    assert refused.value.field_errors[0].pointer == "/jobs/0/priority"
    validator.close()
