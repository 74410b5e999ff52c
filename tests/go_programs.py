"""Programs for tests that Go builds from pinned modules: a Kubernetes control plane, kubectl, Helm.

    python -m tests.go_programs build    # once, about 1,000 CPU-seconds: make kubernetes
    python -m tests.go_programs check    # say which of them are missing

Each `GoPrograms` is a folder with `go.mod` and `go.sum`. What it builds is kept in a folder below
`~/.cache/fairlead` (or `FAIRLEAD_CACHE`) that is named after `go.sum` and Go's version. Tests never
build: without that folder they are skipped and name the command. No container engine is needed.
"""

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead_common.domain.errors import WorldError

ROOT: Final = Path(__file__).parent
GO_MIN: Final = (1, 26)
BUILD_S_MAX: Final = 7_200


class ProgramsUnavailable(WorldError):
    """The programs cannot be had here; the message says what is missing."""


class GoPrograms(msgspec.Struct, frozen=True):
    """What one Go module builds.

    `folder`: where go.mod and go.sum are. `packages`: program -> its package. `version_of`: the
    module whose version the programs report, in the variables of Kubernetes. `copies`: name ->
    (module, folder in it) of further files that are kept beside the programs.
    """

    name: str
    folder: Path
    packages: Mapping[str, str]
    version_of: str = ""
    copies: Mapping[str, tuple[str, str]] = {}

    def find(self) -> Path:
        """The folder with the built programs. Raises `ProgramsUnavailable`."""
        folder = self._cache(_find_go())
        if not folder.exists():
            raise ProgramsUnavailable(
                f"the programs of {self.name} have not been built; build them once (up to 15"
                " CPU-minutes) with: make kubernetes"
            )
        return folder

    def build(self) -> Path:
        """Build the programs if they are not there. Raises `ProgramsUnavailable`."""
        go = _find_go()
        folder = self._cache(go)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f"{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=folder.parent) as new:
                    self._build(go, Path(new))
                    (Path(new) / "bin").rename(folder)
        return folder

    def _build(self, go: str, module: Path) -> None:
        """Build all of it below `bin` in a copy of the module, so that changing the branch
        meanwhile disturbs nothing."""
        for file in ("go.mod", "go.sum"):
            shutil.copy(self.folder / file, module)
        flags = f"-s -w {self._version_flags()}"
        for name, package in self.packages.items():
            started_s = time.monotonic()
            _run(
                [go, "build", "-trimpath", "-ldflags", flags, "-o", f"bin/{name}", package],
                module,
                {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"},
                BUILD_S_MAX,
            )
            say(f"Built {name} in {time.monotonic() - started_s:.0f} s")
        for name, (package, path) in self.copies.items():
            _run([go, "mod", "download", package], module, {}, BUILD_S_MAX)
            words = [go, "list", "-m", "-f", "{{.Dir}}", package]
            source = Path(_run(words, module, {}, BUILD_S_MAX).strip()) / path
            shutil.copytree(source, module / "bin" / name)

    def _version_flags(self) -> str:
        if not self.version_of:
            return ""
        version = re.search(
            rf"^(?:require |\t){re.escape(self.version_of)} (v\S+)",
            (self.folder / "go.mod").read_text(),
            re.M,
        )
        assert version is not None, f"go.mod requires no {self.version_of}"
        major, minor, _ = version[1].removeprefix("v").split(".")
        variables = {"gitVersion": version[1], "gitMajor": major, "gitMinor": minor}
        return " ".join(
            f"-X {place}.{name}={value}"
            for place in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
            for name, value in variables.items()
        )

    def _cache(self, go: str) -> Path:
        cache = Path(os.environ.get("FAIRLEAD_CACHE") or Path.home() / ".cache" / "fairlead")
        go_sum = (self.folder / "go.sum").read_bytes()
        key = hashlib.sha256(go_sum + _go_version(go).encode()).hexdigest()
        return cache / f"{self.name}-{key[:16]}"


CONTROL_PLANE: Final = GoPrograms(
    name="kubernetes",
    folder=ROOT / "kubernetes",
    packages={
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    },
    version_of="k8s.io/kubernetes",
)
KUBERNETES_TOOLS: Final = GoPrograms(
    name="kubernetes-tools",
    folder=ROOT / "kubernetes_tools",
    packages={
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    },
    version_of="k8s.io/kubernetes",
)
HELM: Final = GoPrograms(
    name="helm",
    folder=ROOT / "helm",
    packages={"helm": "helm.sh/helm/v4/cmd/helm"},
    copies={"gateway-api": ("sigs.k8s.io/gateway-api", "config/crd/standard")},
)


def _find_go() -> str:
    """Go, new enough. Debian's may be too old, so nothing is installed here."""
    needed = ".".join(map(str, GO_MIN))
    go = shutil.which("go")
    if go is None:
        raise ProgramsUnavailable(f"Go {needed} or newer is missing; see https://go.dev/dl")
    version = _go_version(go)
    match = re.match(r"go(\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < GO_MIN:
        raise ProgramsUnavailable(
            f"{go} is {version}; {needed} or newer is needed: see https://go.dev/dl"
        )
    return go


def _go_version(go: str) -> str:
    return _run([go, "env", "GOVERSION"], ROOT, {}, 60).strip()


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
        raise ProgramsUnavailable(f"{' '.join(argv)}: {error}") from error
    if done.returncode != 0:
        raise ProgramsUnavailable(f"{' '.join(argv)} failed: {done.stdout[-1000:].strip()}")
    return done.stdout


def say(text: str) -> None:
    """Say it where pytest does not swallow it."""
    print(text, file=sys.__stderr__, flush=True)


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description="Programs for tests that Go builds.")
    parser.add_argument("what", choices=["build", "check"])
    what = parser.parse_args().what
    missing = False
    for programs in (CONTROL_PLANE, KUBERNETES_TOOLS, HELM):
        try:
            if what == "build":
                say(f"{programs.name} for tests is in {programs.build()}")
            else:
                programs.find()
        except ProgramsUnavailable as error:
            say(f"No {programs.name}, so tests that need it are skipped: {error}")
            missing = True
    sys.exit(missing)


if __name__ == "__main__":
    main()
