"""The Kubernetes clusters that `fairlead up` is given: names, files and what is missing."""

import json
from pathlib import Path

import pytest

from fairlead_common.domain.errors import WorldError
from fairlead_standalone.service import kubernetes_clusters


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A file; whether it is a kubeconfig is found out later."""
    file = tmp_path / "a=b.yaml"
    file.touch()
    return file


def test_a_cluster_without_a_name_is_called_kubernetes(kubeconfig: Path) -> None:
    (cluster,) = kubernetes_clusters.read_clusters([str(kubeconfig)], {})
    found = cluster.executor_settings()
    assert (found["FAIRLEAD_EXECUTOR"], found["FAIRLEAD_POOL"]) == ("kubernetes", "kubernetes")
    assert json.loads(found["FAIRLEAD_KUBERNETES"])["kubeconfig"] == str(kubeconfig)


def test_each_named_cluster_has_a_pool_of_its_name(kubeconfig: Path) -> None:
    found = kubernetes_clusters.read_clusters([f"east={kubeconfig}", f"west={kubeconfig}"], {})
    assert [cluster.executor_settings()["FAIRLEAD_POOL"] for cluster in found] == ["east", "west"]


def test_other_settings_of_the_backend_hold_for_the_cluster(kubeconfig: Path) -> None:
    environment = {"FAIRLEAD_KUBERNETES": '{"binding": "direct"}'}
    (cluster,) = kubernetes_clusters.read_clusters([str(kubeconfig)], environment)
    assert json.loads(cluster.executor_settings()["FAIRLEAD_KUBERNETES"])["binding"] == "direct"


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match=r"missing\.yaml does not exist. Give a file"):
        kubernetes_clusters.read_clusters([str(tmp_path / "missing.yaml")], {})


def test_two_clusters_of_one_name_are_refused(kubeconfig: Path) -> None:
    with pytest.raises(WorldError, match="two clusters have the name 'kubernetes'"):
        kubernetes_clusters.read_clusters([str(kubeconfig), str(kubeconfig)], {})


def test_a_cluster_cannot_have_the_name_of_this_machine(kubeconfig: Path) -> None:
    with pytest.raises(WorldError, match="'local' is the name of the executor of this machine"):
        kubernetes_clusters.read_clusters([f"local={kubeconfig}"], {})


def test_without_the_extra_the_install_line_is_named() -> None:
    with pytest.raises(WorldError, match=r"pip install 'fairlead-executor\[kubernetes\]'"):
        kubernetes_clusters.check_installed(lambda _: None)
