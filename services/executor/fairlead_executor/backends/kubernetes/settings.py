"""The settings of the Kubernetes backend."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec

from fairlead_common.domain.records.events import FailureCategory

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]


class PendingAction(StrEnum):
    """What to do with a pod that does not start: fail it, return it, or leave it alone."""

    FAIL = "fail"
    RETURN = "return"
    WAIT = "wait"


class PendingRule(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """Applies to pods that have waited for one of `reasons` for `after_s` seconds.

    A reason is that of a waiting container (`ImagePullBackOff`) or of the condition `PodScheduled`
    (`Unschedulable`). Without `reasons` the rule applies to every reason. `text`: it applies only
    if the message of Kubernetes contains this text.
    """

    action: PendingAction
    reasons: tuple[str, ...] = ()
    text: str = ""
    after_s: Count = 0
    category: FailureCategory = FailureCategory.START


PENDING_RULES: Final = (
    PendingRule(
        reasons=("InvalidImageName", "ErrImageNeverPull"),
        action=PendingAction.FAIL,
        category=FailureCategory.IMAGE_PULL,
    ),
    PendingRule(
        reasons=("ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"),
        action=PendingAction.FAIL,
        after_s=180,
        category=FailureCategory.IMAGE_PULL,
    ),
    PendingRule(reasons=("Unschedulable",), action=PendingAction.RETURN, after_s=60),
    PendingRule(
        reasons=("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
        action=PendingAction.FAIL,
        after_s=120,
    ),
    PendingRule(reasons=("SchedulingGated",), action=PendingAction.WAIT),
    PendingRule(action=PendingAction.RETURN, after_s=900),
)
"""The first rule that names the reason of a pod decides, as soon as its time has passed."""


class KubernetesSettings(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """How to reach a cluster, and how runs are created there.

    `kubeconfig` and `context`: whose credentials to use; without `kubeconfig` the service account
    of the pod that this process runs in, else the file that `kubectl` would use. `binding`:
    `affinity` lets kube-scheduler bind the pod to the node of its lease, `direct` sets `nodeName`.
    `namespaces`: `create` creates the namespace of a job that does not exist, `require` fails the
    job. `pod_defaults` are fields of a pod spec that a job gets if it does not set them;
    `default_image` is the image of containers that name none. `node_selector`: only nodes with
    these labels are offered. `pool_label`: the label of a node that names its pool.
    `other_priority_min`: pods of others below this priority do not reduce what is offered.
    `device_resources`: the name of the resource that a node offers for each of its devices of a
    device class, by the name of the class.
    `ended_pods_max` and `ended_pods_s`: ended pods are retained for their logs, at most this many
    and for at most this time (s). A pod that still exists `stuck_terminating_s` after its grace
    period is deleted by force, also an ended one that is not retained any more. The runs of a node
    that does not exist or is not ready for `node_lost_s` are given up; `lost_runs` says whether
    they then fail, or are reported lost, which uses up no retry. A request without an answer after
    `request_timeout_s` is repeated. If the API server does not answer a small request within
    `probe_timeout_s`, the cluster is reported as not readable.
    """

    kubeconfig: str = ""
    context: str = ""
    binding: Literal["affinity", "direct"] = "affinity"
    namespaces: Literal["require", "create"] = "require"
    pod_defaults: dict[str, Any] = msgspec.field(  # `Any`: JSON
        default_factory=lambda: {"enableServiceLinks": False}
    )
    default_image: str = ""
    node_selector: dict[str, str] = {}
    pool_label: str = "fairlead.dev/pool"
    other_priority_min: int | None = None
    device_resources: dict[str, str] = {}
    pending_rules: tuple[PendingRule, ...] = PENDING_RULES
    ended_pods_max: Count = 1_000
    ended_pods_s: Count = 3_600
    stuck_terminating_s: Count = 300
    node_lost_s: Positive = 300
    lost_runs: Literal["fail", "lost"] = "fail"
    requests_in_flight: Positive = 32
    request_timeout_s: Positive = 30
    probe_timeout_s: Positive = 10
