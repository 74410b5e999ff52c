"""Translates a pod spec into a command, or refuses it with a reason."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead_common.domain.records.leases import Lease
from fairlead_common.domain.scheduling import quantities
from fairlead_common.domain.secret_values import DecryptionFailed, Keyring
from fairlead_executor.domain import pods

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INHERITED: Final = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR")
_REFERENCE: Final = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")


NO_KEYS: Final = Keyring("")


class Refused(Exception):
    """This machine cannot run the job; the message says why."""


class Command(msgspec.Struct, frozen=True):
    """What to execute. `cwd` "": a scratch folder. `memory_bytes` 0: no limit."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    memory_bytes: int


class _Variable(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    value: str | None = None
    value_from: object = None
    sealed: str | None = None


class _Resources(msgspec.Struct, frozen=True):
    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None
    env_from: list[object] | None = None
    working_dir: str | None = None
    resources: _Resources | None = None
    volume_mounts: list[object] | None = None
    volume_devices: list[object] | None = None
    lifecycle: object = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: list[_Container]
    init_containers: list[object] | None = None
    ephemeral_containers: list[object] | None = None
    volumes: list[object] | None = None


_decoder: Final = msgspec.json.Decoder(_Spec)


def admit(lease: Lease, base: Mapping[str, str], keyring: Keyring = NO_KEYS) -> Command:
    """The command of the job; `base` is the environment it starts from. Raises `Refused`.

    `keyring` decrypts secret values. They are used in the environment only: `$(NAME)` of a secret
    is not expanded in a command, which every user of the machine can read.
    """
    if not bytes(lease.spec):
        raise Refused("its lease has no pod spec")
    if lease.services or lease.ingresses:
        raise Refused(pods.NO_SERVICES)
    try:
        spec = _decoder.decode(bytes(lease.spec))
    except msgspec.DecodeError as error:
        raise Refused(f"its pod spec cannot be read: {error}") from error
    _refuse_what_needs_a_cluster(spec)
    container = spec.containers[0]
    if not container.command:
        raise Refused(
            "it has no command, and this executor uses no image to take one from; set `command`"
        )
    env, public = _environment(lease, container, base, keyring)
    argv = [_expand(part, public) for part in (*container.command, *(container.args or ()))]
    for text in (*argv, *env.keys(), *env.values(), container.working_dir or ""):
        if "\0" in text:
            raise Refused("its command or environment holds a NUL character")
    if bad := [name for name in env if not name or "=" in name]:
        raise Refused(f"{bad[0]!r} is not a valid name of a variable")
    return Command(argv, env, container.working_dir or "", _memory_bytes(lease, container))


def _environment(
    lease: Lease, container: _Container, base: Mapping[str, str], keyring: Keyring
) -> tuple[dict[str, str], dict[str, str]]:
    """The environment of the command, and the part of it that holds no secret."""
    env = {**base, **lease.env}
    public = dict(env)
    for variable in container.env or ():
        name = variable.name
        public.pop(name, None)
        if variable.sealed is not None:
            try:
                env[name] = keyring.open(lease.queue, variable.sealed)
            except DecryptionFailed as error:
                raise Refused(f"its secret variable {name} cannot be opened: {error}") from error
        elif variable.value_from is not None:
            raise Refused(f"its variable {name} is taken from a cluster (valueFrom)")
        else:
            env[name] = _expand(variable.value or "", env)
            if env[name] == (open_value := _expand(variable.value or "", public)):
                public[name] = open_value
    env |= lease.env  # these override the variables of the pod
    return env, public | lease.env


def _refuse_what_needs_a_cluster(spec: _Spec) -> None:
    if not spec.containers:
        raise Refused("it has no container")
    container = spec.containers[0]
    unsupported = {
        "more than one container": len(spec.containers) > 1,
        "initContainers": spec.init_containers,
        "ephemeralContainers": spec.ephemeral_containers,
        "volumes": spec.volumes,
        "volumeMounts": container.volume_mounts,
        "volumeDevices": container.volume_devices,
        "envFrom": container.env_from,
        "lifecycle hooks": container.lifecycle,
    }
    present = [name for name, value in unsupported.items() if value]
    if present:
        raise Refused(
            f"it has {', '.join(present)}; this executor runs commands on one machine, without"
            " containers: use a Kubernetes cluster for that, or leave it out"
        )


def _memory_bytes(lease: Lease, container: _Container) -> int:
    resources = container.resources or _Resources()
    limit = (resources.limits or {}).get(
        quantities.MEMORY, (resources.requests or {}).get(quantities.MEMORY)
    )
    if limit is None:
        return lease.requests.get(quantities.MEMORY, 0)
    try:
        return quantities.parse_quantity(quantities.MEMORY, limit, round_up=True)
    except ValueError as error:
        raise Refused(f"its memory limit: {error}") from error


def _expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes does it: unknown names stay as they are, `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return env.get(match[2], match[0])

    return _REFERENCE.sub(value, text) if "$" in text else text


def base_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of every command: variables of the user and no variables of Fairlead."""
    env = {
        name: value
        for name, value in own.items()
        if name in _INHERITED or (name.startswith("LC_") and value)
    }
    ours = {os.path.normpath(Path(sys.prefix) / "bin"), os.path.normpath(Path(sys.prefix))}
    path = [
        entry
        for entry in own.get("PATH", DEFAULT_PATH).split(os.pathsep)
        if os.path.isabs(entry) and os.path.normpath(entry) not in ours
    ]
    env["PATH"] = os.pathsep.join(path) or DEFAULT_PATH
    env.setdefault("HOME", str(Path.home()))
    env.setdefault("LANG", "C.UTF-8")
    return env
