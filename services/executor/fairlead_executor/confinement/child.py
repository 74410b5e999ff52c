"""Confine a process before it executes the command of a job. Linux only; standard library only.

    python -I -S child.py METHOD FOLDER       try it: ends with 0 if FOLDER is then closed

A job runs as the user of the server, or as the user that the settings name for its queue. With
either method it cannot read or change the closed paths (the data folder of the installation), trace
processes outside its own confinement or read their memory and environment, gain rights by executing
a program, or (Landlock ABI 6) signal such processes and reach their abstract Unix sockets.

- NAMESPACES: a mount namespace in which an empty file system covers each closed folder, and
  /dev/null the sockets through which one can have programs started outside. An ordinary user needs
  a user namespace for that, with a mapping of that one user.
- LANDLOCK: file rules for everything beside the closed paths. The kernel knows only rules that
  allow, so a job cannot make, remove or rename anything directly in a folder above a closed one.

A job of root keeps about the capabilities that a container has by default.
"""

import ctypes
import errno
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

NAMESPACES, LANDLOCK, OFF = "namespaces", "landlock", "off"

ABI_MIN: Final = 2
"""Landlock of Linux 5.19. Before, a confined process could rename nothing between folders."""
SIGNAL_ABI: Final = 6
"""Landlock of Linux 6.12 keeps signals and abstract sockets inside."""

CONTROL_SOCKETS: Final = (
    "/run/systemd/private",
    "/run/user/{uid}/systemd/private",
    "/run/user/{uid}/bus",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/user/{uid}/docker.sock",
    "/run/user/{uid}/podman/podman.sock",
)
"""Sockets of services that start programs outside of the confinement."""
CONTROL_SOCKETS_OF_ROOT: Final = ("/run/dbus/system_bus_socket",)


class Plan(NamedTuple):
    """How to confine a command. `own`: paths inside closed ones that stay open to it.

    `user`: user id, group id and further groups to change to, if any. `cpus`: the processors that
    it may use, all if empty. `readable`: folders inside closed ones that it can only read.
    """

    method: str
    closed: Sequence[str] = ()
    own: Sequence[str] = ()
    user: tuple[int, int, Sequence[int]] | None = None
    cpus: Sequence[int] = ()
    readable: Sequence[str] = ()


def confine(plan: Plan) -> None:
    """Confine this process as planned, for good. Raises `OSError`."""
    if plan.cpus:
        os.sched_setaffinity(0, plan.cpus)
    ruleset = -1
    if plan.method == NAMESPACES:
        _enter_namespaces(plan)
        ruleset = _open_ruleset()
    elif plan.method == LANDLOCK:
        ruleset = _file_ruleset(plan)  # while this user can still list the folders above
    if plan.user is not None:
        uid, gid, groups = plan.user
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    elif plan.method != OFF and os.geteuid() == 0:
        _drop_capabilities()
    if plan.method != OFF or plan.user is not None:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if ruleset >= 0:
        _syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)


def landlock_abi() -> int:
    """The version of Landlock that this kernel has; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE_RULESET, None, _size(0), 1)))


# Namespaces.

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 32, 4096
_MS_REC, _MS_SLAVE = 1 << 14, 1 << 19
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_MOUNT_SETATTR = 442


_prepared = False


def prepare(method: str) -> None:
    """Prepare the process that starts runs with the steps that all runs share.

    Only root can do this; devices are then closed already for every run.
    """
    global _prepared
    if method == NAMESPACES and os.geteuid() == 0:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare")
        _mount("none", "/", _MS_REC | _MS_SLAVE)  # or mounts would show outside as well
        _close_devices()
        _prepared = True


def _enter_namespaces(plan: Plan) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        if not _prepared:
            prepare(NAMESPACES)
        _check(_libc.unshare(_CLONE_NEWNS), "unshare")
        if plan.user is None:
            _make_read_only("/sys")
    else:
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "unshare")
        _prctl(_PR_SET_DUMPABLE, 1)  # the maps of a process that is not belong to root
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            _write(f"/proc/self/{name}", text)
    for path in _control_sockets(plan.user[0] if plan.user else uid):
        _mount("/dev/null", path, _MS_BIND)
    for path in plan.closed:
        readable = [name for name in plan.readable if name.startswith(f"{path}/")]
        _cover(path, [own for own in plan.own if own.startswith(f"{path}/")] + readable)
        for name in readable:
            _make_read_only(name)


def _cover(path: str, own: Sequence[str]) -> None:
    """Cover a folder with an empty one that contains only `own`; cover a file with /dev/null."""
    if not os.path.isdir(path):
        _mount("/dev/null", path, _MS_BIND)
        return
    opened = [(name, os.open(name, os.O_PATH | os.O_DIRECTORY)) for name in own]
    _mount("tmpfs", path, _MS_NOSUID | _MS_NODEV, "tmpfs", "mode=0755,size=64k,nr_inodes=64")
    for name, descriptor in opened:
        os.makedirs(name, 0o755)
        _mount(f"/proc/self/fd/{descriptor}", name, _MS_BIND)
        os.close(descriptor)
    _mount("none", path, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _close_devices() -> None:
    """Close the devices and files by which root could leave the confinement."""
    for path in raw_devices():
        _mount("/dev/null", path, _MS_BIND)
    if os.path.exists("/proc/sysrq-trigger"):
        _mount("/dev/null", "/proc/sysrq-trigger", _MS_BIND)
    _mount("/proc/sys", "/proc/sys", _MS_BIND)
    _make_read_only("/proc/sys")


_devices: list[str] = []


def raw_devices() -> Sequence[str]:
    """Block devices, and devices that give access to them; the result is cached."""
    if not _devices:
        _devices.extend(find_raw_devices())
        _devices.append("")
    return _devices[:-1]


def find_raw_devices() -> Iterator[str]:
    """What `raw_devices` caches.

    /dev/shm is left out: it holds the shared memory of programs, files that can be many and that
    come and go meanwhile.
    """
    for folder, folders, names in os.walk("/dev"):
        if folder == "/dev":
            folders[:] = [name for name in folders if name != "shm"]
        for name in names:
            path = os.path.join(folder, name)
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                continue  # a device that was just removed
            if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and _is_raw(folder, name)):
                yield path


def _is_raw(folder: str, name: str) -> bool:
    return folder in ("/dev/bsg", "/dev/raw") or name.startswith("sg") or name in ("mem", "port")


def _control_sockets(uid: int) -> list[str]:
    """The control sockets that exist for this user, by their real paths."""
    names = [name.format(uid=uid) for name in CONTROL_SOCKETS]
    if uid == 0:
        names += CONTROL_SOCKETS_OF_ROOT
    return list({os.path.realpath(name): None for name in names if os.path.exists(name)})


def usable_control_sockets(uid: int) -> list[str]:
    """The control sockets that this process can write to."""
    return [path for path in _control_sockets(uid) if os.access(path, os.W_OK)]


def _mount(source: str, target: str, flags: int, kind: str = "", options: str = "") -> None:
    result = _libc.mount(
        source.encode(),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount {target}")


def _make_read_only(path: str) -> None:
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    _syscall(
        _MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, ctypes.byref(attributes), _size(32)
    )


# Landlock.

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_WRITE_FILE, _READ_FILE = 1 << 1, 1 << 2
_REMOVE_DIR, _REMOVE_FILE, _MAKE_CHAR, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
_MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = 1 << 9, 1 << 10, 1 << 11, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_SCOPE_ABSTRACT_UNIX_SOCKET, _SCOPE_SIGNAL = 1, 2

_CHANGES = (
    *(_REMOVE_DIR, _REMOVE_FILE, _MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO),
    *(_MAKE_SYM, _REFER, _TRUNCATE, _WRITE_FILE),
)
_ALL: Final = sum(_CHANGES) | _READ_FILE
_OF_FILES: Final = _READ_FILE | _WRITE_FILE | _TRUNCATE


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _create_ruleset(handled: int) -> int:
    abi = landlock_abi()
    scoped = _SCOPE_ABSTRACT_UNIX_SOCKET | _SCOPE_SIGNAL if abi >= SIGNAL_ABI else 0
    ruleset = _Ruleset(handled & _known(abi), 0, scoped)
    size = 24 if abi >= SIGNAL_ABI else 8
    return _syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(ruleset), _size(size), 0)


def _known(abi: int) -> int:
    return ~_TRUNCATE if abi < 3 else ~0


def _open_ruleset() -> int:
    """A ruleset for all files of the namespace that denies creating block devices."""
    ruleset = _create_ruleset(_REFER | _MAKE_BLOCK)
    _allow(ruleset, "/", _REFER)
    return ruleset


def _file_ruleset(plan: Plan) -> int:
    """A ruleset for all paths that are neither closed nor above a closed path, and for `own`."""
    known = _known(landlock_abi())
    ruleset = _create_ruleset(_ALL | _MAKE_BLOCK)
    root = os.geteuid() == 0 and plan.user is None
    hidden = {os.path.realpath(path) for path in plan.closed}
    if root:
        hidden.update(raw_devices())
    above = {folder for path in hidden for folder in _parents(path)}
    for folder in above:
        for path in _entries(folder):
            if path in hidden or path in above:
                continue
            rights = _READ_FILE if root and path in ("/proc", "/sys") else _ALL
            _allow(ruleset, path, rights & known)
    for path in plan.own:
        _allow(ruleset, path, _ALL & known)
    for path in plan.readable:
        _allow(ruleset, path, _READ_FILE)
    return ruleset


def _parents(path: str) -> Iterable[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _entries(folder: str) -> list[str]:
    """The paths directly in a folder, without links; empty if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if not entry.is_symlink()]
    except PermissionError:
        return []


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    except (FileNotFoundError, PermissionError):
        return  # it has just been removed, or is closed to this user in any case
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISDIR(mode):
            rights &= _OF_FILES
        rule = _PathBeneath(rights, descriptor)
        _syscall(_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    except OSError as error:
        if error.errno != errno.EBADFD:  # a file system that is not for rules (a pipe, a namespace)
            raise
    finally:
        os.close(descriptor)


# Capabilities.

RETAINED_CAPABILITIES: Final = (
    *(0, 1, 3, 4, 5),  # chown, dac_override, fowner, fsetid, kill
    *(6, 7, 8),  # setgid, setuid, setpcap
    *(10, 13, 18, 29, 31),  # net_bind_service, net_raw, sys_chroot, audit_write, setfcap
)
_CAPABILITY_VERSION_3 = 0x20080522


def _drop_capabilities() -> None:
    """Keep the default capabilities of a container; executed programs cannot gain others."""
    for number in range(64):
        if number in RETAINED_CAPABILITIES:
            continue
        if _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            if ctypes.get_errno() == errno.EINVAL:
                break  # the kernel has no more of them
            _check(-1, "drop capabilities")
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(ctypes.byref(header), ctypes.byref(data)), "capget")
    mask = sum(1 << number for number in RETAINED_CAPABILITIES)
    for index in range(6):
        data[index] &= mask if index < 3 else 0
    for inheritable in (2, 5):
        data[inheritable] = 0
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")


# The C library.

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

_libc = ctypes.CDLL(None, use_errno=True)
_size = ctypes.c_size_t


def hide_memory() -> None:
    """Close /proc/PID/environ and /proc/PID/mem of this process to others of the same user."""
    if sys.platform == "linux":
        _prctl(_PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def _syscall(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    _check(result, f"system call {number}")
    return result


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} ({what})")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


# Testing a method.


def attempt(method: str, folder: str) -> str:
    """Test whether a confined process is denied the folder; the reason if not, else ""."""
    folder = os.path.realpath(folder)
    parent, uid = os.getppid(), os.geteuid()
    name = os.path.join(folder, f".confinement-{os.getpid()}")
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
    result_in, result_out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            confine(Plan(method, [folder]))
            os.write(result_out, _seen(method, name, parent, uid).encode())
        except OSError as error:
            os.write(result_out, str(error).encode())
        finally:
            os._exit(0)
    os.close(result_out)
    os.waitpid(child, 0)
    os.unlink(name)
    text = os.read(result_in, 4096).decode()
    return "" if text == "closed" else text or "the attempt ended without an answer"


def _seen(method: str, name: str, parent: int, uid: int) -> str:
    try:
        os.close(os.open(name, os.O_RDONLY))
    except (FileNotFoundError, PermissionError):
        pass
    else:
        return "the data folder could still be read"
    try:
        os.close(os.open(f"/proc/{parent}/environ", os.O_RDONLY))
    except PermissionError:
        pass
    else:
        return "other processes could still be read"
    sockets = [path for path in usable_control_sockets(uid) if method == LANDLOCK]
    if sockets:
        return f"jobs could have programs started through {', '.join(sockets)}"
    return "closed"


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"error": attempt(sys.argv[1], sys.argv[2])}))
