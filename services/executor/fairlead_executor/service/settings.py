"""Settings of an executor, on top of those that every service has."""

import re
from typing import Final, Literal

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.service.access_settings import Count
from fairlead_common.service.settings import Settings, SettingsError
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.backends.simulated.settings import Simulation

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


class RunFolderRetention(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """How many folders of ended runs are retained for their logs: the newest."""

    runs: Count = 10_000
    bytes: Count = 2 * 2**30


class NodeAvoidance(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """A node on which `failures` runs in a row failed to start gets no runs for `seconds` after the
    last one, or until a run starts there. With `failures` of 0 no node is avoided.
    """

    failures: Count = 3
    seconds: Count = 600


class ExecutorSettings(Settings, frozen=True, kw_only=True, rename="camel"):
    """`executor` is this executor's name: that of its cluster, its lease topic and its producer.

    `pool` and `labels`: of its nodes. `resources` replaces what the process backend finds of this
    machine (`{"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1"}`). `simulation` is the whole of
    the simulated backend, `kubernetes` that of the Kubernetes backend. `shutdown_s`: the time that
    runs have to end when the executor shuts down. `supervisor_fd`: an inherited pipe; when it
    closes, all runs must end. `output_bytes_max`: the newest bytes of each output of a run that are
    retained. `armada_names`: runs find their environment under Armada's names as well.
    `confinement`: how jobs of the process backend are separated from the installation; `auto` takes
    the first method that works here, `off` none. `job_users`: the system user for the jobs of each
    queue ("*": of queues that are not named), if this process is root's. `limit_cpu`: a run uses
    only as many processors as it requests. `address`: where lookout reaches this process, if not at
    `http_host` and `http_port`. `node_address`: where members of a group reach jobs of the process
    backend; if they run on several machines, an address of this machine.
    """

    http_port: int = 8083
    executor: str = "local"
    backend: Literal["process", "kubernetes", "simulated"] = "process"
    pool: str = "default"
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    resources: dict[str, str] = msgspec.field(default_factory=dict)
    simulation: Simulation = Simulation()
    kubernetes: KubernetesSettings = KubernetesSettings()
    heartbeat_s: float = 5.0
    shutdown_s: Count = 12
    supervisor_fd: int | None = None
    address: str = ""
    node_address: str = "127.0.0.1"
    node_avoidance: NodeAvoidance = NodeAvoidance()
    kept: RunFolderRetention = RunFolderRetention()
    output_bytes_max: Count = 256 * 2**20
    armada_names: bool = False
    confinement: Literal["auto", "namespaces", "landlock", "off"] = "auto"
    job_users: dict[str, str] = msgspec.field(default_factory=dict)
    limit_cpu: bool = True

    def check(self) -> None:
        """Raises `SettingsError` for errors that types do not find."""
        errors = []
        if not NAME.fullmatch(self.executor):
            errors.append(
                FieldError(
                    "FAIRLEAD_EXECUTOR",
                    f"{self.executor!r} is not a valid executor name: use at most 63 of a-z, 0-9, -"
                    " and ., with a letter or digit at both ends",
                )
            )
        if self.backend == "process" and not self.data:
            errors.append(
                FieldError(
                    "FAIRLEAD_DATA", "the process backend needs a folder for its runs; name one"
                )
            )
        if not 0.1 <= self.heartbeat_s <= 60:
            errors.append(FieldError("FAIRLEAD_HEARTBEAT_S", "must be from 0.1 to 60"))
        if not 0 < self.simulation.speed <= 1e6:
            errors.append(
                FieldError("FAIRLEAD_SIMULATION", "speed must be above 0, at most 1000000")
            )
        if errors:
            raise SettingsError(errors)
