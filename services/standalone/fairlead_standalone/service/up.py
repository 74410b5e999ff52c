"""`fairlead up`: all of Fairlead on one machine with one command.

It claims the data folder, checks addresses, starts Postgres and Valkey (unless URLs were given),
then web, scheduler and executor, prints the address of the dashboard, and runs until a signal ends
it. It starts the same services, with the same settings, as any other installation.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from fairlead import discovery
from fairlead_common.service.disk import MIB, Disk, free_bytes
from fairlead_standalone.data import disk_reserve
from fairlead_standalone.data.data_folder import DataFolder
from fairlead_standalone.processes import liveness
from fairlead_standalone.processes.child_process import SupervisedProgram
from fairlead_standalone.processes.process_output import Say
from fairlead_standalone.processes.supervisor import Supervisor
from fairlead_standalone.servers import addresses
from fairlead_standalone.servers.embedded_postgres import Postgres
from fairlead_standalone.servers.embedded_valkey import Valkey
from fairlead_standalone.servers.fairlead_services import Service
from fairlead_standalone.service import job_confinement, kubernetes_clusters
from fairlead_standalone.service.kubernetes_clusters import KubernetesCluster

EXECUTOR_STOP_S: Final = 30.0
"""More than the executor needs to end its runs (`shutdown_s`) and to report it."""

POSTGRES_SCHEMES: Final = ("postgresql", "postgres")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `fairlead up`. A URL of None: the embedded server.

    Each of `clusters` has an executor beside that of this machine. `tokens_for_others` is set at
    the start: false where jobs can read the secrets of the installation.
    """

    data: Path
    port: int = 8080
    kafka: str | None = None
    postgres: str | None = None
    redis: str | None = None
    backend: str = "process"
    clusters: tuple[KubernetesCluster, ...] = ()
    shared_unconfined: bool = False
    tokens_for_others: bool = True


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    """The log, the database and the cache, and which of them this process runs itself."""

    log_url: str
    database_url: str
    redis_url: str
    programs: tuple[SupervisedProgram, ...]


async def up(options: Options, folder: DataFolder, say: Say) -> None:
    """Run everything until SIGINT, SIGTERM or SIGHUP. Raises `WorldError` if it cannot run."""
    addresses.check_free(options.port)
    await kubernetes_clusters.check_access(options.clusters, say)
    probes = liveness.load(os.environ)
    jobs = await asyncio.to_thread(
        job_confinement.assess,
        options.backend,
        folder.path,
        os.environ,
        shared_unconfined=options.shared_unconfined,
    )
    if jobs.line:
        say(jobs.line)
    options = msgspec.structs.replace(options, tokens_for_others=jobs.tokens_for_others)
    servers = choose_servers(options, folder, say)
    with _open_end_pipe() as supervisor_fd:
        async with Supervisor(folder.logs, say, probes) as children:
            work = asyncio.create_task(_run(children, servers, options, folder, supervisor_fd, say))
            _end_on_signals(work, children, say)
            await asyncio.wait((work,))
    if not work.cancelled():
        work.result()
    say(f"ended; the data stays in {folder.path}")


async def _run(
    children: Supervisor,
    servers: Servers,
    options: Options,
    folder: DataFolder,
    supervisor_fd: int,
    say: Say,
) -> None:
    """Run everything and, if the database is embedded, watch the disk meanwhile."""
    if options.postgres:
        await _run_children(children, servers, options, folder, supervisor_fd, say)
        return
    watching = asyncio.create_task(
        disk_reserve.watch_disk(folder.path, say, Disk(str(folder.path)))
    )
    try:
        await _run_children(children, servers, options, folder, supervisor_fd, say)
    finally:
        watching.cancel()
        await asyncio.wait((watching,))


async def _run_children(
    children: Supervisor,
    servers: Servers,
    options: Options,
    folder: DataFolder,
    supervisor_fd: int,
    say: Say,
) -> None:
    await children.start(*servers.programs)
    await children.start(*list_services(options, servers, folder, supervisor_fd))
    folder.announce(
        f"http://127.0.0.1:{options.port}",
        servers.database_url,
        servers.redis_url,
        servers.log_url,
    )
    for line in format_welcome(options, folder):
        say(line)
    await children.wait()


def choose_servers(options: Options, folder: DataFolder, say: Say) -> Servers:
    """The servers at the given URLs, else embedded ones. Raises `WorldError` if neither runs."""
    programs: list[SupervisedProgram] = []
    if options.postgres:
        database_url = addresses.check_url("--postgres", options.postgres, POSTGRES_SCHEMES)
    else:
        postgres = Postgres(
            folder.path,
            password=folder.secrets.postgres,
            port=addresses.free_port(),
            settings={"max_wal_size": f"{_wal_mib(folder, say)}MB"},
        )
        folder.bind_log("Kafka" if options.kafka else "Postgres")
        programs.append(postgres)
        database_url = postgres.url()
    if options.redis:
        redis_url = addresses.check_url("--redis", options.redis, ("redis", "rediss"))
    else:
        valkey = Valkey(folder.path, password=folder.secrets.redis, port=addresses.free_port())
        programs.append(valkey)
        redis_url = valkey.url()
    log_url = database_url
    if options.kafka:
        log_url = addresses.check_kafka(options.kafka)
    return Servers(
        log_url=log_url,
        database_url=database_url,
        redis_url=redis_url,
        programs=tuple(programs),
    )


def _wal_mib(folder: DataFolder, say: Say) -> int:
    """The maximum size of the write-ahead log for the free space. Raises `FolderRefused`."""
    free = free_bytes(folder.path)
    wal_mib = disk_reserve.plan_wal(folder.path, free, disk_reserve.measure_usage(folder.path))
    if wal_mib < disk_reserve.WAL_MIB[0]:
        say(
            f"{free // MIB} MiB are free on the disk of {folder.path}: the write-ahead log is"
            f" limited to {wal_mib} MiB"
        )
    return wal_mib


def list_services(
    options: Options, servers: Servers, folder: DataFolder, supervisor_fd: int
) -> list[Service]:
    """The services as one machine runs them.

    `supervisor_fd`: a pipe by which runners notice the end of this process.
    """
    common = {
        "FAIRLEAD_LOG_URL": servers.log_url,
        "FAIRLEAD_DATABASE_URL": servers.database_url,
        "FAIRLEAD_REDIS_URL": servers.redis_url,
        "FAIRLEAD_SIGNING_KEY": folder.secrets.signing_key,
        "FAIRLEAD_SECRETS_KEY": os.environ.get("FAIRLEAD_SECRETS_KEY")
        or folder.secrets.secrets_key,
        "FAIRLEAD_DATA": str(folder.path),
        "FAIRLEAD_DISK": "" if options.postgres else str(folder.path),
    }
    web = {
        "FAIRLEAD_INSTANCE": "0",
        "FAIRLEAD_TOKENS_FOR_OTHERS": str(options.tokens_for_others).lower(),
    }
    executor = {"FAIRLEAD_BACKEND": options.backend, "FAIRLEAD_SUPERVISOR_FD": str(supervisor_fd)}
    return [
        Service(
            "web",
            "fairlead_standalone.service.web",
            port=options.port,
            settings={**common, **web},
            folder=folder.path,
        ),
        Service(
            "scheduler",
            "fairlead_scheduler",
            port=addresses.free_port(),
            settings=common,
            folder=folder.path,
        ),
        Service(
            "executor",
            "fairlead_executor",
            port=addresses.free_port(),
            settings={**common, **executor},
            folder=folder.path,
            inherit=(supervisor_fd,),
            stop_s=EXECUTOR_STOP_S,
        ),
        *(
            Service(
                f"executor-{cluster.name}",
                "fairlead_executor",
                port=addresses.free_port(),
                settings={**common, **cluster.executor_settings()},
                folder=folder.path,
            )
            for cluster in options.clusters
        ),
    ]


@contextlib.contextmanager
def _open_end_pipe() -> Iterator[int]:
    """A pipe that only this process holds open: runners that inherit the other end see it closed
    when this process ends.
    """
    inherited, ours = os.pipe()
    try:
        yield inherited
    finally:
        os.close(ours)
        os.close(inherited)


def _end_on_signals(work: asyncio.Task[None], children: Supervisor, say: Say) -> None:
    """The first signal ends everything in order, a second one immediately."""

    def on_signal() -> None:
        if work.cancelling():
            say("ending at once")
            children.hurry()
            return
        say(
            "ending: the runs of this machine are stopped and queued again"
            " (Ctrl-C again: end at once)"
        )
        work.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # `nohup fairlead up` outlives its terminal
        loop.add_signal_handler(number, on_signal)


def format_welcome(options: Options, folder: DataFolder) -> list[str]:
    """The greeting of a successful start."""
    address = f"http://127.0.0.1:{options.port}"
    command = shlex.quote(_own_command())
    if folder.path != discovery.data_folder(os.environ).absolute():
        command = f"FAIRLEAD_DATA={shlex.quote(str(folder.path))} {command}"
    return [
        "",
        f"  Fairlead runs at {address}",
        f"  Sign in, once:   {folder.sign_in_link()}",
        f"  Try it:          {command} run -- echo hello",
        *(
            f"  On {cluster.name}:".ljust(19)
            + f"{command} run --pool {cluster.name} --image busybox -- echo hello"
            for cluster in options.clusters
        ),
        f"  Data and logs:   {folder.path}",
        "",
    ]


def _own_command() -> str:
    """The command by which the same shell calls this `fairlead`."""
    own = Path(sys.argv[0]).absolute()
    found = shutil.which("fairlead")
    if found is not None and Path(found).absolute() == own:
        return "fairlead"
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)
