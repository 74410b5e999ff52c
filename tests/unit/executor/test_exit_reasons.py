"""The reasons that users see for the end of a command."""

import errno
import re

import pytest

from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.backends.process.exit_reasons import could_not_start, ended
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import SUCCEEDED, End, EndKind

STARTS = {
    "an unknown command": (("exec", errno.ENOENT, "no", "nosuch"), "there is no command 'nosuch'"),
    "a file that is not a program": (
        ("exec", errno.ENOEXEC, "no", "x"),
        "does its first line begin",
    ),
    "a file without mode +x": (("exec", errno.EACCES, "no", "./x"), "mode [+]x"),
    "a missing interpreter": (("interpreter", errno.ENOENT, "no", "./x"), "in its first line"),
    "a missing folder": (("cwd", errno.ENOENT, "no", "/nowhere"), "no folder '/nowhere'"),
    "another folder error": (("cwd", errno.EACCES, "Permission denied", "/x"), "denied"),
    "another error": (("exec", errno.E2BIG, "Argument list too long", "x"), "too long"),
}


@pytest.mark.parametrize(("error", "sentence"), STARTS.values(), ids=STARTS.keys())
def test_a_command_that_cannot_start_fails_with_the_reason(
    error: tuple[str, int, str, str], sentence: str
) -> None:
    end = could_not_start(*error)
    assert end.category is FailureCategory.START
    assert re.search(sentence, end.reason), end.reason


def test_a_machine_that_cannot_start_another_process_returns_the_run() -> None:
    assert could_not_start("start", errno.EAGAIN, "Try again", "").kind is EndKind.RETURNED


def test_exit_code_0_is_success() -> None:
    assert ended(0, None, oom=False) == SUCCEEDED


def test_a_signal_is_named_and_counted_as_shells_do() -> None:
    end = ended(-11, None, oom=False)
    assert end == pods.failed(
        FailureCategory.EXIT_CODE, "the command was ended by signal 11 (SIGSEGV)", 139
    )


def test_a_stop_determines_the_end_regardless_of_the_exit_code() -> None:
    assert ended(0, pods.stopped("cancelled"), oom=False) == pods.stopped("cancelled", 0)
    assert ended(-15, pods.stopped("cancelled"), oom=False) == pods.stopped("cancelled", 143)


def test_a_run_killed_by_the_kernel_at_its_memory_limit_is_oom() -> None:
    assert ended(-9, None, oom=True).category is FailureCategory.OOM


def test_a_command_that_outlives_an_ended_child_has_its_own_exit_code() -> None:
    assert ended(0, None, oom=True) == End(EndKind.SUCCEEDED, exit_code=0)
