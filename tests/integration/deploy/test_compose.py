"""The compose file and the images agree with the code, as far as can be seen without an engine."""

import importlib
import importlib.util
import ipaddress
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fairlead_common.service.settings import Settings
from tests.conftest import ROOT
from tests.integration.deploy import files

INSTALL_S_MAX = 500
STOP_S_MIN = 30


def settings_of(service: str) -> set[str]:
    """The variables that a service reads."""
    package = importlib.import_module(f"fairlead_{service}")
    names = (item.name for item in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    module = importlib.import_module(min((n for n in names if n.endswith(".settings")), key=len))
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Settings)
    ]
    return {
        f"FAIRLEAD_{field.name.upper()}" for kind in kinds for field in msgspec.structs.fields(kind)
    }


def test_every_service_is_an_image_of_its_own_dockerfile() -> None:
    containers = files.compose().services
    for service in files.SERVICES:
        build = containers[service].build
        assert build == files.Build(context=".", dockerfile=f"services/{service}/Dockerfile")


def test_images_and_downloads_have_pinned_versions() -> None:
    images = {item.image for item in files.compose().services.values() if item.image}
    images |= {
        line.rest.split()[0]
        for service in files.SERVICES
        for line in files.dockerfile(service)
        if line.word == "FROM"
    }
    assert not [image for image in images if not re.search(r":\d", image)]


def test_only_the_gateway_is_reachable_and_only_from_this_machine() -> None:
    containers = files.compose().services
    assert {name for name, item in containers.items() if item.ports} == {"gateway"}
    assert all(port.startswith("127.0.0.1:") for port in containers["gateway"].ports)


def test_services_trust_only_the_gateway() -> None:
    for service in files.SERVICES:
        given = files.compose().services[service].environment["FAIRLEAD_CONNECTIONS"]
        assert json.loads(str(given)) == {"proxies": [files.gateway_address()]}


def test_no_other_container_can_get_the_address_of_the_gateway() -> None:
    (network,) = files.compose().networks["default"].ipam.config
    gateway = ipaddress.ip_address(files.gateway_address())
    assert gateway in ipaddress.ip_network(network.subnet)
    assert gateway not in ipaddress.ip_network(network.ip_range)
    assert str(gateway) != network.gateway


def test_every_container_has_a_stop_grace_period_and_can_be_scaled() -> None:
    for name, container in files.compose().services.items():
        assert container.container_name is None
        if name != "valkey":  # holds a cache
            assert int(str(container.stop_grace_period).removesuffix("s")) >= STOP_S_MIN, name


def test_the_scheduler_image_holds_compiled_kernels() -> None:
    """Compiled as the user and with the variables that the service has, in the last stage."""
    lines = files.dockerfile("scheduler")
    last = [f"{line.word} {line.rest}" for line in lines if line.stage == lines[-1].stage]
    compiling = last.index("RUN python -m fairlead_scheduler.kernels")
    before = [line.split()[0] for line in last[:compiling]]
    assert {"USER", "ENV"} <= set(before)
    assert files.image_environment("scheduler")["NUMBA_CACHE_DIR"] in last[1]


def test_volumes_and_mounted_files_exist() -> None:
    compose = files.compose()
    for container in compose.services.values():
        for volume in container.volumes:
            source = volume.split(":")[0]
            there = (
                (ROOT / source).exists() if source.startswith(".") else source in compose.volumes
            )
            assert there, volume


def test_services_wait_only_for_services_with_a_health_check() -> None:
    containers = files.compose().services
    for service in files.SERVICES:
        for needed in containers[service].depends_on:
            assert containers[needed].healthcheck is not None


def test_the_example_names_every_variable_that_must_be_set() -> None:
    wanted = files.placeholders(files.COMPOSE.read_text())
    assert wanted == set(files.variables(files.EXAMPLE_ENV))


@pytest.mark.parametrize("service", files.SERVICES)
def test_every_variable_is_a_setting_of_its_service(service: str) -> None:
    given = files.compose().services[service].environment.keys() | files.image_environment(service)
    assert {name for name in given if name.startswith("FAIRLEAD_")} <= settings_of(service)


@pytest.mark.parametrize("service", files.SERVICES)
def test_every_command_starts_a_module_that_exists(service: str) -> None:
    python, option, module = files.command(service)
    assert (python, option) == ("python", "-m")
    assert importlib.util.find_spec(f"{module}.__main__") is not None


@pytest.mark.parametrize("service", files.SERVICES)
def test_an_image_copies_only_existing_files_that_are_not_ignored(service: str) -> None:
    let_in = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for source, _ in files.copied(service):
        assert (ROOT / source).exists()
        assert source.split("/")[0] in let_in


@pytest.fixture(scope="module")
def image_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the images, with pip alone; each image installs the same uv into it."""
    folder = tmp_path_factory.mktemp("image")
    # The module `venv` needs ensurepip, which a Debian with only python3 and pip does not have.
    make_python = [_uv(), "venv", "--quiet", "--seed", "--python", sys.executable, "python"]
    _run(make_python, folder, dict(os.environ))
    return folder / "python" / "bin"


@pytest.mark.parametrize("service", files.SERVICES)
def test_its_install_lines_work_in_an_empty_environment(
    service: str, image_python: Path, tmp_path: Path
) -> None:
    app = tmp_path / "app"
    app.mkdir()
    for source, target in files.copied(service):
        if (ROOT / source).is_dir():
            skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / source, app / target, ignore=skipped)
        else:
            shutil.copy(ROOT / source, app / target)
    path = f"{image_python}:/usr/bin:/bin"
    environment = {**os.environ, "PATH": path, "UV_PYTHON_DOWNLOADS": "never"}
    for unwanted in ("VIRTUAL_ENV", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT"):
        environment.pop(unwanted, None)
    for line in files.dockerfile(service):
        if line.word == "RUN" and line.stage == 0:
            _run(["sh", "-ec", line.rest], app, environment)
    module = files.command(service)[-1]
    installed = str(app / ".venv" / "bin" / "python")
    _run([installed, "-I", "-c", f"import {module}.__main__"], app, environment)


def _uv() -> str:
    """The uv that tools/setup.sh made this environment with."""
    own = sorted((ROOT / ".tools").glob("uv-*/bin/uv"))
    found = str(own[-1]) if own else shutil.which("uv")
    assert found is not None, "run `make setup` first"
    return found


def _run(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_S_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{words} failed:\n{done.stdout[-3000:]}"


def test_the_images_use_a_python_version_of_the_workspace() -> None:
    assert sys.version_info >= (3, 11)
    for service in files.SERVICES:
        bases = {line.rest.split()[0] for line in files.dockerfile(service) if line.word == "FROM"}
        assert bases == {"python:3.13-slim"}
