"""What the chart installs, run as processes of this machine against a real Kubernetes API server.

Each Deployment is one process with the command and variables of its image, and the variables and
settings file of the rendered chart. Only addresses and folders differ: Services become loopback
addresses, and the executor reads the token of the chart's service account from a kubeconfig instead
of its pod's folder.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from fairlead_standalone.servers.addresses import free_port
from tests.integration.deploy import charts, files
from tests.integration.deploy.charts import NAMESPACE, RELEASE, Object, Rule
from tests.integration.deploy.containers import Caddy, Container, Installation
from tests.kubernetes_control_plane import ControlPlane, write_kubeconfig

SECRET: Final = "fairlead"
PLURALS: Final = {
    "NetworkPolicy": "networkpolicies",
    "Gateway": "gateways",
}
CLUSTER_WIDE: Final = ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace")


def apply(plane: ControlPlane, item: Object, *, dry_run: bool = False) -> Object:
    """Server-side apply. Raises `HTTPError` if the API server refuses the object."""
    group = item["apiVersion"]
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    plural = PLURALS.get(item["kind"], f"{item['kind'].lower()}s")
    where = "" if item["kind"] in CLUSTER_WIDE else f"/namespaces/{NAMESPACE}"
    query = "?fieldManager=tests&force=true&fieldValidation=Strict"
    path = f"{root}{where}/{plural}/{item['metadata']['name']}{query}"
    return plane.request(
        "PATCH", path + ("&dryRun=All" if dry_run else ""), item, "application/apply-patch+yaml"
    )


def apply_gateway_api(plane: ControlPlane) -> None:
    """Have the API server know the kinds of the Gateway API that the chart uses."""
    resources = charts.helm().parent / "gateway-api"
    for name in ("gateways", "httproutes"):
        text = (resources / f"gateway.networking.k8s.io_{name}.yaml").read_text()
        apply(plane, yaml.safe_load(text))


class Charted(Installation):
    """A running release."""

    def __init__(
        self,
        folder: Path,
        plane: ControlPlane,
        objects: Sequence[Object],
        secret: Mapping[str, str],
    ) -> None:
        super().__init__(folder, list(charts.of_kind(objects, "Deployment")))
        self._plane = plane
        self._objects = objects
        self._secret = secret

    def _start(self) -> None:
        kubeconfig = self._install()
        (settings,) = charts.of_kind(self._objects, "ConfigMap").values()
        (self._folder / "settings.yaml").write_text(settings["data"]["settings.yaml"])
        for name, deployment in charts.of_kind(self._objects, "Deployment").items():
            self.containers[name] = self._container(name, deployment, kubeconfig)
            self._run(self.containers[name], name)
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        routes = [self._route(rule) for rule in charts.rules(self._objects)]
        server = {"listen": [f"127.0.0.1:{port}"], "routes": routes}
        configuration = {
            "admin": {"disabled": True},
            "apps": {"http": {"servers": {"gateway": server}}},
        }
        self._run(Caddy(self._folder / "gateway", port, configuration), "gateway")

    def _install(self) -> Path:
        """Give the service account of the chart its rights; the kubeconfig that uses it."""
        kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
        for item in self._objects:
            if item["kind"] in kinds:
                apply(self._plane, item)
        (account,) = (item for item in self._objects if item["kind"] == "ServiceAccount")
        token = self._plane.request(
            "POST",
            f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account['metadata']['name']}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
        kubeconfig = self._folder / "account.yaml"
        certificate = self._plane.certificate.read_bytes()
        write_kubeconfig(kubeconfig, self._plane.url, certificate, token["status"]["token"])
        return kubeconfig

    def _container(self, name: str, deployment: Object, kubeconfig: Path) -> Container:
        spec = charts.container(deployment)
        image = spec["name"]
        given = {**files.image_environment(image)}
        given |= {item["name"]: self._value(item) for item in spec["env"] if self._is_set(item)}
        places = {
            "/etc/fairlead/settings.yaml": str(self._folder / "settings.yaml"),
            "0.0.0.0": self._hosts[name],
            "/app/.venv/bin": str(Path(sys.executable).parent),
            "/var/cache/fairlead": os.environ["NUMBA_CACHE_DIR"],
        }
        places |= {
            f"{RELEASE}-{other}.{NAMESPACE}.svc": host for other, host in self._hosts.items()
        }
        for variable, value in given.items():
            for from_, to in places.items():
                value = value.replace(from_, to)
            given[variable] = value
        if "FAIRLEAD_KUBERNETES" in given:
            own = json.loads(given["FAIRLEAD_KUBERNETES"])
            given["FAIRLEAD_KUBERNETES"] = json.dumps({**own, "kubeconfig": str(kubeconfig)})
        # What Kubernetes sets besides: the pod's name, and a home.
        given |= {"HOSTNAME": name, "HOME": str(self._folder)}
        program, *words = files.command(image)
        assert program == "python"
        return Container(name, self._hosts[name], (sys.executable, *words), given)

    def _is_set(self, variable: Object) -> bool:
        """Whether the container has the variable: an optional key can be absent from the Secret."""
        reference = variable.get("valueFrom", {}).get("secretKeyRef", {})
        return not reference.get("optional") or reference["key"] in self._secret

    def _value(self, variable: Object) -> str:
        """The value of a variable, which may come from the Secret."""
        if "value" in variable:
            return str(variable["value"])
        reference = variable["valueFrom"]["secretKeyRef"]
        assert reference["name"] == SECRET
        return self._secret[reference["key"]]

    def _route(self, rule: Rule) -> dict[str, Any]:
        """What a gateway does for this rule, in Caddy's JSON."""
        path = rule.match.path
        match path.type:
            case "Exact":
                matcher: Object = {"path": [path.value]}
            case "RegularExpression":
                matcher = {"path_regexp": {"pattern": f"^{path.value}$"}}
            case _:
                matcher = {"path": [path.value, f"{path.value.rstrip('/')}/*"]}
        if rule.match.method:
            matcher["method"] = [rule.match.method]
        upstream = {"dial": f"{self._hosts[rule.service]}:8080"}
        handlers: list[Object] = [{"handler": "reverse_proxy", "upstreams": [upstream]}]
        if rule.rewrite is not None:
            handlers.insert(0, {"handler": "rewrite", "uri": rule.rewrite})
        return {"match": [matcher], "handle": handlers, "terminal": True}
