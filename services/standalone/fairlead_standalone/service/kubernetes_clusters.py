"""The Kubernetes clusters of `fairlead up --kubeconfig [NAME=]FILE`, beside this machine."""

import asyncio
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.service import settings
from fairlead_common.service.settings import SettingsError
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.service.settings import NAME, ExecutorSettings
from fairlead_standalone.processes.process_output import Say

DEFAULT_NAME: Final = "kubernetes"
PACKAGES: Final = ("aiohttp", "kubernetes_asyncio")
CHECK_S_MAX: Final = 60.0
_NAMED: Final = re.compile(f"(?P<name>{NAME.pattern})=(?P<file>.+)")


class KubernetesCluster(msgspec.Struct, frozen=True):
    """A cluster with an executor of its own. `name` is that of the executor and of its pool."""

    name: str
    kubernetes: KubernetesSettings

    def executor_settings(self) -> dict[str, str]:
        """What its executor finds in its environment."""
        return {
            "FAIRLEAD_BACKEND": "kubernetes",
            "FAIRLEAD_EXECUTOR": self.name,
            "FAIRLEAD_POOL": self.name,
            "FAIRLEAD_KUBERNETES": msgspec.json.encode(self.kubernetes).decode(),
        }


def read_clusters(
    options: Iterable[str], environment: Mapping[str, str]
) -> tuple[KubernetesCluster, ...]:
    """The clusters of these options, with the other settings of the backend from the environment.

    Raises `WorldError` for files that do not exist and for names that occur twice.
    """
    options = tuple(options)
    if not options:
        return ()
    try:
        executor = settings.load(ExecutorSettings, environment)
    except SettingsError as error:
        raise WorldError(f"settings: {error}") from error
    found: dict[str, KubernetesCluster] = {}
    for option in options:
        name, file = _split(option)
        if not file.is_file():
            raise WorldError(
                f"--kubeconfig: the file {file} does not exist. Give a file that kubectl accepts,"
                " for example ~/.kube/config."
            )
        if name == executor.executor:
            raise WorldError(
                f"--kubeconfig: {name!r} is the name of the executor of this machine. Give the"
                " cluster another name: --kubeconfig NAME=FILE"
            )
        if name in found:
            raise WorldError(
                f"--kubeconfig: two clusters have the name {name!r}. Give each a name of its own:"
                " --kubeconfig NAME=FILE"
            )
        kubernetes = msgspec.structs.replace(executor.kubernetes, kubeconfig=str(file))
        found[name] = KubernetesCluster(name, kubernetes)
    return tuple(found.values())


def _split(option: str) -> tuple[str, Path]:
    named = _NAMED.fullmatch(option)
    if named is None:
        return DEFAULT_NAME, Path(option).expanduser().absolute()
    return named["name"], Path(named["file"]).expanduser().absolute()


def check_installed(find: Callable[[str], object] = importlib.util.find_spec) -> None:
    """Raises `WorldError` if the extra of the executor is not installed."""
    missing = [package for package in PACKAGES if find(package) is None]
    if missing:
        raise WorldError(
            f"--kubeconfig needs {' and '.join(missing)}. Install it with: pip install"
            " 'fairlead-executor[kubernetes]'"
        )


async def check_access(clusters: Iterable[KubernetesCluster], say: Say) -> None:
    """Ask each cluster what its credentials permit, and report what is missing.

    Raises `WorldError` if they cannot be used. Another process asks, because the client of the API
    server needs 100 MB.
    """
    clusters = tuple(clusters)
    if clusters:
        check_installed()
    for cluster in clusters:
        file = cluster.kubernetes.kubeconfig
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "fairlead_executor.backends.kubernetes.access"),
            msgspec.json.encode(cluster.kubernetes).decode(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(CHECK_S_MAX):
                missing, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise WorldError(
                f"--kubeconfig {file}: the cluster did not answer within {CHECK_S_MAX:.0f} s."
                " Check the network, and its credential plug-in, with: kubectl auth whoami"
            ) from None
        if process.returncode != 0:
            raise WorldError(f"--kubeconfig {file}: {errors.decode(errors='replace').strip()}")
        if rights := missing.decode().split("\n")[:-1]:
            say(
                f"--kubeconfig {file}: its user is not permitted to {', '.join(rights)} in every"
                " namespace; runs in such a namespace are returned or fail. To permit it, apply"
                " deploy/kubernetes/rbac.yaml and use its service account."
            )
