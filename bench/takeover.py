"""How long a standby takes to lead when the leader is gone: `python -m bench.takeover`.

Two scheduler processes on one Postgres log; a job waits that only the standby can lease. The leader
is killed (`kill -9`), with `--freeze` it is stopped (SIGSTOP), and with `--cut` its link to
Postgres stops forwarding. The last line of output is one JSON object: seconds from then to the
lease being in the log.
"""

import argparse
import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

from bench import folders
from fairlead_common.domain.records import events as ev
from fairlead_common.service import clock
from fairlead_standalone.processes.child_process import RunningProcess, die_with_parent
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import Postgres
from fairlead_standalone.servers.embedded_valkey import Valkey
from fairlead_standalone.service.testing import KERNELS
from tests.cut_link import CutLink
from tests.integration.scheduler.world import World, job_id, stands_by, submitted


def start(database: str, valkey: str) -> subprocess.Popen[bytes]:
    """A scheduler process; the first that gets the lock leads."""
    ours = {
        "FAIRLEAD_LOG_URL": database,
        "FAIRLEAD_DATABASE_URL": database,
        "FAIRLEAD_REDIS_URL": valkey,
        "FAIRLEAD_HTTP_PORT": str(free_port()),
    }
    words = [sys.executable, "-P", "-m", "fairlead_scheduler"]
    return subprocess.Popen(
        words,
        env={**os.environ, **KERNELS, **ours},
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent(signal.SIGTERM),
    )


async def measure(database: str, valkey: str, turns: int, failure: str) -> list[float]:
    """Seconds from each failure to the next lease."""
    taken: list[float] = []
    async with World.open(database) as world, AsyncExitStack() as links:
        link, url = await links.enter_async_context(CutLink.to(database))
        await world.report_nodes(count=turns + 1)
        leader = start(url, valkey)
        await world.tell(submitted("first"))
        await world.first(ev.JobRunLeased, "first")
        for turn in range(turns):
            next_link, url = await links.enter_async_context(CutLink.to(database))
            standby = start(url, valkey)
            await stands_by(database)
            await world.report_nodes(count=turns + 1)
            match failure:
                case "freeze":
                    leader.send_signal(signal.SIGSTOP)
                case "cut":
                    link.cut()
                case _:
                    leader.kill()
            began_s = clock.monotonic_s()
            await world.tell(submitted(f"after-{turn}"))
            await world.first(ev.JobRunLeased, f"after-{turn}")
            taken.append(clock.monotonic_s() - began_s)
            if failure == "freeze":
                # It goes on, finds out, and ends by itself without a lease of its own.
                leader.send_signal(signal.SIGCONT)
            await asyncio.to_thread(leader.wait)
            leader, link = standby, next_link
        leader.kill()
        leader.wait()
        seen = await world.events(lambda events: len(events) >= 2 * (turns + 1))
        leased = [event.job_id for event in seen if isinstance(event, ev.JobRunLeased)]
        assert sorted(leased) == sorted({*leased}), "a job was leased twice"
        assert job_id("first") in leased
    return taken


def main() -> None:
    """Start the servers, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    failure = parser.add_mutually_exclusive_group()
    failure.add_argument("--freeze", action="store_const", const="freeze", dest="failure")
    failure.add_argument("--cut", action="store_const", const="cut", dest="failure")
    parser.add_argument("--json", action="store_true", help="for uniformity: always printed")
    options = parser.parse_args()
    with folders.temporary_folder("takeover") as name, ExitStack() as servers:
        folder = Path(name)
        folder.chmod(0o755)
        password = secrets.token_hex(8)
        postgres = Postgres(folder / "postgres", password=password, port=free_port())
        valkey = Valkey(folder / "valkey", password=password, port=free_port())
        for program in (postgres, valkey):
            running = RunningProcess(program, folder / f"{program.name}.log")
            servers.enter_context(running)
            running.start()
        taken = asyncio.run(
            measure(postgres.url(), valkey.url(), options.turns, options.failure or "kill")
        )
    done = {"bench": "takeover", "fault": options.failure or "kill"}
    print(json.dumps({**done, "seconds": [round(s, 2) for s in taken]}))


if __name__ == "__main__":
    main()
