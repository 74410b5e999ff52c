"""A Kubernetes cluster for the tests of a folder, whose conftest.py imports these fixtures.

- `kubeconfig`: of a real Kubernetes API server with three nodes of KWOK; skips with the reason
  where its programs have not been built (`make kubernetes`). Mark tests that use it `kubernetes`.
- `control_plane`: its processes; skips where the cluster is somebody else's.
- `second_control_plane`: the processes of another cluster.

They end with the last test of the folder.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.go_programs import ProgramsUnavailable
from tests.kubernetes_control_plane import ControlPlane

__all__ = ["control_plane", "kubeconfig", "second_control_plane"]


@pytest.fixture(scope="package")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A Kubernetes control plane of this folder alone, with the nodes n0, n1 and n2."""
    if os.environ.get("FAIRLEAD_TEST_KUBECONFIG"):
        pytest.skip("the cluster of FAIRLEAD_TEST_KUBECONFIG belongs to somebody else")
    try:
        with ControlPlane(tmp_path_factory.mktemp("kubernetes")) as plane:
            plane.add_nodes("n0", "n1", "n2")
            yield plane
    except ProgramsUnavailable as error:
        pytest.skip(f"no Kubernetes control plane: {error}")


@pytest.fixture(scope="package")
def second_control_plane(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Another cluster, without nodes: its own API server on the etcd of the first one."""
    with ControlPlane(tmp_path_factory.mktemp("kubernetes"), beside=control_plane) as plane:
        yield plane


@pytest.fixture(scope="package")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of a cluster for tests."""
    if given := os.environ.get("FAIRLEAD_TEST_KUBECONFIG"):
        return Path(given)
    plane: ControlPlane = request.getfixturevalue("control_plane")
    return plane.kubeconfig
