"""A Kubernetes API server in memory, with nodes that run pods as `kubernetes/kwok.yaml` says.

It has what the Kubernetes backend uses: lists by pages, watches with bookmarks, finalizers,
graceful deletion, preconditions, merge patches. It exists for what cannot be asked of a real one:
to refuse, to forget, to cut watches and to lose answers at a chosen moment. That it behaves as a
real one is shown by the contract suite of clusters, which runs against both.
"""

import asyncio
import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from aiohttp import web

from fairlead_executor.backends.kubernetes.domain import pod_manifest
from tests.kubernetes_control_plane import node_object

Json = dict[str, Any]
"""A JSON object. `Any`: JSON."""

CLUSTER_KINDS: Final = ("nodes", "namespaces", "deviceclasses", "resourceslices")
KINDS: Final = (
    *CLUSTER_KINDS,
    "pods",
    "secrets",
    "services",
    "ingresses",
    "resourceclaims",
    "configmaps",
)


class FakeApiServer:
    """One API server on a free port of 127.0.0.1; `async with` starts and stops it.

    `refusals`: codes that the next changing requests are answered with, before anything is done;
    0: not refused. `list_refusals`: codes that the next lists are answered with.
    `refused_kinds`: the message with which the creation of objects of a kind is refused, with
    `refusal_code`.
    `deletions_interrupted`: the number of next removals of pods that fail after the first of their
    two writes: the pod has a deletion timestamp and the grace period 0, but it still exists.
    `answers_lost`: the number of next changing requests that are carried out without an answer.
    `frozen`: requests get no answer, until `unfreeze`.
    `silent`: watches send nothing. `away`: connections are closed without an answer.
    `requests`: how often each method and kind was called.
    """

    def __init__(self, kubeconfig: Path, nodes: int = 3) -> None:
        self.kubeconfig = kubeconfig
        self.refusals: list[int] = []
        self.list_refusals: list[int] = []
        self.refused_kinds: dict[str, str] = {}
        self.refusal_code = 422
        self.answers_lost = self.deletions_interrupted = 0
        self.silent = self.away = self.frozen = False
        self._thawed = asyncio.Event()
        self.token = "t"
        self.log_lines: Sequence[bytes] = ()
        self.log_is_endless = False
        self.requests: Counter[tuple[str, str]] = Counter()
        self._objects: dict[str, dict[tuple[str, str], Json]] = {kind: {} for kind in KINDS}
        self._versions = itertools.count(1)
        self._version = 0
        self._events: list[tuple[int, str, str, Json]] = []
        self._forgotten = 0
        self._happened = asyncio.Event()
        self._cut = asyncio.Event()
        self._timers: set[asyncio.TimerHandle] = set()
        self.put("namespaces", {"metadata": {"name": "default"}})
        for number in range(nodes):
            node = node_object(f"n{number}")
            node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            self.put("nodes", node)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/api/v1/{path:.*}", self._handle)
        for group in ("networking.k8s.io", "resource.k8s.io"):
            app.router.add_route("*", f"/apis/{group}/v1/{{path:.*}}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        cluster = {"server": f"http://127.0.0.1:{port}"}
        context = {"cluster": "fake", "user": "fake"}
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "fake",
                    "clusters": [{"name": "fake", "cluster": cluster}],
                    "users": [{"name": "fake", "user": {"token": "t"}}],
                    "contexts": [{"name": "fake", "context": context}],
                }
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
        self.cut_watches()
        await self._runner.cleanup()

    # What tests see and do.

    def pods(self, namespace: str | None = None) -> list[Json]:
        """All pods of a namespace, or of all."""
        there = self._objects["pods"].items()
        return [pod for (its, _), pod in there if namespace in (None, its)]

    def find(self, kind: str, name: str, namespace: str = "default") -> Json | None:
        """An object, if it exists."""
        return self._objects[kind].get(("" if kind in CLUSTER_KINDS else namespace, name))

    def put(self, kind: str, item: Json) -> Json:
        """Add or replace an object; its new version."""
        metadata = item["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        metadata.setdefault("uid", f"uid-{next(self._versions)}")
        metadata.setdefault("creationTimestamp", _time())
        return self._record(kind, "MODIFIED" if key in self._objects[kind] else "ADDED", item)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Remove an object at once, finalizers or not."""
        self._record(kind, "DELETED", self._objects[kind][(namespace, name)])

    def cut_watches(self) -> None:
        """End all watches."""
        self._cut.set()
        self._cut = asyncio.Event()

    def unfreeze(self) -> None:
        """Answer the requests that came while the server was frozen, and later ones."""
        self.frozen = False
        self._thawed.set()

    def forget_versions(self) -> None:
        """End all watches; those that continue from an older version are refused with 410."""
        self._forgotten = self._version
        self._events.clear()
        self.cut_watches()

    def _record(self, kind: str, event: str, item: Json) -> Json:
        self._version = next(self._versions)
        item = json.loads(json.dumps(item))
        item["metadata"]["resourceVersion"] = str(self._version)
        key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if event == "DELETED":
            self._objects[kind].pop(key, None)
        else:
            self._objects[kind][key] = item
        self._events.append((self._version, kind, event, item))
        self._happened.set()
        self._happened = asyncio.Event()
        if kind == "pods" and event != "DELETED":
            self._play(key)
        return item

    def delete_gracefully(self, pod: Json) -> None:
        """Delete a pod as a user would."""
        self._delete_pod(pod, pod["spec"].get("terminationGracePeriodSeconds", 30))

    # The nodes.

    def _play(self, key: tuple[str, str]) -> None:
        """Arrange what its node does next with this pod."""
        pod = self._objects["pods"][key]
        metadata, phase = pod["metadata"], pod["status"]["phase"]
        annotations = metadata.get("annotations") or {}
        version = metadata["resourceVersion"]
        if "deletionTimestamp" in metadata:
            if phase in ("Pending", "Running") and pod["spec"].get("nodeName"):
                grace_s = metadata["deletionGracePeriodSeconds"]
                wait_s = grace_s if "fairlead.test/stubborn" in annotations else 0
                self._after(wait_s, key, version, lambda: self._end(key, 143))
        elif phase == "Pending" and not pod["spec"].get("schedulingGates"):
            if not pod["spec"].get("nodeName"):
                self._bind(pod)
            elif "startTime" not in pod["status"]:
                self._after(0, key, version, lambda: self._start(key))
        elif phase == "Running" and "fairlead.test/run-for" in annotations:
            code = int(annotations.get("fairlead.test/exit-code", "0"))
            seconds = 3600 if annotations["fairlead.test/run-for"] == "3600s" else 0
            self._after(seconds, key, version, lambda: self._end(key, code))

    def _after(self, wait_s: float, key: tuple[str, str], version: str, do: Any) -> None:
        def act() -> None:
            self._timers.discard(timer)
            pod = self._objects["pods"].get(key)
            if pod is not None and pod["metadata"]["resourceVersion"] == version:
                do()

        timer = asyncio.get_running_loop().call_later(wait_s, act)
        self._timers.add(timer)

    def _bind(self, pod: Json) -> None:
        affinity = pod["spec"]["affinity"]["nodeAffinity"]
        required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        node = required["nodeSelectorTerms"][0]["matchFields"][-1]["values"][0]
        if ("", node) in self._objects["nodes"]:
            self._record("pods", "MODIFIED", _with(pod, "spec", nodeName=node))

    def _start(self, key: tuple[str, str]) -> None:
        pod = self._objects["pods"][key]
        annotations = pod["metadata"].get("annotations") or {}
        refused, waiting = (annotations.get(f"fairlead.test/{it}") for it in ("refused", "waiting"))
        if refused:
            refusal = {"phase": "Failed", "reason": f"OutOf{refused}", "message": "a test says so"}
            self._record("pods", "MODIFIED", _with(pod, "status", startTime=_time(), **refusal))
            return
        state = {"running": {"startedAt": _time()}}
        if waiting:
            state = {"waiting": {"reason": waiting, "message": "a test says so"}}
        statuses = [{"name": item["name"], "state": state} for item in pod["spec"]["containers"]]
        phase = "Pending" if waiting else "Running"
        status = {"phase": phase, "startTime": _time(), "containerStatuses": statuses}
        self._record("pods", "MODIFIED", _with(pod, "status", **status))

    def _end(self, key: tuple[str, str], code: int) -> None:
        pod = self._objects["pods"][key]
        statuses = []
        for item in pod["status"].get("containerStatuses", []):
            started = item["state"].get("running", {}).get("startedAt")
            ended = {"exitCode": code, "reason": "Error", "finishedAt": _time()}
            if started:
                statuses.append({**item, "state": {"terminated": {**ended, "startedAt": started}}})
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}
        pod = self._record("pods", "MODIFIED", _with(pod, "status", **status))
        if "deletionTimestamp" in pod["metadata"]:
            self._delete_pod(pod, 0)

    # Requests.

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.match_info["path"].split("/")
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        kind, name = parts[0], parts[1] if len(parts) > 1 else ""
        self.requests[request.method, kind] += 1
        if self.frozen:
            await self._thawed.wait()
        if self.away:
            assert request.transport is not None
            request.transport.close()
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _refuse(401, "Unauthorized", "Unauthorized")
        if request.method != "GET":
            if self.refusals and (code := self.refusals.pop(0)):
                return _refuse(code, "Fault", "a test says so")
            answer = await self._change(request, kind, namespace, name)
            if self.answers_lost:
                self.answers_lost -= 1
                assert request.transport is not None
                request.transport.close()
            return answer
        if parts[2:] == ["log"]:
            return await self._log(request)
        if name:
            item = self._objects[kind].get((namespace, name))
            return _not_found(kind, name) if item is None else web.json_response(item)
        if request.query.get("watch"):
            return await self._watch(request, kind)
        if self.list_refusals:
            return _refuse(self.list_refusals.pop(0), "Fault", "a test says so")
        return self._list(request, kind, namespace)

    def _list(self, request: web.Request, kind: str, namespace: str) -> web.Response:
        keys = [key for key in sorted(self._objects[kind]) if namespace in ("", key[0])]
        start, limit = int(request.query.get("continue", 0)), int(request.query.get("limit", 500))
        page = [self._objects[kind][key] for key in keys[start : start + limit]]
        metadata = {"resourceVersion": str(self._version)}
        if start + limit < len(keys):
            metadata["continue"] = str(start + limit)
        return web.json_response({"kind": "List", "metadata": metadata, "items": page})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """A followed log does not end, as on nodes of KWOK and on a node that is lost."""
        response = web.StreamResponse()
        await response.prepare(request)
        lines = self.log_lines or [f"{request.query['container']}\n".encode(), b"second\n"]
        last = int(request.query.get("tailLines", len(lines)))
        sent_max = int(request.query.get("limitBytes", sys.maxsize))
        for line in lines[-last:] if last else []:
            await response.write(line[:sent_max])
            sent_max -= len(line[:sent_max])
            if sent_max == 0:
                break
        while self.log_is_endless and request.transport and not request.transport.is_closing():
            await response.write(bytes(1 << 16))
        if request.query.get("follow") == "true":
            await self._cut.wait()
        return response

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        position = int(request.query["resourceVersion"])
        if position < self._forgotten:
            return _refuse(410, "Expired", "too old resource version")
        response = web.StreamResponse()
        await response.prepare(request)
        cut = self._cut
        while not cut.is_set():
            happened = self._happened
            for version, its_kind, event, item in list(self._events):
                if version > position and not self.silent:
                    position = version
                    if its_kind == kind:
                        line = json.dumps({"type": event, "object": item})
                        await response.write(line.encode() + b"\n")
            # A real server encodes a Go object with all fields empty, and a list of none as null.
            bookmark: Json = {"metadata": {"resourceVersion": str(position)}, "status": {}}
            bookmark["spec"] = {"containers": None} if kind == "pods" else {}
            line = json.dumps({"type": "BOOKMARK", "object": bookmark})
            await response.write(line.encode() + b"\n")
            waits = [asyncio.ensure_future(event.wait()) for event in (happened, cut)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        return response

    async def _change(
        self, request: web.Request, kind: str, namespace: str, name: str
    ) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        if request.method == "POST":
            return self._create(kind, namespace, body)
        item = self._objects[kind].get((namespace, name))
        if item is None:
            return _not_found(kind, name)
        if request.method == "PATCH":
            return self._patch(kind, item, body)
        if kind != "pods":
            return web.json_response(self._record(kind, "DELETED", item))
        uid = body.get("preconditions", {}).get("uid", item["metadata"]["uid"])
        if uid != item["metadata"]["uid"]:
            return _refuse(409, "Conflict", "the UID in the precondition differs")
        deleted = self._delete_pod(item, body.get("gracePeriodSeconds", 30))
        if deleted is None:
            return _refuse(500, "InternalError", "etcdserver: request timed out")
        return web.json_response(deleted)

    def _create(self, kind: str, namespace: str, body: Json) -> web.Response:
        name = body["metadata"]["name"]
        if kind in self.refused_kinds:
            return _refuse(self.refusal_code, "Invalid", self.refused_kinds[kind])
        if namespace and ("", namespace) not in self._objects["namespaces"]:
            return _refuse(404, "NotFound", f'namespaces "{namespace}" not found')
        if (namespace, name) in self._objects[kind]:
            return _refuse(409, "AlreadyExists", f'{kind} "{name}" already exists')
        if kind == "pods":
            for number, container in enumerate(body["spec"]["containers"]):
                if not container.get("image"):
                    message = f"spec.containers[{number}].image: Required value"
                    return _refuse(422, "Invalid", message)
            body["status"] = {"phase": "Pending"}
        if namespace:
            body["metadata"]["namespace"] = namespace
        return web.json_response(self.put(kind, body), status=201)

    def _patch(self, kind: str, item: Json, body: Json) -> web.Response:
        item = _merge(item, body)
        metadata = item["metadata"]
        if not metadata.get("finalizers") and metadata.get("deletionGracePeriodSeconds") == 0:
            return web.json_response(self._record(kind, "DELETED", item))
        return web.json_response(self._record(kind, "MODIFIED", item))

    def _delete_pod(self, pod: Json, grace_s: int) -> Json | None:
        """The pod as deletion leaves it; None if it was interrupted."""
        metadata = dict(pod["metadata"])
        ended = pod["status"]["phase"] in ("Succeeded", "Failed")
        if ended or not pod["spec"].get("nodeName"):
            grace_s = 0
        before = metadata.get("deletionGracePeriodSeconds")
        if before is not None and before <= grace_s and (before or metadata.get("finalizers")):
            return pod
        metadata |= {"deletionTimestamp": _time(grace_s), "deletionGracePeriodSeconds": grace_s}
        pod = {**pod, "metadata": metadata}
        if grace_s or metadata.get("finalizers"):
            return self._record("pods", "MODIFIED", pod)
        if self.deletions_interrupted:
            self.deletions_interrupted -= 1
            self._record("pods", "MODIFIED", pod)
            return None
        return self._record("pods", "DELETED", pod)


def _with(item: Json, field: str, **fields: Any) -> Json:  # `Any`: JSON
    return {**item, field: {**item[field], **fields}}


def _merge(item: Any, patch: Any) -> Any:  # `Any`: JSON
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(item) if isinstance(item, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


def _refuse(code: int, reason: str, message: str) -> web.Response:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(status, status=code)


def _not_found(kind: str, name: str) -> web.Response:
    return _refuse(404, "NotFound", f'{kind} "{name}" not found')


def _time(after_s: int = 0) -> str:
    now = datetime.now(UTC) + timedelta(seconds=after_s)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def is_held(pod: Json) -> bool:
    """Whether Fairlead's finalizer still holds the pod."""
    return pod_manifest.FINALIZER in pod["metadata"].get("finalizers", [])
