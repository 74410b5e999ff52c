"""Pods, nodes and leases as tests of the Kubernetes backend need them."""

import json
from typing import Any

import msgspec

from fairlead_common.domain.ids import JobId, RunId, run_id
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.backends.kubernetes.domain import pod_manifest
from fairlead_executor.backends.kubernetes.domain.api_objects import (
    NodeObject,
    PodObject,
    node_decoder,
    pod_decoder,
)
from fairlead_executor.backends.kubernetes.domain.pod_manifest import Owner

OWNER = Owner("e", "0123456789abcdef")
JOB = JobId("a".ljust(28, "0"))
RUN: RunId = run_id(JOB, 1)

Json = dict[str, Any]
"""A JSON object. `Any`: JSON."""


def make_lease(spec: Json | None = None, **fields: Any) -> Lease:  # `Any`: fields of a lease
    """A lease of the run `RUN` on the node n0."""
    body = spec or {"containers": [{"name": "main", "image": "x"}]}
    known: Json = {"job_id": JOB, "run": 1, "queue": "q", "job_set": "s", "node": "n0"}
    return Lease(**{**known, "spec": msgspec.Raw(json.dumps(body).encode()), **fields})


def make_pod(
    status: Json | None = None, spec: Json | None = None, version: int = 1, **metadata: Any
) -> PodObject:  # `Any`: JSON
    """The pod of `RUN`, as the API server would write it."""
    body = {
        "metadata": {
            "name": RUN,
            "namespace": "default",
            "uid": "u",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {**OWNER.labels, pod_manifest.JOB: JOB, pod_manifest.RUN: "1"},
            "finalizers": [pod_manifest.FINALIZER],
            **metadata,
        },
        "spec": {"containers": [{"name": "main"}], "nodeName": "n0", **(spec or {})},
        "status": status or {"phase": "Pending"},
    }
    return pod_decoder.decode(json.dumps(body))


def make_node(name: str = "n0", ready: str = "True", **fields: Json) -> NodeObject:
    """A node of 8 cores and 32 GiB."""
    body = {
        "metadata": {"name": name, "resourceVersion": "1", **fields.get("metadata", {})},
        "spec": fields.get("spec", {}),
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return node_decoder.decode(json.dumps(body))


def terminated(code: int, reason: str = "Error", name: str = "main", at: int = 9) -> Json:
    """The status of a container that ended."""
    state = {
        "exitCode": code,
        "reason": reason,
        "startedAt": "2026-01-01T00:00:05Z",
        "finishedAt": f"2026-01-01T00:00:{at:02}Z",
    }
    return {"name": name, "state": {"terminated": state}}
