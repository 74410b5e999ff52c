"""What a job on this machine can reach of the installation that runs it."""

import contextlib
import json
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.leases import GroupMembers, Lease, LeasedMember, LiveMember
from fairlead_executor.confinement import child
from fairlead_executor.confinement.choice import choose
from tests.integration.executor.executor_harness import Executor, ExecutorHarness

NOBODY = 65534

ATTACK = """
import ctypes, json, os, socket, sys
data, other, pid, abstract = sys.argv[1:]
pid = int(pid)
def possible(action):
    try:
        return action() is not False
    except (OSError, AssertionError):
        return False
def connect():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\\0" + abstract)
def mount(source, target, kind, flags):
    libc = ctypes.CDLL(None)
    return libc.mount(source, target.encode(), kind, flags, None) == 0
libc = ctypes.CDLL(None)
print(json.dumps({
    "read the data folder": possible(lambda: open(data + "/token").read()),
    "change the data folder": possible(lambda: open(data + "/token", "a").close()),
    "remove from the data folder": possible(lambda: os.unlink(data + "/spare")),
    "rename the token": possible(lambda: os.rename(data + "/token", "taken")),
    "link the token": possible(lambda: os.link(data + "/token", "linked")),
    "read another run": possible(lambda: open(other + "/stdout").read()),
    "write into another run": possible(lambda: open(other + "/work/new", "w").close()),
    "read an environment": possible(lambda: open(f"/proc/{pid}/environ").read()),
    "read memory": possible(lambda: open(f"/proc/{pid}/mem", "rb").close()),
    "read through the root of a process": possible(lambda: os.listdir(f"/proc/{pid}/root{data}")),
    "trace": possible(lambda: libc.ptrace(0x4206, pid, 0, 0) == 0),
    "signal": possible(lambda: os.kill(pid, 0)),
    "signal its runner": possible(lambda: os.kill(os.getppid(), 0)),
    "connect to an abstract socket": possible(connect),
    "uncover the data folder": libc.umount2(data.encode(), 2) == 0,
    "mount": mount(b"tmpfs", os.getcwd(), b"tmpfs", 0)  # never on a folder that others use
        and libc.umount2(os.getcwd().encode(), 2) == 0,
    "make a namespace to uncover it": possible(
        lambda: libc.unshare(0x10020000) == 0 and libc.umount2(data.encode(), 2) == 0),
    "read a disk": any(possible(lambda: open(disk, "rb").read(1) != b"")
                       for disk in json.loads(os.environ["DISKS"])),
}))
"""

ORDINARY = """
set -e
echo text > file; test "$(cat file)" = text; mv file other; rm other
echo more > /dev/stdout
test "$(pwd)" = "$(/bin/pwd)"
echo outside > "$1/made"; mkdir "$1/folder"; mv "$1/made" "$1/folder/moved"; cat "$1/folder/moved"
ls / > /dev/null; cat /proc/self/status > /dev/null
"""
ABOVE = ORDINARY + 'file=$(dirname "$FOLDER")/made-by-a-job; echo > "$file"; rm "$file"\n'
"""Also makes a file in the folder that holds the data folder: Landlock cannot permit that."""


def attack(
    harness: ExecutorHarness, name: str, victim: Lease, executor: Executor, python: str
) -> Lease:
    """A job that tries everything against the data folder, another run, and the executor."""
    command = [python, "-I", "-c", ATTACK, str(harness.folder)]
    command += [str(harness.run_folder(victim)), str(executor.process.pid), "no-such-socket"]
    disks = {"name": "DISKS", "value": json.dumps(list(child.raw_devices()))}
    return harness.job(name, command, container={"env": [disks]})


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can pass. pytest closes the parents of `tmp_path` to other users
    whenever it starts, also for the tests of another checkout."""
    with tempfile.TemporaryDirectory(prefix="fairlead-tests-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture
async def harness(fresh_database: str, open_folder: Path) -> AsyncIterator[ExecutorHarness]:
    """An empty log, and a folder for executors that is closed, in one that is not."""
    data = open_folder / "data"
    data.mkdir(mode=0o700)
    async with ExecutorHarness.open(fresh_database, data) as opened:
        yield opened


async def attacked(
    harness: ExecutorHarness, method: str, settings: dict[str, str], python: str = sys.executable
) -> dict[str, bool]:
    """What such a job could do."""
    for name, text in (("token", "fl_secret"), ("spare", "x")):
        (harness.folder / name).write_text(text)
        (harness.folder / name).chmod(0o600)
    async with harness.executor({"FAIRLEAD_CONFINEMENT": method, **settings}) as executor:
        await harness.until_ready()
        victim = harness.job("victim", "echo mine; sleep 100", queue="another")
        await harness.lease(victim)
        await harness.until_reported(victim, ev.JobRunRunning)
        lease = attack(harness, "attacker", victim, executor, python)
        await harness.lease(lease)
        end = await harness.until_ended(lease)
        assert isinstance(end, ev.JobRunSucceeded), (end, harness.errors(lease))
        possible: dict[str, bool] = json.loads(harness.output(lease))
    return possible


def everybodys_python() -> str:
    """An interpreter that every user can execute; skips where there is none."""
    for path in (sys.executable, "/usr/bin/python3"):
        words = [path, "-I", "-c", "import ctypes"]
        with contextlib.suppress(OSError):
            if subprocess.run(words, user=NOBODY, cwd="/", check=False).returncode == 0:
                return path
    pytest.skip("NOT TESTED: no Python that every user can execute")


def need(method: str, folder: Path) -> int:
    """Skip where this machine cannot do it; the ABI of Landlock."""
    choice = choose(method, folder)
    if not choice.confines:
        pytest.skip(f"NOT TESTED: {method} is impossible on this machine: {choice.why}")
    return choice.abi


@pytest.mark.parametrize("method", [child.NAMESPACES, child.LANDLOCK])
async def test_a_confined_job_cannot_access_the_installation(
    harness: ExecutorHarness, method: str
) -> None:
    abi = need(method, harness.folder)
    possible = await attacked(harness, method, {})
    if abi < child.SIGNAL_ABI:
        del possible["signal"], possible["signal its runner"]
    assert [what for what, done in possible.items() if done] == []
    assert (harness.folder / "token").read_text() == "fl_secret"


async def test_without_confinement_a_job_reads_the_data_folder(harness: ExecutorHarness) -> None:
    (harness.folder / "token").write_text("fl_secret")
    async with harness.executor({"FAIRLEAD_CONFINEMENT": child.OFF}) as executor:
        await harness.until_ready()
        lease = harness.job("reader", ["cat", str(harness.folder / "token")])
        await harness.lease(lease)
        await harness.until_ended(lease)
        assert "jobs are not confined: it is switched off" in executor.log.read_text()
    assert harness.output(lease) == "fl_secret"


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can change users")
async def test_a_job_of_another_user_cannot_access_the_installation(
    harness: ExecutorHarness,
) -> None:
    possible = await attacked(
        harness, child.OFF, {"FAIRLEAD_JOB_USERS": '{"q": "nobody"}'}, everybodys_python()
    )
    assert [what for what, done in possible.items() if done] == []


@pytest.mark.parametrize("method", [child.NAMESPACES, child.LANDLOCK, child.OFF])
@pytest.mark.parametrize("users", ["{}", '{"q": "nobody"}'])
async def test_a_confined_job_works_as_usual_elsewhere(
    harness: ExecutorHarness, open_folder: Path, method: str, users: str
) -> None:
    if method != child.OFF:
        need(method, harness.folder)
    if users != "{}" and os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can change users")
    outside = open_folder / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    settings = {"FAIRLEAD_CONFINEMENT": method, "FAIRLEAD_JOB_USERS": users}
    async with harness.executor(settings):
        await harness.until_ready()
        script = ORDINARY if method == child.LANDLOCK or users != "{}" else ABOVE
        folder = {"name": "FOLDER", "value": str(harness.folder)}
        words = ["sh", "-c", script, "sh", str(outside)]
        here = harness.job("here", words, container={"env": [folder]})
        user = harness.job("user", ["id", "-un"], container={"workingDir": str(outside)})
        await harness.lease(here, user)
        for lease in (here, user):
            end = await harness.until_ended(lease)
            assert isinstance(end, ev.JobRunSucceeded), (end, harness.errors(lease))
    lines = harness.output(here).splitlines()
    assert lines[:2] == ["more", "outside"]
    assert harness.output(user).strip() == ("nobody" if users != "{}" else current_user())


MEMBER = """
while ! grep -q 10.9.9.9 "$FAIRLEAD_GROUP_FILE"; do sleep 0.02; done
cat "$FAIRLEAD_GROUP_FILE"
if echo > "$FAIRLEAD_GROUP_FILE" || rm -f "$FAIRLEAD_GROUP_FILE"; then exit 7; fi 2> /dev/null
if echo > "$(dirname "$FAIRLEAD_GROUP_FILE")/members.json.new"; then exit 8; fi 2> /dev/null
"""


@pytest.mark.parametrize(
    ("method", "users"),
    [
        (child.NAMESPACES, "{}"),
        (child.LANDLOCK, "{}"),
        (child.LANDLOCK, '{"q": "nobody"}'),
    ],
)
async def test_a_member_reads_its_group_file_as_it_changes_and_cannot_change_it(
    harness: ExecutorHarness, method: str, users: str
) -> None:
    if method != child.OFF:
        need(method, harness.folder)
    if users != "{}" and os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can change users")
    settings = {
        "FAIRLEAD_CONFINEMENT": method,
        "FAIRLEAD_JOB_USERS": users,
        "FAIRLEAD_NODE_ADDRESS": "10.1.2.3",
    }
    group = GroupId("0" * 28)
    place = LeasedMember(group=group, name="fit", role="worker", index=0)
    other = LiveMember("worker", 1, JobState.RUNNING, "n9", "10.9.9.9")
    async with harness.executor(settings):
        await harness.until_ready()
        lease = msgspec.structs.replace(harness.job("member", ["sh", "-c", MEMBER]), member=place)
        await harness.lease(lease)
        started = await harness.until_reported(lease, ev.JobRunRunning)
        assert isinstance(started, ev.JobRunRunning)
        assert started.address == "10.1.2.3"
        await harness.announce(GroupMembers(group=group, name="fit", members=(other,)))
        end = await harness.until_ended(lease)
        assert isinstance(end, ev.JobRunSucceeded), (end, harness.errors(lease))
    assert [each["address"] for each in json.loads(harness.output(lease))["members"]] == [
        "10.9.9.9"
    ]


async def test_a_run_has_as_many_processors_as_it_requests(harness: ExecutorHarness) -> None:
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        pytest.skip("NOT TESTED: this machine has one processor")
    script = "import os; print(sorted(os.sched_getaffinity(0)))"
    command = [sys.executable, "-c", script]

    async def seen(name: str, milli: int) -> Sequence[int]:
        lease = harness.job(name, command, requests={"cpu": milli})
        await harness.lease(lease)
        await harness.until_ended(lease)
        found: list[int] = json.loads(harness.output(lease))
        return found

    async with harness.executor():
        await harness.until_ready()
        assert len(await seen("one", 500)) == 1
        assert await seen("all", 64_000) == available
    async with harness.executor({"FAIRLEAD_LIMIT_CPU": "false"}):
        await harness.until_ready()
        assert await seen("free", 500) == available


def current_user() -> str:
    """The name of the user of this process."""
    return pwd.getpwuid(os.geteuid()).pw_name
