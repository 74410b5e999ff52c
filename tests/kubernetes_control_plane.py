"""A real Kubernetes control plane for tests: etcd, kube-apiserver, kube-scheduler, nodes of KWOK.

    python -m tests.kubernetes_control_plane build    # once, about 900 CPU-seconds: make kubernetes
    python -m tests.kubernetes_control_plane run      # run one until Ctrl-C; prints its kubeconfig

The programs are built by Go from the modules that `kubernetes/go.mod` pins, into a folder below
`~/.cache/fairlead` (or `FAIRLEAD_CACHE`) that is named after `go.sum` and Go's version. Tests never
build: without that folder they are skipped and name the command. No container engine is needed, and
no container runs: `kubernetes/kwok.yaml` says how pods behave.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from fairlead_common.domain.errors import WorldError
from fairlead_standalone.processes.child_process import Command, Running
from fairlead_standalone.servers.addresses import free_port

FILES: Final = Path(__file__).parent / "kubernetes"
GO_MIN: Final = (1, 26)
BUILD_S_MAX: Final = 7_200
ANSWER_S_MAX: Final = 2.0
READY_S_MAX: Final = 60.0
PROGRAMS: Final = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
ADMIN_TOKEN: Final = "admin-of-tests"
"""Of a member of system:masters: everything is allowed."""


class ControlPlaneUnavailable(WorldError):
    """No control plane can be had here; the message says what is missing."""


class _Server:
    """A `Program` that is ready when its URL answers with 200, or at once without a URL."""

    ready_s = 90.0

    def __init__(self, argv: tuple[str, ...], folder: Path, health: str, token: str = "") -> None:
        self.name = Path(argv[0]).name
        self._argv = argv
        self._folder = folder
        self._health = health
        self._token = token

    def prepare(self) -> None:
        """See `Program`: its files are made by `ControlPlane`."""

    def command(self) -> Command:
        """See `Program`."""
        return Command(
            argv=self._argv,
            env={"PATH": os.environ.get("PATH", ""), "HOME": str(self._folder)},
            cwd=self._folder,
            stop_s=5.0,
        )

    def is_ready(self, pid: int) -> bool:
        """See `Program`."""
        if not self._health:
            return True
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(
            self._health, headers={"Authorization": f"Bearer {self._token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S_MAX, context=context) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


class ControlPlane:
    """One control plane on 127.0.0.1, its data below `folder`; `with` starts and stops it.

    Raises `ControlPlaneUnavailable` if its programs have not been built.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = find_programs()
        self._port, self._etcd_port = free_port(), free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = folder / "kubeconfig.yaml"
        self._running: list[Running] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        for server in (self._etcd(), self._api_server()):
            self._run(server)
        write_kubeconfig(self.kubeconfig, self.url, self.certificate.read_bytes(), ADMIN_TOKEN)
        for server in (self._scheduler(), self._kwok()):
            self._run(server)

    def _run(self, server: _Server) -> None:
        running = Running(server, self._folder / f"{server.name}.log")
        self._running.append(running)
        running.start()

    def stop(self) -> None:
        """Stop all of it, the last one first."""
        while self._running:
            self._running.pop().stop()

    def add_nodes(self, *names: str) -> None:
        """Add nodes of 8 cores and 32 GiB; return when KWOK has taken them over."""
        for name in names:
            self.request("POST", "/api/v1/nodes", node_object(name))
        deadline_s = time.monotonic() + READY_S_MAX
        while not all(self._is_ready(name) for name in names):
            assert time.monotonic() < deadline_s, f"nodes are not ready; see {self._folder}"
            time.sleep(0.05)

    def _is_ready(self, name: str) -> bool:
        status = self.request("GET", f"/api/v1/nodes/{name}")["status"]
        return any(item["type"] == "Ready" for item in status.get("conditions", []))

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """What the API server answers to the administrator. `Any`: JSON. Raises `HTTPError`."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": content_type},
        )
        context = ssl.create_default_context(cafile=str(self.certificate))
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            parsed: dict[str, Any] = json.loads(answer.read())
            return parsed

    @property
    def certificate(self) -> Path:
        """The certificate that clients trust."""
        return self._folder / "certificates" / "apiserver.crt"

    def _etcd(self) -> _Server:
        url, peers = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{free_port()}"
        return _Server(
            (
                *(str(self._programs / "etcd"), "--unsafe-no-fsync", "--log-level=warn"),
                *(f"--data-dir={self._folder / 'etcd'}", f"--listen-client-urls={url}"),
                *(f"--advertise-client-urls={url}", f"--listen-peer-urls={peers}"),
                *(f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}"),
            ),
            self._folder,
            f"{url}/health",
        )

    def _api_server(self) -> _Server:
        key = self._folder / "service-accounts.key"
        _run(["openssl", "genrsa", "-out", str(key), "2048"], self._folder, {}, ANSWER_S_MAX * 30)
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f'{ADMIN_TOKEN},admin,1,"system:masters"\n')
        return _Server(
            (
                str(self._programs / "kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
                f"--cert-dir={self._folder / 'certificates'}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                "--anonymous-auth=false",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--endpoint-reconciler-type=none",
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._port}",
            ),
            self._folder,
            f"{self.url}/readyz",
            ADMIN_TOKEN,
        )

    def _scheduler(self) -> _Server:
        settings = self._folder / "scheduler.json"
        settings.write_text(
            json.dumps(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "leaderElection": {"leaderElect": False},
                    "clientConnection": {
                        "kubeconfig": str(self.kubeconfig),
                        "qps": 5000,
                        "burst": 5000,
                    },
                }
            )
        )
        return _Server(
            (
                *(str(self._programs / "kube-scheduler"), f"--config={settings}"),
                *("--authentication-skip-lookup=true", "--secure-port=0"),
            ),
            self._folder,
            "",
        )

    def _kwok(self) -> _Server:
        return _Server(
            (
                *(str(self._programs / "kwok"), f"--kubeconfig={self.kubeconfig}"),
                f"--config={FILES / 'kwok.yaml'}",
            ),
            self._folder,
            "",
        )


def write_kubeconfig(path: Path, url: str, certificate: bytes, token: str) -> None:
    """Write a kubeconfig (as JSON, which is YAML) for this server and token."""
    trusted = path.with_suffix(".crt")
    trusted.write_bytes(certificate)
    cluster = {"server": url, "certificate-authority": str(trusted)}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "tests",
                "clusters": [{"name": "tests", "cluster": cluster}],
                "users": [{"name": "tests", "user": {"token": token}}],
                "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            }
        )
    )


def find_programs() -> Path:
    """The folder with the built programs. Raises `ControlPlaneUnavailable`."""
    folder = _programs_folder(_find_go())
    if not folder.exists():
        raise ControlPlaneUnavailable(
            "its programs have not been built; build them once (about 15 CPU-minutes) with: make"
            " kubernetes"
        )
    return folder


def build() -> Path:
    """Build the programs if they are not there. Raises `ControlPlaneUnavailable`."""
    go = _find_go()
    folder = _programs_folder(go)
    cache = folder.parent
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "kubernetes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache) as new:
                # A copy of the module, so that changing the branch meanwhile disturbs nothing.
                for file in ("go.mod", "go.sum"):
                    shutil.copy(FILES / file, new)
                for name, package in PROGRAMS.items():
                    started_s = time.monotonic()
                    _build_program(go, package, Path(new), name)
                    say(f"Built {name} in {time.monotonic() - started_s:.0f} s")
                (Path(new) / "bin").rename(folder)
    return folder


def _build_program(go: str, package: str, folder: Path, name: str) -> None:
    version = _pinned_version("k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".")
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(
        f"-X {place}.{name}={value}"
        for place in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in variables.items()
    )
    _run(
        [go, "build", "-trimpath", "-ldflags", f"-s -w {flags}", "-o", f"bin/{name}", package],
        folder,
        {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"},
        BUILD_S_MAX,
    )


def _pinned_version(module: str) -> str:
    match = re.search(
        rf"^(?:require |\t){re.escape(module)} (v\S+)", (FILES / "go.mod").read_text(), re.M
    )
    assert match is not None, f"go.mod requires no {module}"
    return match.group(1)


def _programs_folder(go: str) -> Path:
    cache = Path(os.environ.get("FAIRLEAD_CACHE") or Path.home() / ".cache" / "fairlead")
    key = hashlib.sha256((FILES / "go.sum").read_bytes() + _go_version(go).encode()).hexdigest()
    return cache / f"kubernetes-{key[:16]}"


def _find_go() -> str:
    """Go, new enough. Debian's may be too old, so nothing is installed here."""
    needed = ".".join(map(str, GO_MIN))
    go = shutil.which("go")
    if go is None:
        raise ControlPlaneUnavailable(
            f"Go {needed} or newer is missing; install it from https://go.dev/dl, or set"
            " FAIRLEAD_TEST_KUBECONFIG to a cluster for tests"
        )
    version = _go_version(go)
    match = re.match(r"go(\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < GO_MIN:
        raise ControlPlaneUnavailable(
            f"{go} is {version}; {needed} or newer is needed: install it from https://go.dev/dl"
        )
    return go


def _go_version(go: str) -> str:
    return _run([go, "env", "GOVERSION"], FILES, {}, 60).strip()


def _run(argv: list[str], folder: Path, env: Mapping[str, str], s_max: float) -> str:
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=s_max,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ControlPlaneUnavailable(f"{' '.join(argv)}: {error}") from error
    if done.returncode != 0:
        raise ControlPlaneUnavailable(f"{' '.join(argv)} failed: {done.stdout[-1000:].strip()}")
    return done.stdout


def node_object(name: str, cpu: str = "8", memory: str = "32Gi", **labels: str) -> dict[str, Any]:
    """A node for KWOK. `Any`: JSON."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def say(text: str) -> None:
    """Say it where pytest does not swallow it."""
    print(text, file=sys.__stderr__, flush=True)


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description="A Kubernetes control plane for tests.")
    parser.add_argument("what", choices=["build", "check", "run"])
    what = parser.parse_args().what
    try:
        if what == "build":
            say(f"The control plane for tests is in {build()}")
            return
        if what == "check":
            find_programs()
            return
        with (
            tempfile.TemporaryDirectory(prefix="fairlead-kubernetes-") as folder,
            ControlPlane(Path(folder)) as plane,
        ):
            say(f"{plane.url}; KUBECONFIG={plane.kubeconfig}; Ctrl-C ends it")
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    except ControlPlaneUnavailable as error:
        sys.exit(f"No Kubernetes control plane, so tests that need one are skipped: {error}")


if __name__ == "__main__":
    main()
