"""Runs of the process backend, from lease to report, by a real executor process."""

import json
import sys

from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.service import clock
from fairlead_common.web import auth
from tests.integration.executor.executor_harness import (
    KEY,
    ExecutorHarness,
    is_alive,
    run_of,
)
from tests.waiting import until


async def test_runs_end_as_their_commands_do(harness: ExecutorHarness) -> None:
    async with harness.executor():
        await harness.until_ready()
        cases = {
            "good": harness.job("a", "echo hello; echo trouble >&2"),
            "bad": harness.job("b", "exit 3"),
            "killed": harness.job("c", "kill -9 $$$$"),
            "unknown": harness.job("d", ["no-such-command"]),
            "nowhere": harness.job("e", ["true"], container={"workingDir": "/no/such/folder"}),
            "refused": harness.job("f", ["true"], container={"volumeMounts": [{"name": "v"}]}),
        }
        await harness.lease(*cases.values())
        ends = {name: await harness.until_ended(lease) for name, lease in cases.items()}
    reported = {
        name: (end.category.value, end.exit_code)
        for name, end in ends.items()
        if isinstance(end, ev.JobRunFailed)
    }
    assert reported == {
        "bad": ("exit-code", 3),
        "killed": ("exit-code", 137),
        "unknown": ("start", None),
        "nowhere": ("start", None),
        "refused": ("admission", None),
    }
    assert isinstance(ends["good"], ev.JobRunSucceeded)
    assert isinstance(ends["unknown"], ev.JobRunFailed)
    assert ends["unknown"].reason == "there is no command 'no-such-command'"
    assert [type(event) for event in harness.of(cases["good"])] == [
        ev.JobRunPending,
        ev.JobRunRunning,
        ev.JobRunSucceeded,
    ]
    assert harness.output(cases["good"]) == "hello\n"


async def test_a_command_has_a_clean_environment(harness: ExecutorHarness) -> None:
    script = """
import json, os, sys
json.dump({
    "env": dict(os.environ), "cwd": os.listdir("."), "stdin": sys.stdin.read(),
    "open": [int(n) for n in os.listdir("/proc/self/fd")],
}, sys.stdout)
"""
    async with harness.executor({"FAIRLEAD_SECRET_OF_OURS": "x", "PGPASSWORD": "y"}):
        await harness.until_ready()
        env = [{"name": "MINE", "value": "run $(FAIRLEAD_RUN)"}]
        lease = harness.job(
            "a",
            [sys.executable, "-I", "-c", script],
            env={"FAIRLEAD_RUN": "1"},
            container={"env": env},
        )
        plain = harness.job("b", ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])
        await harness.lease(lease, plain)
        await harness.until_ended(lease)
        await harness.until_ended(plain)
    seen = json.loads(harness.output(lease))
    assert seen["env"].keys() <= {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("MINE", "FAIRLEAD_RUN", "FAIRLEAD_NODE"),
        *(name for name in seen["env"] if name.startswith("LC_")),
    }
    assert (seen["env"]["FAIRLEAD_RUN"], seen["env"]["MINE"]) == ("1", "run 1")
    assert sys.prefix not in seen["env"]["PATH"]
    assert (seen["cwd"], seen["stdin"]) == ([], "")
    assert set(seen["open"]) <= {0, 1, 2, 3}  # 3 is the listing itself
    signals = [line.split() for line in harness.output(plain).splitlines()]
    ours = ~(0b11 << 31)  # 32 and 33 belong to the C library: no program can set them
    assert {name: int(mask, 16) & ours for name, mask in signals} == {"SigBlk:": 0, "SigIgn:": 0}


async def test_a_stop_ends_a_run_and_all_its_processes(harness: ExecutorHarness) -> None:
    async with harness.executor():
        await harness.until_ready()
        lease = harness.job("a", "setsid sleep 3600 & sleep 3600 & echo $! $$$$; wait")
        await harness.lease(lease)
        await until(lambda: harness.output(lease).endswith("\n"))
        numbers = [int(text) for text in harness.output(lease).split()]
        await harness.stop(lease, "cancelled by its owner")
        end = await harness.until_ended(lease)
        assert isinstance(end, ev.JobRunStopped)
        assert end.reason == "cancelled by its owner"
        assert not [number for number in numbers if is_alive(number)]


async def test_a_command_that_ignores_its_stop_is_killed_after_its_grace(
    harness: ExecutorHarness,
) -> None:
    async with harness.executor():
        await harness.until_ready()
        lease = harness.job("a", "trap '' TERM; echo ready; while :; do sleep 1; done")
        await harness.lease(lease)
        await until(lambda: harness.output(lease) == "ready\n")
        await harness.stop(lease, "cancelled", grace_s=1)
        end = await harness.until_ended(lease)
        assert isinstance(end, ev.JobRunStopped)
        assert end.exit_code == 137


async def test_a_run_beyond_its_maximum_run_time_is_stopped(harness: ExecutorHarness) -> None:
    async with harness.executor():
        await harness.until_ready()
        lease = harness.job("a", "sleep 3600", runtime_s_max=1)
        await harness.lease(lease)
        end = await harness.until_ended(lease)
        assert isinstance(end, ev.JobRunFailed)
        assert end.category is FailureCategory.DEADLINE


async def test_a_run_above_its_memory_request_is_stopped(harness: ExecutorHarness) -> None:
    script = "x = b'x' * 150_000_000; import time; time.sleep(3600)"
    async with harness.executor():
        await harness.until_ready()
        greedy = harness.job(
            "a",
            [sys.executable, "-c", script],
            container={"resources": {"limits": {"memory": "64Mi"}}},
        )
        modest = harness.job(
            "b",
            [sys.executable, "-c", script.replace("3600", "2")],
            container={"resources": {"limits": {"memory": "512Mi"}}},
        )
        await harness.lease(greedy, modest)
        end = await harness.until_ended(greedy)
        assert isinstance(end, ev.JobRunFailed)
        assert end.category is FailureCategory.OOM
        assert "its limit is 64 MiB" in end.reason
        assert isinstance(await harness.until_ended(modest), ev.JobRunSucceeded)


async def test_a_run_waits_for_the_end_of_preempted_runs(harness: ExecutorHarness) -> None:
    async with harness.executor():
        await harness.until_ready()
        victim = harness.job(
            "a", "trap 'sleep 1; exit' TERM; echo ready; while :; do sleep 0.1; done"
        )
        await harness.lease(victim)
        await until(lambda: harness.output(victim) == "ready\n")
        heir = harness.job("b", "true", after=(run_of(victim),))
        await harness.lease(heir)
        await harness.stop(victim, "preempted", grace_s=30)
        await harness.until_ended(heir)
        stopped, started = harness.of(victim, ev.JobRunStopped), harness.of(heir, ev.JobRunRunning)
        assert isinstance(stopped[0], ev.JobRunStopped)
        assert isinstance(started[0], ev.JobRunRunning)
        assert stopped[0].at_ms <= started[0].at_ms


async def test_a_cleared_run_leaves_only_its_log(harness: ExecutorHarness) -> None:
    import httpx2

    async with harness.executor() as executor, httpx2.AsyncClient(timeout=60) as client:
        await harness.until_ready()
        assert harness.heartbeat is not None
        assert harness.heartbeat.address == f"http://127.0.0.1:{executor.port}"
        lease = harness.job("a", "echo one; echo two; echo bad >&2")
        await harness.lease(lease)
        await harness.until_ended(lease)
        await harness.clear(lease)
        await until(lambda: harness.run_folder(lease, "kept").exists())
        assert not harness.run_folder(lease).exists()
        url = f"{harness.heartbeat.address}/logs/{run_of(lease)}"

        async def get(parameters: dict[str, str], subject: str) -> httpx2.Response:
            token = auth.sign(KEY, subject, clock.now_ms() + 60_000)
            headers = {"Authorization": f"Bearer {token}"}
            return await client.get(url, params=parameters, headers=headers)

        ours = f"logs:{run_of(lease)}"
        assert (await get({}, ours)).text == "one\ntwo\n"
        assert (await get({"tail": "1"}, ours)).text == "two\n"
        assert (await get({"stream": "stderr"}, ours)).text == "bad\n"
        assert (await get({"follow": "true", "since_bytes": "4"}, ours)).text == "two\n"
        assert (await get({"since_ms": "1"}, ours)).status_code == 422
        assert (await get({}, "logs:another")).status_code == 401
        assert (await get({"stream": "nothing"}, ours)).status_code == 422
        unknown = f"{'0' * 28}-9"
        url = f"{harness.heartbeat.address}/logs/{unknown}"
        assert (await get({}, f"logs:{unknown}")).status_code == 404
