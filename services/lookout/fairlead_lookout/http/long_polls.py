"""Waiting: for the view to reach a position, for a change, or for something to exist."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fastapi import Depends, params

from fairlead_common.domain import position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.web.requests import query_validation
from fairlead_common.web.requests.query_validation import After, Wait
from fairlead_lookout.http.deps import Deps, Slot

AFTER_S: Final = 10.0
REREAD_S_MIN: Final = 0.25
"""A value that is waited for is read again at most this often,"""
REREAD_S_MAX: Final = 5.0
"""and at least this often: not every change of a value moves the view."""
APPEAR_S_MAX: Final = 2.0
"""How long a long poll waits for something that does not exist when it begins."""
T = TypeVar("T")


async def wait_for_position(deps: Deps, after: str | None, wait: str | None) -> None:
    """Wait until the view has folded a position. Raises a 400 or 503 `Problem`."""
    wait_s = query_validation.parse_wait_s(wait, AFTER_S)
    if after is None:
        return
    try:
        target = position_tokens.decode(after)
    except ValueError as error:
        field_error = FieldError("/query/after", str(error))
        raise Problem(
            "malformed",
            "The position `after` is not valid. Use a `position` that a response has returned.",
            [field_error],
        ) from None
    with Slot(deps, "waits"):
        reached = await deps.progress.wait_for(
            target.jobs, wait_s
        ) and await deps.configuration.wait_for(target.configured, wait_s)
    if not reached:
        current = deps.progress.positions
        lag = len(target.configured) + sum(
            max(0, position - current.get(number, 0)) for number, position in target.jobs.items()
        )
        raise Problem(
            "unavailable",
            f"The view has not reached that position within {wait_s:g} s. It is {lag} messages"
            " behind; try again.",
            retry_after_s=1,
        )


def after_position(deps: Deps) -> params.Depends:
    """For routes that read only what is in memory: they accept `after` like all others."""

    async def wait_first(after: After = None, wait: Wait = None) -> None:
        await wait_for_position(deps, after, wait)

    dependency: params.Depends = Depends(wait_first)
    return dependency


async def read_until(
    deps: Deps,
    partition: int | None,
    wait_s: float,
    read: Callable[[], Awaitable[T]],
    is_wanted: Callable[[T], bool],
) -> T:
    """Read until the value is the wanted one, for at most `wait_s`; returns the last value.

    It is read again when the view has moved (in that partition), and every few seconds.
    """
    deadline = clock.monotonic_s() + wait_s
    with Slot(deps, "waits"):
        while True:
            before = deps.progress.positions
            value = await read()
            left_s = deadline - clock.monotonic_s()
            if is_wanted(value) or left_s <= 0:
                return value
            await asyncio.sleep(min(REREAD_S_MIN, left_s))
            reread_s = min(deadline, clock.monotonic_s() + REREAD_S_MAX)
            while _is_unmoved(before, deps.progress.positions, partition):
                left_s = reread_s - clock.monotonic_s()
                if left_s <= 0 or not await deps.progress.wait_for_move(left_s):
                    break


async def read_when_exists(deps: Deps, wait_s: float, read: Callable[[], Awaitable[T]]) -> T:
    """The value, if necessary after a wait until it exists. Raises a 404 `Problem`."""

    async def read_or_problem() -> T | Problem:
        try:
            return await read()
        except Problem as problem:
            if problem.slug != "not-found":
                raise
            return problem

    def exists(value: T | Problem) -> bool:
        return not isinstance(value, Problem)

    value = await read_or_problem()
    if not exists(value) and wait_s > 0:
        value = await read_until(deps, None, min(wait_s, APPEAR_S_MAX), read_or_problem, exists)
    if isinstance(value, Problem):
        raise value
    return value


def _is_unmoved(before: dict[int, int], now: dict[int, int], partition: int | None) -> bool:
    if partition is None:
        return before is now
    return before.get(partition) == now.get(partition)
