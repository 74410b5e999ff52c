"""Which pods have waited too long to start, and what their runs are then reported as. Pure."""

from collections.abc import Sequence

import msgspec

from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject, find_condition
from fairlead_executor.backends.kubernetes.settings import PendingAction, PendingRule
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End


class WaitingReason(msgspec.Struct, frozen=True):
    """Why a pod does not start, in the words of Kubernetes."""

    reason: str
    message: str = ""


def find_waiting_reason(pod: PodObject) -> WaitingReason | None:
    """Why the pod waits; None if it has started or ended. An unknown reason is ""."""
    status = pod.status
    if status.phase != "Pending":
        return None
    for item in (*status.init_container_statuses, *status.container_statuses):
        waiting = item.state.waiting
        if waiting is not None and waiting.reason not in ("", "ContainerCreating"):
            if waiting.reason == "PodInitializing":
                continue
            return WaitingReason(waiting.reason, waiting.message)
    scheduled = find_condition(status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return WaitingReason(scheduled.reason, scheduled.message)
    return WaitingReason("")


def choose_rule(waiting: WaitingReason, rules: Sequence[PendingRule]) -> PendingRule | None:
    """The first rule for this reason."""
    for rule in rules:
        if (not rule.reasons or waiting.reason in rule.reasons) and rule.text in waiting.message:
            return rule
    return None


def describe_end(waiting: WaitingReason, rule: PendingRule) -> End | None:
    """How the run ends by this rule; None if the rule says to wait."""
    why = waiting.reason or "no reason is reported"
    text = f"the pod did not start within {rule.after_s} s: {why}"
    if waiting.message:
        text = f"{text}: {waiting.message[:1_000]}"
    match rule.action:
        case PendingAction.FAIL:
            return pods.failed(rule.category, text)
        case PendingAction.RETURN:
            return pods.returned(text)
        case PendingAction.WAIT:
            return None
