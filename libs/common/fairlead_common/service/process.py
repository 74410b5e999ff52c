"""What the `main` of every service runs in: event loop, signals and exit code.

`main()` owns a task group. The first task that fails ends the process with its traceback; SIGINT
and SIGTERM cancel it, so that everything ends in order.
"""

import asyncio
import ctypes
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Final

from fairlead_common.domain.errors import LogUrlInvalid
from fairlead_common.service import json_logging, settings
from fairlead_common.service.event_loop import EventLoop

_PR_SET_DUMPABLE: Final = 4

_logger = logging.getLogger("fairlead.process")


def run(main: Callable[[], Coroutine[object, object, None]], log_level: str = "INFO") -> None:
    """Run `main` until it ends or a signal arrives; exit with 1 after a failure, else with 0."""
    hide_memory()
    json_logging.set_up_logging(log_level)
    try:
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            runner.run(_until_signal(main))
    except (settings.SettingsError, LogUrlInvalid) as error:
        sys.exit(f"settings: {error}")


def hide_memory() -> None:
    """Hide the environment and memory of this process (/proc/PID/environ, /proc/PID/mem, ptrace)
    from other processes of its user, which can be jobs: both contain passwords. This also disables
    core dumps.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


async def _until_signal(main: Callable[[], Coroutine[object, object, None]]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main())
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
        _logger.info("ended by %s", received[0].name)
