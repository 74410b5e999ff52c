"""Liveness probes: they find children that run but do not answer, stopped or blocked for ever.

Failed probes are counted, not time: after a suspended laptop wakes up, or the supervisor itself was
stopped, each child has failed at most one probe. Any answer counts, also a refusal: only a process
that does nothing at all hangs.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_common.domain.errors import WorldError

VARIABLE: Final = "FAIRLEAD_PROBE_S"


class Liveness(msgspec.Struct, frozen=True, kw_only=True):
    """A probe every `every_s`, with the time-out `answer_s`; `failures_max` failures in a row mean
    that the child hangs.

    With the defaults, a child that stops answering is replaced after one to two minutes. A healthy
    service pauses for a few seconds at most: rounds run in a thread.
    """

    every_s: float = 5.0
    answer_s: float = 5.0
    failures_max: int = 12


class ProbeFailures:
    """Counts the failed probes of one process since its last answer."""

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._failures = 0

    def note(self, answered: bool, took_s: float) -> bool:
        """Record a probe and how long it took; returns whether the process hangs.

        A probe that took much longer than its time-out shows that this machine or the supervisor
        paused, and nothing about the child.
        """
        if answered:
            self._failures = 0
        elif took_s <= 2 * self._liveness.answer_s:
            self._failures += 1
        return self._failures >= self._liveness.failures_max


def load(environment: Mapping[str, str]) -> Liveness:
    """The defaults, or the interval and time-out (s) in `FAIRLEAD_PROBE_S`."""
    text = environment.get(VARIABLE)
    if text is None:
        return Liveness()
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= 3600.0:
        raise WorldError(f"{VARIABLE}={text!r} is not a number of seconds from 0 to 3600.")
    return Liveness(every_s=seconds, answer_s=seconds)


async def answers(port: int, request: bytes, answer_s: float) -> bool:
    """Whether the server on this port of 127.0.0.1 reacts to this request in any way in time.

    A connection that the server closes is a reaction: it has too many connections at this moment.
    """
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(answer_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            await reader.read(1)
    except ConnectionRefusedError:
        return False  # nobody listens
    except ConnectionError:
        return True  # closed with a reset
    except OSError:  # among them TimeoutError
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
    return True
