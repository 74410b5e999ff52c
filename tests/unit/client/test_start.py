"""What a command line imports before it does anything: that is most of the time that it takes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead import cli

HEAVY = (
    "asyncio",
    "email.mime",
    "fairlead.asynchronous",
    "fairlead_common",
    "httpx2",
    "importlib.metadata",
    "pydantic",
    "rich",
    "yaml",
)
"""Nothing that a look at the server needs."""

REAL = """
import sys
from fairlead import cli
code = cli.invoke(sys.argv[1:])
print(code, *sorted(sys.modules))
"""


def imported(*arguments: str) -> set[str]:
    """The modules that a command line leaves imported. It asks a port at which nobody listens."""
    environment = {**os.environ, "FAIRLEAD_SERVER": "http://127.0.0.1:9", "FAIRLEAD_TOKEN": "fl_t"}
    done = subprocess.run(
        [sys.executable, "-c", REAL, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "4", done.stderr
    return set(modules)


def test_a_command_imports_only_its_own_module() -> None:
    modules = imported("get", "queues")
    assert not modules & {*HEAVY}
    own = {name for name in cli.COMMANDS if f"fairlead.cli.commands.{name}" in modules}
    assert own == {
        "administration.queue_commands",
        "jobs.array_commands",
        "jobs.group_commands",
        "jobs.watch_command",
        "queries.get_command",
    }  # `get` lists queues as `queue` does, groups and arrays


def test_listing_jobs_imports_nothing_large() -> None:
    assert not imported("get", "jobs") & {*HEAVY}


def test_submitting_json_imports_nothing_large(tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    file.write_text('{"queue": "q", "jobSet": "s", "jobs": [{"command": ["true"]}]}')
    assert not imported("submit", str(file)) & {*HEAVY}


@pytest.mark.parametrize("module", cli.COMMANDS)
def test_modules_add_their_listed_commands(module: str) -> None:
    app = cli.build_app((module,))
    names = [command.name for command in app.registered_commands]
    names += [str(group.name) for group in app.registered_groups]
    assert sorted(map(str, names)) == sorted(cli.COMMANDS[module])


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        (["get", "jobs"], "get"),
        (["--server", "http://get", "logs", "x"], "logs"),
        (["--context=work", "run", "--", "get"], "run"),
        (["--version"], None),
        (["--server"], None),
    ],
)
def test_the_command_is_the_first_word_that_is_not_an_option_value(
    typed: list[str], command: str | None
) -> None:
    assert cli.find_command(typed) == command


def test_the_version_loads_no_command() -> None:
    code = "import sys; from fairlead import cli; cli.invoke(['--version']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, modules = done.stdout.splitlines()
    assert version.startswith("fairlead ")
    assert "fairlead.cli.commands" not in modules
    assert "importlib.metadata" not in modules


@pytest.mark.parametrize("words", [("--help",), ("get", "jobs", "--help"), ("--version",)])
def test_the_package_can_be_run_as_a_module(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.lower().startswith(("usage: fairlead", "fairlead"))
