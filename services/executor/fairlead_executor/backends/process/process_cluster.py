"""The process backend: this machine is the cluster and has one node.

The folders are the source of truth. `ProcessCluster` holds a copy, which notices of the runners and
a check of all live runs every `CHECK_S` bring up to date. Files are small and local, so they are
read and written on the event loop; slow operations (removing folders, measuring memory) run in a
thread.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.ids import GroupId, RunId, run_id
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_common.domain.scheduling import quantities
from fairlead_common.domain.secret_values import Keyring
from fairlead_common.service import clock
from fairlead_common.service.json_logging import run_fields
from fairlead_executor.backends.process import (
    admission,
    cgroup,
    isolation,
    logs,
    machine,
    processes,
    runner,
)
from fairlead_executor.backends.process.folders import Folders
from fairlead_executor.backends.process.forkserver import Failure, ForkServer, Request
from fairlead_executor.backends.process.group_files import GroupFiles
from fairlead_executor.backends.process.isolation import Isolation
from fairlead_executor.backends.process.retained_folders import RetainedFolders
from fairlead_executor.confinement.choice import choose
from fairlead_executor.domain import pods, run_logs
from fairlead_executor.domain.cluster_protocol import GroupFile
from fairlead_executor.domain.pods import End, Phase, Pod
from fairlead_executor.service.settings import ExecutorSettings

CHECK_S: Final = 1.0
MEMORY_S: Final = 0.5
TRIM_S: Final = 5.0
LOCK_S_MAX: Final = 15.0
"""How long to wait for the lock of an executor that was fenced."""
REMOVALS_MAX: Final = 100
"""The number of folders that one call in a thread moves; the next executor moves the remainder."""
BEGIN_MS_MAX: Final = 60_000
"""A run that no runner has claimed within this time after its request never starts."""

_logger = logging.getLogger("fairlead.executor")


class ProcessCluster:
    """A `Cluster`; see `cluster_protocol.py`. Created by `open`."""

    backend = "process"
    stops_with_executor = True

    def __init__(
        self,
        folders: Folders,
        node: Node,
        retained: RetainedFolders,
        isolation: Isolation,
        base: Mapping[str, str],
        settings: ExecutorSettings,
    ) -> None:
        self.folders = folders
        self._nodes = [node]
        self._retained = retained
        self._isolation = isolation
        self._base = base
        self._keyring = Keyring(settings.secrets_key)
        self._output_bytes_max = settings.output_bytes_max
        self._groups = cgroup.find(limit_cpu=settings.limit_cpu)
        self._pods: dict[RunId, Pod] = {}
        self._group_files = GroupFiles(folders, settings.node_address, self._is_live)
        self._requested_ms: dict[RunId, int] = {}
        """When each run that is not claimed yet was requested."""
        self._without_space: list[Request] = []
        """Requests of runs whose folders could not be created on a full disk."""
        self._memory: dict[RunId, tuple[int, int]] = {}
        """The process id of the runner and the memory limit of each run that is measured."""
        self._changed: dict[RunId, None] = {}
        self._changed_event = asyncio.Event()
        self._removals: deque[RunId] = deque()
        self._removal = asyncio.Event()
        notices = folders.root / "notices"
        self._notices = _open_notices(notices)
        self._rest = b""
        self.server = ForkServer(
            notices,
            settings.supervisor_fd,
            isolation.choice.method,
            self._handle_failure,
            self._handle_server_end,
        )
        asyncio.get_running_loop().add_reader(self._notices, self._read_notices)

    @classmethod
    async def open(cls, settings: ExecutorSettings, log_id: str) -> "ProcessCluster":
        """The cluster with all runs of its folder. Raises `WorldError`, `SettingsError`.

        Only one executor at a time is permitted to use the folder, and the folder belongs to one
        log: with another log, no run in it would have a lease, and all would be stopped.
        """
        root = executor_folder(settings)
        node = machine.this_machine(
            settings.executor, settings.pool, settings.labels, settings.resources
        )
        folders = Folders(root, node.name, settings.node_address)
        lock = await _lock(root)
        try:
            _check_log(folders, log_id)
            retained = RetainedFolders(folders.retained, settings.kept.runs, settings.kept.bytes)
            await asyncio.to_thread(retained.load)
            isolated = await asyncio.to_thread(_isolation, settings, folders)
            base = admission.base_environment(os.environ)
            cluster = cls(folders, node, retained, isolated, base, settings)
        except BaseException:
            os.close(lock)
            raise
        cluster._lock = lock
        for run in folders.all():
            cluster._refresh(run)
        cluster._check_live_runs()
        return cluster

    _lock: int = -1

    @property
    def pods(self) -> Mapping[RunId, Pod]:
        """See `Cluster`."""
        return self._pods

    def nodes(self) -> Sequence[Node]:
        """See `Cluster`."""
        return self._nodes

    def problem(self) -> str | None:
        """See `Cluster`."""
        return None

    def changes(self, now_ms: int) -> Collection[RunId]:
        """See `Cluster`."""
        self._changed_event.clear()
        changed, self._changed = self._changed, {}
        return changed.keys()

    async def changed(self) -> None:
        """See `Cluster`."""
        await self._changed_event.wait()

    def create(self, leases: Sequence[Lease], now_ms: int) -> None:
        """See `Cluster`."""
        requests: list[Request] = []
        for given in leases:
            run = run_id(given.job_id, given.run)
            if run in self._pods:
                continue
            lease, readable = self._group_files.prepare(given)
            user = self._isolation.user_of(lease.queue)
            base = self._base if user is None else {**self._base, **user.environment}
            try:
                command = admission.admit(lease, base, self._keyring)
            except admission.Refused as error:
                self.prevent_start(run, pods.failed(FailureCategory.ADMISSION, str(error)), now_ms)
                continue
            self._put(Pod(run, Phase.CREATED, self._nodes[0].name, grace_s=lease.grace_s))
            self._requested_ms[run] = now_ms
            requests.append(self._request(run, command, lease, user, readable))
        self._group_files.forget()
        self._start(requests)

    def write_group_file(self, group: GroupFile) -> None:
        """See `Cluster`."""
        self._group_files.write(group)

    def retain_groups(self, groups: Collection[GroupId]) -> None:
        """See `Cluster`: group files are in the folders of runs."""

    def stop(self, run: RunId, grace_s: int, end: End) -> None:
        """See `Cluster`."""
        pod = self._pods.get(run)
        if pod is None or not pod.live:
            return
        try:
            self.folders.request_stop(run, grace_s, end)
        except OSError as error:
            _logger.error(
                "cannot write the request to stop %s: %s", run, error, extra=run_fields(run)
            )
            return  # the pod is not marked as stopping, so the executor calls this again
        self._refresh(run)

    def prevent_start(self, run: RunId, end: End, now_ms: int, namespace: str = "default") -> None:
        """See `Cluster`."""
        try:
            self.folders.prevent_start(run, end, now_ms)
        except OSError as error:
            _logger.error(
                "cannot record that %s never starts: %s", run, error, extra=run_fields(run)
            )
            if error.errno in runner.NO_SPACE:
                return  # the next check tries again; a runner can still be waiting to claim it
            if self.folders.read_start(run) is None:
                self._put(Pod(run, Phase.ENDED, ended_ms=now_ms, end=end))
                return
        self._requested_ms.pop(run, None)
        self._refresh(run)

    def remove(self, runs: Sequence[RunId]) -> None:
        """See `Cluster`."""
        for run in runs:
            pod = self._pods.get(run)
            if pod is not None and not pod.live:
                del self._pods[run]
                self._changed.pop(run, None)
                self._removals.append(run)
        self._removal.set()

    async def logs(self, run: RunId, request: run_logs.LogRequest) -> AsyncIterator[bytes]:
        """See `Cluster`."""
        path = self.folders.find_output(run, request.stream.value)
        if request.since_ms is not None:
            raise run_logs.NoLineTimes("processes write to files, which have no times of lines")

        def has_ended() -> bool:
            pod = self._pods.get(run)
            return pod is None or not pod.live

        async for part in logs.read(path, request, has_ended, self._output_bytes_max):
            yield part

    async def log_end(self, run: RunId, request: run_logs.LogEndRequest) -> run_logs.LogEnd:
        """See `Cluster`."""
        path = self.folders.find_output(run, request.stream.value)
        return await logs.read_end(path, request, self._output_bytes_max)

    async def run(self) -> None:
        """See `Cluster`: check live runs, limit their memory and outputs, move removed folders."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_periodically(), name="check")
            tasks.create_task(self._limit_memory(), name="memory")
            tasks.create_task(self._trim_outputs(), name="outputs")
            tasks.create_task(self._retain_removed(), name="removals")

    async def close(self) -> None:
        """See `Cluster`."""
        asyncio.get_running_loop().remove_reader(self._notices)
        os.close(self._notices)
        self.server.close()
        os.close(self._lock)

    # The state of runs.

    def _request(
        self,
        run: RunId,
        command: admission.Command,
        lease: Lease,
        user: isolation.User | None,
        readable: Sequence[str],
    ) -> Request:
        groups, cpu_milli = self._groups, lease.requests.get(quantities.CPU, 0)
        group = groups.make(run, command.memory_bytes, cpu_milli) if groups else ""
        by_group = group and groups and groups.limits_cpu
        return Request(
            run=run,
            folder=str(self.folders.folder(run)),
            argv=command.argv,
            env=command.env,
            grace_s=lease.grace_s,
            memory_bytes=command.memory_bytes if not group else 0,
            cwd=command.cwd,
            cgroup=group,
            confinement=self._isolation.choice.method,
            closed=self._isolation.closed,
            user=None if user is None else (user.uid, user.gid, user.groups),
            readable=readable,
            cpus=[] if by_group else self._isolation.processors.assign(run, cpu_milli),
        )

    def _start(self, requests: Sequence[Request]) -> None:
        """Create the folders of these runs and request their runners. On a full disk, the next
        check tries again."""
        ready: list[Request] = []
        for request in requests:
            try:
                self.folders.create(request.run)
            except OSError as error:
                if error.errno in runner.NO_SPACE:
                    self._without_space.append(request)
                else:
                    self._handle_failure(Failure(request.run, str(error)))
            else:
                ready.append(request)
        if ready:
            try:
                self.server.start(ready)
            except OSError as error:
                for request in ready:
                    self._handle_failure(Failure(request.run, str(error)))

    def _is_live(self, run: RunId) -> bool:
        pod = self._pods.get(run)
        return pod is not None and pod.live

    def _refresh(self, run: RunId) -> None:
        """Update the pod from the folder of the run."""
        pod = self.folders.read_pod(run)
        if pod is None:
            return  # requested, and not claimed yet
        self._requested_ms.pop(run, None)
        if pod.phase is Phase.ENDED:
            self._memory.pop(run, None)
            self._isolation.processors.release(run)
        elif run not in self._memory:
            start = self.folders.read_start(run)
            if start is not None and start.memory_bytes:
                self._memory[run] = (start.runner, start.memory_bytes)
        if self._pods.get(run) != pod:
            self._put(pod)

    def _put(self, pod: Pod) -> None:
        self._pods[pod.run] = pod
        self._changed[pod.run] = None
        self._changed_event.set()

    def _read_notices(self) -> None:
        """Update the pods of the runs that runners have named on the pipe."""
        try:
            data = os.read(self._notices, 1 << 20)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in dict.fromkeys(lines):
            run = RunId(line.decode("ascii", "replace"))
            if run in self._pods:
                self._refresh(run)

    def _handle_failure(self, failure: Failure) -> None:
        """Prevent the start of a run that its runner could not claim."""
        if failure.run not in self._requested_ms:
            return  # its start was prevented meanwhile
        end = pods.returned(f"this machine could not start another process: {failure.error}")
        self.prevent_start(failure.run, end, clock.now_ms())

    def _handle_server_end(self) -> None:
        """Prevent the start of runs that the server had not started."""
        end = pods.lost("the process that starts runs was killed before it had started this one")
        for run in list(self._requested_ms):
            self.prevent_start(run, end, clock.now_ms())

    async def _check_periodically(self) -> None:
        while True:
            self._check_live_runs()
            await asyncio.sleep(CHECK_S)

    def _check_live_runs(self) -> None:
        """Find what no notice reports: runners that were killed, runs that were never claimed."""
        now_ms = clock.now_ms()
        waiting, self._without_space = self._without_space, []
        self._start([request for request in waiting if request.run in self._requested_ms])
        for run, pod in list(self._pods.items()):
            if not pod.live:
                continue
            requested_ms = self._requested_ms.get(run)
            if requested_ms is not None and now_ms - requested_ms > BEGIN_MS_MAX:
                self.prevent_start(run, pods.lost("it was not started within 60 s"), now_ms)
            elif (
                requested_ms is None and pod.phase is Phase.RUNNING and self.folders.has_runner(run)
            ):
                continue
            else:
                self._record_lost_run(run)
                self._refresh(run)

    def _record_lost_run(self, run: RunId) -> None:
        """If the record cannot be written, for example on a full disk, the next check retries."""
        try:
            self.folders.record_lost_run(run)
        except OSError as error:
            _logger.error("cannot record that %s is lost: %s", run, error, extra=run_fields(run))

    async def _limit_memory(self) -> None:
        while True:
            await asyncio.sleep(MEMORY_S)
            if not self._memory:
                continue
            for run, used_bytes in await asyncio.to_thread(
                processes.find_over_limit, dict(self._memory)
            ):
                limit_bytes = self._memory.get(run, (0, 0))[1]
                reason = (
                    f"it used {used_bytes >> 20} MiB of memory;"
                    f" its limit is {limit_bytes >> 20} MiB"
                )
                self.stop(run, 0, pods.failed(FailureCategory.OOM, reason))

    async def _trim_outputs(self) -> None:
        while True:
            await asyncio.sleep(TRIM_S)
            folders = [
                self.folders.folder(run)
                for run, pod in self._pods.items()
                if pod.phase is Phase.RUNNING
            ]
            if folders:
                await asyncio.to_thread(logs.trim_outputs, folders, self._output_bytes_max)

    async def _retain_removed(self) -> None:
        while True:
            await self._removal.wait()
            self._removal.clear()
            while self._removals:
                count = min(len(self._removals), REMOVALS_MAX)
                runs = [self._removals.popleft() for _ in range(count)]
                await asyncio.to_thread(self._retain, runs)

    def _retain(self, runs: list[RunId]) -> None:
        for run in runs:
            try:
                self.folders.retain(run)
            except OSError as error:
                _logger.warning(
                    "the folder of %s cannot be moved: %s", run, error, extra=run_fields(run)
                )
                continue
            self._retained.add(self.folders.retained / run)


def executor_folder(settings: ExecutorSettings) -> Path:
    """The folder of this executor."""
    return Path(settings.data).absolute() / "executor" / settings.executor


def _isolation(settings: ExecutorSettings, folders: Folders) -> Isolation:
    """How runs are confined. Blocks while it tests the methods. Raises `SettingsError`."""
    data = Path(settings.data).absolute()
    users = isolation.find_users(settings.job_users, data)
    if users:
        isolation.make_searchable((data, data / "executor", folders.root, folders.runs))
    choice = choose(settings.confinement, data)
    report = _logger.info if choice.confines else _logger.warning
    report("%s", isolation.describe(choice))
    cpus = sorted(machine.processors()) if settings.limit_cpu else []
    return Isolation(choice, isolation.closed_paths(data, os.environ), users, cpus)


def _open_notices(path: Path) -> int:
    """The named pipe for notices of runners; opened for writing as well, so it has no end."""
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


async def _lock(root: Path) -> int:
    """Lock the folder for this executor until the descriptor is closed."""
    descriptor = os.open(root / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        async with asyncio.timeout(LOCK_S_MAX):
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return descriptor
                await asyncio.sleep(0.1)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, TimeoutError):
            raise WorldError(
                f"another executor uses {root}; end it first, or give this one another folder"
                " (FAIRLEAD_DATA) or name (FAIRLEAD_EXECUTOR)"
            ) from error
        raise


def _check_log(folders: Folders, log_id: str) -> None:
    path = folders.root / "log"
    known = path.read_text().strip() if path.exists() else log_id
    if known != log_id and folders.all():
        raise WorldError(
            f"the runs in {folders.runs} belong to another log ({known}, not {log_id}); remove that"
            " folder if they do not matter any more"
        )
    new = path.with_suffix(".new")
    new.write_text(f"{log_id}\n")
    new.rename(path)
