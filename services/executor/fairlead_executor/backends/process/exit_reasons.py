"""The reason that users see for the end of a command."""

import errno
import signal
from typing import Final

from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End

SIGNAL_EXIT_CODE: Final = 128
"""A command ended by signal n has the exit code 128 + n, as shells count."""


def ended(code: int, stop: End | None, *, oom: bool) -> End:
    """The end of a command that did start. `code` is negative for a signal."""
    exit_code = code if code >= 0 else SIGNAL_EXIT_CODE - code
    if oom and code != 0:
        return pods.failed(FailureCategory.OOM, "it used more memory than it requested", exit_code)
    if stop is not None:
        return End(stop.kind, stop.reason, stop.category, exit_code)
    if code == 0:
        return pods.SUCCEEDED
    if code > 0:
        reason = f"the command ended with exit code {code}"
    else:
        reason = f"the command was ended by signal {-code} ({_signal_name(-code)})"
    return pods.failed(FailureCategory.EXIT_CODE, reason, exit_code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def could_not_start(step: str, number: int | None, text: str, name: str) -> End:
    """The end of a command that never started, because of the job or because of this machine."""
    match step, number:
        case "exec", errno.ENOENT:
            reason = f"there is no command {name!r}"
        case "interpreter", _:
            reason = f"the program that {name!r} names in its first line does not exist"
        case "exec", errno.EACCES:
            reason = f"permission to execute {name!r} was denied: is it a program, with mode +x?"
        case "exec", errno.ENOEXEC:
            reason = f"the command {name!r} is not a program: does its first line begin with `#!`?"
        case "cwd", errno.ENOENT:
            reason = f"there is no folder {name!r} to start the command in (workingDir)"
        case "cwd", _:
            reason = f"the command cannot be started in its workingDir {name!r}: {text}"
        case "exec", _:
            reason = f"the command {name!r} cannot be started: {text}"
        case "confine", _:
            return pods.returned(f"this machine could not confine the job: {text}")
        case _:
            return pods.returned(f"this machine could not start another process: {text}")
    return pods.failed(FailureCategory.START, reason)
