"""What the `main` of every service runs in: event loop, signals and exit code.

`main()` owns a task group. The first task that fails ends the process: an error of the environment
(`WorldError`) with its message, any other with its traceback. SIGINT and SIGTERM cancel it, so that
everything ends in order.
"""

import asyncio
import ctypes
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Final, NoReturn

from fairlead_common.domain.errors import LogUrlInvalid, WorldError
from fairlead_common.service import heap, json_logging, settings
from fairlead_common.service.event_loop import EventLoop

EXIT_SETTINGS: Final = 78
"""The exit code for settings that are not valid (`EX_CONFIG`): another start changes nothing."""

_PR_SET_DUMPABLE: Final = 4

_logger = logging.getLogger("fairlead.process")


def run(main: Callable[[], Coroutine[object, object, None]], log_level: str = "INFO") -> None:
    """Run `main` until it ends or a signal arrives.

    The process then exits with 0, after a failure with 1 or `EXIT_SETTINGS`.
    """
    hide_memory()
    heap.limit_heaps()
    json_logging.set_up_logging(log_level)
    failures: BaseExceptionGroup[WorldError] | None = None
    try:
        try:
            with asyncio.Runner(loop_factory=EventLoop) as runner:
                runner.run(_until_signal(main))
        except* WorldError as errors:
            failures = errors
    except (settings.SettingsError, LogUrlInvalid) as error:
        sys.stderr.write(f"settings: {error}\n")
        sys.exit(EXIT_SETTINGS)
    if failures is not None:
        _exit_after(failures)


def _exit_after(failures: BaseExceptionGroup[WorldError]) -> NoReturn:
    """Log the first error and exit: the others follow from it, and its message says what is wrong;
    a traceback would say no more."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    _logger.error("ended: %s", first)
    sys.exit(1)


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
    trimming = asyncio.create_task(heap.trim_regularly())
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
    finally:
        trimming.cancel()
