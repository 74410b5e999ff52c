"""The Helm chart makes what Kubernetes accepts and what the services understand."""

from typing import Final
from urllib.error import HTTPError

import pytest
import yaml

from tests.conftest import ROOT
from tests.integration.deploy import charts, files
from tests.integration.deploy.charted import apply
from tests.integration.deploy.charts import Object, container, named, of_kind, render
from tests.integration.deploy.conftest import Routes
from tests.integration.deploy.test_compose import settings_of
from tests.kubernetes_control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes

EVERYTHING: Final = {
    "hosts": ["fairlead.example.com", "10.0.0.7"],
    "settings": {"roles": [{"role": "viewer", "subjects": ["ann"]}], "scheduler": {"cycleS": 2}},
    "image": {"prefix": "images.example.com/fairlead", "tag": "1", "pullSecrets": ["pull"]},
    "gateway": {"className": "example", "tlsSecret": "tls", "proxies": ["10.0.0.0/8"]},
    "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
    "executors": [
        {"name": "local", "kubernetes": {"binding": "direct"}, "settings": {"heartbeatS": 3}},
        {"name": "east", "kubeconfigSecret": "east", "address": "http://east.example.com:8080"},
    ],
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"example.com/a": "b"},
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
}


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_the_api_server_accepts_every_object(
    api_server: ControlPlane, values: dict[str, object]
) -> None:
    objects = render(**values)
    assert len(objects) > 20
    for item in objects:
        applied = apply(api_server, item, dry_run=True)
        assert applied["metadata"]["name"] == item["metadata"]["name"]


def test_an_object_with_an_unknown_field_is_refused(api_server: ControlPlane) -> None:
    item = named(render(), "Service", "submit")
    with pytest.raises(HTTPError):
        apply(api_server, {**item, "spec": {**item["spec"], "prots": []}}, dry_run=True)


async def test_every_route_reaches_its_service(services: Routes) -> None:
    objects = render()
    wrong = {
        (method, path, service)
        for service, its in services.items()
        for method, path in its
        if charts.target(objects, method, path).service != service
    }
    assert not wrong


def test_the_gateway_does_not_expose_metrics() -> None:
    assert charts.target(render(), "GET", "/metrics").rewrite == "/no-such-page"


def test_variables_are_settings_of_their_service() -> None:
    for deployment in of_kind(render(**EVERYTHING), "Deployment").values():
        spec = container(deployment)
        names = {item["name"] for item in spec["env"]} - {"FAIRLEAD_SETTINGS"}
        assert names <= settings_of(spec["name"])


def test_executors_do_not_get_the_address_of_the_database() -> None:
    spec = container(named(render(), "Deployment", "executor-local"))
    keys = {item["valueFrom"]["secretKeyRef"]["key"] for item in spec["env"] if "valueFrom" in item}
    assert keys == {"logUrl", "signingKey", "secretsKey"}


def test_the_executor_is_permitted_what_the_manifest_permits() -> None:
    manifest = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rbac.yaml").read_text())
    (expected,) = (item for item in manifest if item["kind"] == "ClusterRole")
    (role,) = of_kind(render(), "ClusterRole").values()
    assert role["rules"] == expected["rules"]


def test_every_container_has_requests_and_a_memory_limit(
    documented_values: dict[str, object],
) -> None:
    own = {"requests": {"cpu": "2"}, "limits": {"memory": "9Gi"}}
    values = {**documented_values, "executors": [{"name": "a"}, {"name": "b", "resources": own}]}
    deployments = of_kind(render(**values), "Deployment")
    found = {name: container(item)["resources"] for name, item in deployments.items()}
    assert found.pop("executor-b") == own
    assert set(found) == {"submit", "scheduler", "lookout", "executor-a"}
    for name, resources in found.items():
        assert set(resources["requests"]) == {"cpu", "memory"}, name
        assert set(resources["limits"]) == {"memory"}, name


def test_only_the_executor_of_this_cluster_has_a_service_account() -> None:
    deployments = of_kind(render(**EVERYTHING), "Deployment")
    accounts = {
        name: item["spec"]["template"]["spec"].get("serviceAccountName")
        for name, item in deployments.items()
    }
    assert {name for name, account in accounts.items() if account} == {"executor-local"}
    for name, item in deployments.items():
        mounts = item["spec"]["template"]["spec"]["automountServiceAccountToken"]
        assert mounts == (name == "executor-local")


def test_a_cluster_is_added_with_its_executor_alone() -> None:
    off = {"enabled": False}
    objects = render(submit=off, scheduler=off, lookout=off)
    assert set(of_kind(objects, "Deployment")) == {"executor-local"}
    assert not of_kind(objects, "HTTPRoute")
    assert not of_kind(objects, "HorizontalPodAutoscaler")


def test_replicas_are_fixed_only_without_autoscaling() -> None:
    assert "replicas" not in named(render(), "Deployment", "submit")["spec"]
    objects = render(submit={"autoscaling": {"enabled": False}, "replicas": 5})
    assert named(objects, "Deployment", "submit")["spec"]["replicas"] == 5
    assert "submit" not in of_kind(objects, "HorizontalPodAutoscaler")


def test_a_changed_setting_replaces_the_pods() -> None:
    def annotations(objects: list[Object]) -> object:
        return named(objects, "Deployment", "submit")["spec"]["template"]["metadata"]["annotations"]

    assert annotations(render()) == annotations(render(submit={"replicas": 5}))
    assert annotations(render()) != annotations(render(settings={"logLevel": "DEBUG"}))


def test_services_trust_the_forwarded_addresses_of_the_gateway_only() -> None:
    def settings(**values: object) -> object:
        text = named(render(**values), "ConfigMap", "settings")["data"]["settings.yaml"]
        return yaml.safe_load(text).get("connections")

    assert settings() is None
    own = {"className": "x", "proxies": ["10.0.0.0/8"]}
    assert settings(gateway=own) == {"proxies": ["10.0.0.0/8"]}
    given = {"connections": {"idleS": 5}}
    assert settings(gateway=own, settings=given) == {"proxies": ["10.0.0.0/8"], "idleS": 5}


def test_executors_are_reached_by_lookout_only() -> None:
    (rule,) = named(render(), "NetworkPolicy", "executor-local")["spec"]["ingress"]
    (peer,) = rule["from"]
    lookout = named(render(), "Deployment", "lookout")["spec"]["selector"]["matchLabels"]
    assert peer == {"podSelector": {"matchLabels": lookout}}
    assert "ingress" not in named(render(), "NetworkPolicy", "scheduler")["spec"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "set gateway.className to a GatewayClass of this cluster"),
        ({"gateway": {"className": "x"}, "sumbit": {}}, "sumbit"),
        ({"gateway": {"className": "x"}, "executors": [{"name": "A b"}]}, "executors/0/name"),
        ({"gateway": {"className": "x"}, "submit": {"replicas": 0}}, "submit/replicas"),
    ],
    ids=["no gateway class", "unknown value", "bad name", "no replicas"],
)
def test_wrong_values_are_named(values: object, text: str) -> None:
    done = charts.run_helm("template", "fl", str(charts.CHART), values=values)
    assert done.returncode == 1
    assert text in done.stderr


def test_the_chart_has_the_version_of_the_product() -> None:
    chart = yaml.safe_load((charts.CHART / "Chart.yaml").read_text())
    text = (ROOT / "services" / "submit" / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in text


def test_the_user_of_the_pods_is_that_of_the_images() -> None:
    user = named(render(), "Deployment", "submit")["spec"]["template"]["spec"]["securityContext"]
    for service in files.SERVICES:
        lines = [line.rest for line in files.dockerfile(service) if "useradd" in line.rest]
        assert all(f"--uid {user['runAsUser']} fairlead" in line for line in lines)
