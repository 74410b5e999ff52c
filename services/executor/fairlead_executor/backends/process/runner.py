"""The runner process of each run, and the server that forks it. Needs only the standard library.

    python -I -S runner.py LIFELINE NOTICES CONFINEMENT

A fork server costs one start of Python; each run after that costs a fork. It reads one request per
line from its standard input (`Request` in `forkserver.py`) and ends when that ends; its runners
continue. It reports a runner that could not claim its run on its standard output.

A runner claims its run by linking a complete, locked start record to its name, which succeeds for
only one process per run folder. The executor makes the folder: without it the run has been removed,
and the runner starts nothing. It then starts the command in a process group of its own, waits, ends
the processes that the command left, and writes the exit record. The lock on the start record is
released when the runner ends, for whatever reason. LIFELINE is the file descriptor of an inherited
pipe (-1: no pipe): when its other end is closed, the command is ended. NOTICES is a named pipe on
which a runner names its run when something has happened; losing a notice does no harm.
CONFINEMENT is the method by which commands are confined.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING or __name__ != "__main__":
    from fairlead_executor.confinement import child as confinement
else:  # as a program, this file is not part of a package
    sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "confinement"))
    import child as confinement

T = TypeVar("T")
Json = dict[str, Any]
"""Records and requests; `Any` because this file reads them with `json`."""
Problem = list[Any]
"""`[step, errno, message of the system, what could not be started]`."""

START, EXIT, STOP = "start", "exit", "stop"
STDOUT, STDERR, WORK = "stdout", "stderr", "work"

LIFELINE_GRACE_S = 2.0
"""The grace of a command when the supervisor has ended."""
SIGNAL_GRACE_S = 5.0
"""The grace of a command when its runner gets a signal without a stop record."""
CHECK_S = 5.0
"""The interval at which a runner checks for its stop record, in case a signal was lost."""
LEFTOVER_S_MAX = 5.0
SPACE_S = 0.5
"""How often a runner tries again to write on a full disk."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def serve(lifeline: int, notices: str, method: str) -> None:
    """Fork a runner per request until the standard input ends."""
    confinement.prepare(method)
    confinement.hide_memory()  # environments of runs pass through here
    reset_signals(signal.valid_signals())  # the parent process can have ignored some
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # runners leave no zombies behind
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if lifeline >= 0:
        os.set_inheritable(lifeline, False)
    gc.disable()
    gc.freeze()
    rest = b""
    while data := os.read(0, 1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            try:
                child = os.fork()
            except OSError as error:
                report_failure(request, error)
                continue
            if child == 0:
                run_and_exit(request, lifeline, notices)


def report_failure(request: Json, error: OSError) -> None:
    """Write one line to the executor: short enough for an atomic write to a pipe."""
    line = json.dumps({"run": request["run"], "error": str(error)[:500]}) + "\n"
    with contextlib.suppress(OSError):
        os.write(1, line.encode())


def run_and_exit(request: Json, lifeline: int, notices: str) -> NoReturn:
    """Run a runner from start to end; never returns."""
    try:
        Runner(request, lifeline, notices).run()
    except OSError as error:
        report_failure(request, error)
        os._exit(1)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


class Runner:
    """One run: its folder, its command, and requests to stop it."""

    def __init__(self, request: Json, lifeline: int, notices: str) -> None:
        self.request = request
        self.folder: str = request["folder"]
        self.lifeline = lifeline
        self.notices = notices
        self.command = 0
        self.status: int | None = None
        self.stop: Json | None = None
        self.kill_s: float | None = None
        self.signalled = False
        self.wakeup = -1

    def run(self) -> None:
        """Claim the run, start the command, wait for it, and record its end."""
        os.setsid()
        self.install_signal_handlers()  # the run can be stopped as soon as it is claimed
        limits = {name: self.request[name] for name in ("graceS", "memoryBytes")}
        try:
            start = self.with_space(lambda: claim(self.folder, limits | describe_process()))
        except FileNotFoundError:
            return  # the run has been removed with its folder
        if start is None:
            return
        self.detach()
        try:
            error = self.start()
        except OSError as failure:
            error = ["start", failure.errno, str(failure)[:500], ""]
        if error is None:
            write_all(start, json.dumps({"atMs": now_ms()}).encode() + b"\n", self.with_space)
            self.notify()
            self.wait()
            end_leftovers(self.command)
        end: Json = {"status": self.status, "stop": self.stop, "error": error, "atMs": now_ms()}
        if self.request.get("cgroup"):
            end["oom"] = leave_cgroup(self.request["cgroup"])
        self.with_space(lambda: write_record(self.folder, EXIT, end))
        self.notify()

    def with_space(self, write: Callable[[], T]) -> T:
        """Call `write` until the disk has space for it. Raises `OSError`: immediately for any
        other error, and for missing space when Fairlead has ended."""
        lifeline = [self.lifeline] if self.lifeline >= 0 else []
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in NO_SPACE or any(select.select(lifeline, [], [], SPACE_S)):
                    raise

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def detach(self) -> None:
        """Close the descriptors that were inherited from the executor."""
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.close(null)

    def start(self) -> Problem | None:
        """Fork and execute the command; None, or the reason why it failed."""
        set_subreaper()
        if not self.request["cwd"]:
            self.with_space(lambda: os.makedirs(self.path(WORK), 0o700, exist_ok=True))
        outputs = [
            self.with_space(functools.partial(open_output, self.path(name)))
            for name in (STDOUT, STDERR)
        ]
        if self.request["user"] is not None:
            self.change_owner(self.request["user"], outputs)
        result_in, result_out = os.pipe()
        runner = os.getpid()
        self.command = os.fork()
        if self.command == 0:
            execute(self.request, self.plan(), self.path(WORK), outputs, result_out, runner)
        os.close(result_out)
        for output in outputs:
            os.close(output)
        with contextlib.suppress(OSError):
            os.setpgid(self.command, self.command)  # the command does the same: no race
        result = b""
        while part := os.read(result_in, 4096):
            result += part
        os.close(result_in)
        if not result:
            return None
        os.waitpid(self.command, 0)
        problem: Problem = json.loads(result)
        return problem

    def change_owner(self, user: list[Any], outputs: list[int]) -> None:
        """Make the user of the command the owner of its files."""
        for output in outputs:
            os.fchown(output, user[0], user[1])
        if not self.request["cwd"] or self.request["readable"]:
            os.chmod(self.folder, 0o711)
        if not self.request["cwd"]:
            os.chown(self.path(WORK), user[0], user[1])

    def plan(self) -> confinement.Plan:
        """How the command is confined: it can use the scratch folder and the outputs of its run."""
        request = self.request
        own = [] if request["cwd"] else [self.path(WORK)]
        if request["confinement"] == confinement.LANDLOCK:
            own += [self.path(STDOUT), self.path(STDERR)]
        user = None if request["user"] is None else tuple(request["user"])
        limits = request["cpus"], request["readable"]
        return confinement.Plan(request["confinement"], request["closed"], own, user, *limits)

    def install_signal_handlers(self) -> None:
        """Let signals wake `wait`."""
        self.wakeup, wakeup_out = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(wakeup_out, False)
        signal.set_wakeup_fd(wakeup_out, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.handle_signal)

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """The executor sends SIGTERM after it wrote a stop record; others send it without one."""
        self.signalled = self.signalled or number != signal.SIGCHLD

    def wait(self) -> None:
        """Wait until the command has ended, and handle requests to stop it."""
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        if self.lifeline >= 0:
            poll.register(self.lifeline, select.POLLIN)
        while not self.reap():
            left_s = CHECK_S if self.kill_s is None else max(0.0, self.kill_s - time.monotonic())
            for descriptor, _ in poll.poll(min(left_s, CHECK_S) * 1000):
                if descriptor == self.wakeup:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self.wakeup, 4096)
                else:
                    poll.unregister(self.lifeline)
                    self.end({"kind": "stopped", "reason": "Fairlead ended"}, LIFELINE_GRACE_S)
            if not self.apply_stop_record() and self.signalled:
                end = {"kind": "stopped", "reason": "its runner process was ended by a signal"}
                self.end(end, SIGNAL_GRACE_S)
            if self.kill_s is not None and time.monotonic() >= self.kill_s:
                self.send(signal.SIGKILL)
                self.kill_s = time.monotonic() + 1.0

    def reap(self) -> bool:
        """Collect the children that have ended; True if the command is one of them."""
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if child == 0:
                return False
            if child == self.command:
                self.status = status
                return True

    def apply_stop_record(self) -> bool:
        """End the command as the stop record requests; False if there is no stop record."""
        try:
            with open(self.path(STOP), "rb") as file:
                record = json.loads(file.read())
        except FileNotFoundError:
            return False
        self.end(record["end"], record["graceS"])
        return True

    def end(self, end: Json, grace_s: float) -> None:
        """Send SIGTERM to the command; a later call can only shorten its grace."""
        if not self.command or self.status is not None:
            return
        kill_s = time.monotonic() + grace_s
        if self.stop is None:
            self.stop = end
            self.kill_s = kill_s
            self.send(signal.SIGTERM)
        elif self.kill_s is not None and kill_s < self.kill_s - 0.001:
            self.kill_s = kill_s

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.command, number)

    def notify(self) -> None:
        """Send a notice to the executor, if it has opened the pipe."""
        with contextlib.suppress(OSError):
            write_text(self.notices, self.request["run"] + "\n", os.O_NONBLOCK)


def execute(
    request: Json,
    plan: confinement.Plan,
    work: str,
    outputs: list[int],
    result_out: int,
    runner: int,
) -> NoReturn:
    """Execute the command in the process that was forked for it; never returns."""
    step, name = "start", ""
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        reset_signals(CHANGED_SIGNALS)
        if request.get("cgroup"):
            step = "cgroup"
            write_text(os.path.join(request["cgroup"], "cgroup.procs"), "0")
        step = "start"
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((null, *outputs)):
            os.dup2(source, target)
        os.umask(0o022)
        step = "confine"
        confinement.confine(plan)
        kill_with_parent(runner)  # after confinement: the kernel resets it when the user changes
        step, name = "cwd", request["cwd"] or work
        os.chdir(name)
        step, name = "exec", request["argv"][0]
        os.execvpe(name, request["argv"], request["env"])
    except OSError as error:
        if step == "exec" and error.errno == errno.ENOENT and os.path.isfile(name):
            step = "interpreter"
        text = os.strerror(error.errno or 0)
        os.write(result_out, json.dumps([step, error.errno, text, name[:500]]).encode())
    except BaseException as error:
        os.write(result_out, json.dumps([step, None, repr(error)[:500], name[:500]]).encode())
    finally:
        os._exit(127)


CHANGED_SIGNALS = (
    *(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores these
    *(signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
)
"""Signals whose handling a runner has changed."""


def reset_signals(numbers: Iterable[int]) -> None:
    """Reset these signals to their default actions, and unblock all signals."""
    for number in numbers:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


try:
    _prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
except (OSError, AttributeError):
    _prctl = None


def kill_with_parent(runner: int) -> None:
    """Let the kernel kill the command when its runner ends."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != runner:
            os._exit(127)


def set_subreaper() -> None:
    """Make the processes that the command leaves children of the runner."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_leftovers(group: int) -> None:
    """End the processes that the command started and did not wait for."""
    until_s = time.monotonic() + LEFTOVER_S_MAX
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    while time.monotonic() < until_s:
        try:
            child, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if child == 0:
            for number in children_of(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.002)


def children_of(parent: int) -> list[int]:
    """Process ids of the children of a process; empty on a system without /proc."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == parent:
                        found.append(int(name))
    return found


def claim(folder: str, record: Json) -> int | None:
    """Create the start record, complete and locked; its descriptor, or None if one exists already.

    It is locked as long as it is open. A second line, added later, records that the command runs.
    """
    own = os.path.join(folder, f"{START}.{os.getpid()}")
    descriptor = os.open(own, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        write_all(descriptor, json.dumps(record).encode() + b"\n", lambda write: write())
        os.link(own, os.path.join(folder, START))
    except OSError as error:
        os.close(descriptor)
        if error.errno == errno.EEXIST:
            return None
        raise
    finally:
        os.unlink(own)
    return descriptor


def describe_process() -> Json:
    """The fields of a start record that describe this process."""
    return {"runner": os.getpid(), "boot": BOOT_ID, "atMs": now_ms()}


def boot_id() -> str:
    """The identifier of the current boot of this machine; "" if the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


BOOT_ID = boot_id()


def write_record(folder: str, name: str, record: Json) -> None:
    """Write a record atomically: readers see all of it or nothing.

    A power cut shortly afterwards can lose it, but cannot leave a damaged one.
    """
    path = os.path.join(folder, name)
    with open(f"{path}.new", "wb") as file:
        file.write(json.dumps(record).encode())
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)


def write_all(descriptor: int, data: bytes, call: Callable[[Callable[[], int]], int]) -> None:
    """Write all of the data; `call` executes each write and handles its errors."""
    while data:
        data = data[call(functools.partial(os.write, descriptor, data)) :]


def write_text(path: str, text: str, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def open_output(path: str) -> int:
    return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)


def leave_cgroup(path: str) -> bool:
    """Remove the run's control group; whether the kernel killed a process at the memory limit."""
    oom = False
    with contextlib.suppress(OSError), open(os.path.join(path, "memory.events")) as file:
        oom = any(line.startswith("oom_kill ") and int(line.split()[1]) for line in file)
    with contextlib.suppress(OSError):
        write_text(os.path.join(path, "cgroup.kill"), "1")
    for _ in range(100):
        try:
            os.rmdir(path)
            break
        except OSError as error:
            if error.errno != errno.EBUSY:
                break
            time.sleep(0.01)
    return oom


def now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3])
