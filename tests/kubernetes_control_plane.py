"""A real Kubernetes control plane for tests: etcd, kube-apiserver, kube-scheduler, nodes of KWOK.

    python -m tests.kubernetes_control_plane    # run one until Ctrl-C; prints its kubeconfig

`go_programs.py` builds its programs (`make kubernetes`). No container runs: `kubernetes/kwok.yaml`
says how pods behave. Of the controllers of kube-controller-manager only those run that a test
names.
"""

import contextlib
import functools
import json
import os
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from fairlead_standalone.processes.child_process import Command, RunningProcess
from fairlead_standalone.servers.addresses import free_port
from tests.go_programs import CONTROL_PLANE, KUBERNETES_TOOLS, say

FILES: Final = Path(__file__).parent / "kubernetes"
ANSWER_S_MAX: Final = 2.0
READY_S_MAX: Final = 60.0
OUTPUT: Final = ("first", "second", "third")
"""The lines that the container `main` of every pod has written on nodes of KWOK."""
ADMIN_TOKEN: Final = "admin-of-tests"
"""Of a member of system:masters: everything is allowed."""
ANY_SERVER: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts every server, and reads no certificates of this machine, which takes 50 ms."""
ANY_SERVER.check_hostname, ANY_SERVER.verify_mode = False, ssl.CERT_NONE


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
        request = urllib.request.Request(
            self._health, headers={"Authorization": f"Bearer {self._token}"}
        )
        try:
            answer = urllib.request.urlopen(request, timeout=ANSWER_S_MAX, context=ANY_SERVER)
            with answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


class ControlPlane:
    """One control plane on 127.0.0.1, its data below `folder`; `with` starts and stops it.

    `beside`: another one whose etcd this one shares, so that there are two clusters. `etcd`,
    `api_server`, `scheduler` and `kwok` can be killed, stopped and started again. Raises
    `ProgramsUnavailable` if its programs have not been built.
    """

    etcd: RunningProcess
    api_server: RunningProcess
    scheduler: RunningProcess
    kwok: RunningProcess

    def __init__(self, folder: Path, beside: "ControlPlane | None" = None) -> None:
        self._folder = folder
        self._beside = beside
        self._programs = CONTROL_PLANE.find()
        self._port = free_port()
        self._etcd_port: int = free_port() if beside is None else beside._etcd_port
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = folder / "kubeconfig.yaml"
        self._running: list[RunningProcess] = []

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
        self.etcd = self._run(self._etcd()) if self._beside is None else self._beside.etcd
        self.api_server = self._run(self._api_server())
        write_kubeconfig(self.kubeconfig, self.url, self.certificate.read_bytes(), ADMIN_TOKEN)
        self.scheduler = self._run(self._scheduler())
        self.kwok = self._run(self._kwok())

    @contextlib.contextmanager
    def controllers(self, *names: str) -> Iterator[None]:
        """These controllers of kube-controller-manager run. Raises `ProgramsUnavailable`."""
        program = KUBERNETES_TOOLS.find() / "kube-controller-manager"
        server = _Server(
            (
                *(str(program), f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"),
                *(f"--controllers={','.join(names)}", "--authentication-skip-lookup=true"),
                *("--kube-api-qps=1000", "--kube-api-burst=1000", "--secure-port=0"),
            ),
            self._folder,
            "",
        )
        running = RunningProcess(server, self._folder / f"{server.name}.log")
        running.start()
        try:
            yield
        finally:
            running.stop()

    def _run(self, server: _Server) -> RunningProcess:
        running = RunningProcess(server, self._folder / f"{server.name}.log")
        self._running.append(running)
        running.start()
        return running

    def stop(self) -> None:
        """Kill all of it, the last one first: nobody needs its data, and to stop in order takes
        seconds."""
        while self._running:
            self._running.pop().kill()

    def add_nodes(self, *names: str, labels: Mapping[str, str] | None = None) -> None:
        """Add nodes of 8 cores and 32 GiB; return when KWOK has taken them over."""
        for name in names:
            self.request("POST", "/api/v1/nodes", node_object(name, **(labels or {})))
        deadline_s = time.monotonic() + READY_S_MAX
        while not self._ready_nodes().issuperset(names):
            assert time.monotonic() < deadline_s, f"nodes are not ready; see {self._folder}"
            time.sleep(0.05)

    def until_writable(self) -> None:
        """Return when the API server can write: it connects to a new etcd a little later."""
        deadline_s = time.monotonic() + READY_S_MAX
        probe = {"metadata": {"generateName": "probe-"}}
        while True:
            try:
                self.request("POST", "/api/v1/namespaces/default/configmaps", probe)
                return
            except OSError:  # `URLError` and `HTTPError` are ones
                assert time.monotonic() < deadline_s, f"nothing can be written: {self._folder}"
                time.sleep(0.05)

    def _ready_nodes(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.request("GET", "/api/v1/nodes")["items"]
            if any(item["type"] == "Ready" for item in node["status"].get("conditions", []))
        }

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
        with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:
            parsed: dict[str, Any] = json.loads(answer.read())
            return parsed

    @functools.cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

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
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"],
            check=True,
            capture_output=True,
            timeout=60,
        )
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f'{ADMIN_TOKEN},admin,1,"system:masters"\n')
        return _Server(
            (
                str(self._programs / "kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
                f"--etcd-prefix=/{self._folder.name}",
                f"--cert-dir={self._folder / 'certificates'}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                "--anonymous-auth=false",
                "--allow-privileged=true",
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
        output = self._folder / "output.log"
        output.write_text(
            "".join(f"2026-01-01T00:00:00.000000000Z stdout F {line}\n" for line in OUTPUT)
        )
        logs = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "output"},
            "spec": {"logs": [{"containers": ["main"], "logsFile": str(output)}]},
        }
        settings = self._folder / "kwok.yaml"
        settings.write_text(f"{(FILES / 'kwok.yaml').read_text()}---\n{json.dumps(logs)}\n")
        port = free_port()
        return _Server(
            (
                *(str(self._programs / "kwok"), f"--kubeconfig={self.kubeconfig}"),
                *(f"--config={settings}", "--node-ip=127.0.0.1", f"--node-port={port}"),
                f"--server-address=127.0.0.1:{port}",
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


def node_object(name: str, cpu: str = "8", memory: str = "32Gi", **labels: str) -> dict[str, Any]:
    """A node for KWOK. `Any`: JSON."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def main() -> None:
    """See the head of this file."""
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-kubernetes-") as folder,
        ControlPlane(Path(folder)) as plane,
    ):
        say(f"{plane.url}; KUBECONFIG={plane.kubeconfig}; Ctrl-C ends it")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
