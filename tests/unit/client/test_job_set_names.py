"""Names of job sets with every kind of character on the command line, and in commands to copy."""

import shlex
from urllib.parse import unquote

import pytest

from fairlead import cli
from fairlead.cli.commands.jobs.submit_command import suggest_commands
from tests.job_set_names import JOB_SET_NAMES
from tests.unit.client.fake_server import Server


@pytest.mark.parametrize("name", JOB_SET_NAMES)
def test_commands_to_copy_name_the_same_job_set(server: Server, name: str) -> None:
    server.routes["POST /api/v1/jobs/cancel"] = lambda _: {"position": "p", "matched": 1}
    watch, cancel = (shlex.split(command) for command in suggest_commands("q", name))
    cli.invoke(watch[1:])
    assert [unquote(each.path) for each in server.asked[:1]] == [f"/api/v1/jobsets/q/{name}"]
    assert cli.invoke([*cancel[1:], "--yes"]) == 0
    sent = server.asked[-1].json()
    assert isinstance(sent, dict)
    assert sent["filter"] == {"queue": "q", "jobSet": name}
