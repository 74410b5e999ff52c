"""An executor under the service account of deploy/kubernetes/rbac.yaml, and under none."""

from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import pytest
import yaml

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.secret_values import Keyring
from fairlead_executor.backends.kubernetes.access import check_access
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import SUCCEEDED
from tests.integration.kubernetes.conftest import RealWorld
from tests.kubernetes_control_plane import write_kubeconfig
from tests.unit.executor.kubernetes.world import INGRESS, SERVICE

pytestmark = pytest.mark.kubernetes

RBAC: Final = Path(__file__).parents[3] / "deploy" / "kubernetes" / "rbac.yaml"
PATHS: Final = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/fairlead/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


def apply_manifest(world: RealWorld) -> None:
    for document in yaml.safe_load_all(RBAC.read_text()):
        try:
            world.plane.request("POST", PATHS[document["kind"]], document)
        except HTTPError as error:
            if error.code != 409:  # another test was first
                raise


def use_account(world: RealWorld, folder: Path, name: str) -> None:
    """Continue with a token of this service account."""
    path = f"{PATHS['ServiceAccount']}/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: dict[str, Any] = world.plane.request("POST", path, body)  # `Any`: JSON
    certificate = world.plane.certificate.read_bytes()
    world.kubeconfig = folder / "account.yaml"
    write_kubeconfig(world.kubeconfig, world.plane.url, certificate, token["status"]["token"])


async def test_the_manifest_permits_all_that_an_executor_does(
    world: RealWorld, tmp_path: Path
) -> None:
    apply_manifest(world)
    use_account(world, tmp_path, "fairlead-executor")
    devices = {"gpu": "example.com/gpu"}
    await world.open(
        namespaces="create", ended_pods_max=0, secrets_key="k", device_resources=devices
    )
    sealed = Keyring("k").seal("q", "x")
    container = {"name": "main", "image": "x", "env": [{"name": "P", "sealed": sealed}]}
    good = world.run("a", annotations={"run-for": "10ms"}, spec={"containers": [container]})
    serving = world.run("d", services=(SERVICE,), ingresses=(INGRESS,))
    ingresses = f"/apis/networking.k8s.io/v1/namespaces/{world.namespace}/ingresses"
    await world.until(lambda: bool(world.plane.request("GET", ingresses)["items"]))
    world.cluster.stop(serving, 1, pods.stopped("enough"))
    assert (await world.until_ended(serving)).end == pods.stopped("enough")
    stopped = world.run("b")
    elsewhere = world.run("c", annotations={"run-for": "10ms"}, namespace=f"{world.namespace}-more")
    assert (await world.until_ended(good)).end == SUCCEEDED
    assert (await world.until_ended(elsewhere)).end == SUCCEEDED
    await world.until_pod(stopped, lambda pod: pod.started_ms > 0)
    world.cluster.stop(stopped, 5, pods.stopped("enough"))
    assert (await world.until_ended(stopped)).end == pods.stopped("enough")
    world.cluster.remove([good, stopped, elsewhere, serving])
    await world.until(lambda: not world.pods())
    assert world.cluster.problem() is None


async def test_an_account_without_rights_is_reported_with_the_manifest_to_apply(
    world: RealWorld, tmp_path: Path
) -> None:
    apply_manifest(world)
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": world.namespace},
    }
    world.plane.request("POST", PATHS["ServiceAccount"], account)
    use_account(world, tmp_path, world.namespace)
    with pytest.raises(WorldError, match=r"apply deploy/kubernetes/rbac\.yaml"):
        await world.open()


async def test_the_rights_that_runs_need_and_an_account_does_not_have_are_named(
    world: RealWorld, tmp_path: Path
) -> None:
    apply_manifest(world)
    use_account(world, tmp_path, "fairlead-executor")
    assert await check_access(KubernetesSettings(kubeconfig=str(world.kubeconfig))) == []
    account = f"{world.namespace}-reader"
    metadata = {"name": account}
    world.plane.request(
        "POST",
        PATHS["ServiceAccount"],
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
    )
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}]
    world.plane.request("POST", PATHS["ClusterRole"], {"metadata": metadata, "rules": rules})
    world.plane.request(
        "POST",
        PATHS["ClusterRoleBinding"],
        {
            "metadata": metadata,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": account,
            },
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "fairlead"}],
        },
    )
    use_account(world, tmp_path, account)
    missing = await check_access(KubernetesSettings(kubeconfig=str(world.kubeconfig)))
    assert "create pods" in missing
    assert "get pods/log" in missing
