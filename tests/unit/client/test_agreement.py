"""The client's structs have the fields that the servers' have, so that neither falls behind."""

import msgspec
import pytest

import fairlead
from fairlead.models import (
    array_models,
    cluster_models,
    group_models,
    job_models,
    job_parts,
    token_models,
)
from fairlead.models import report_models as client_reports
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.records import scheduling_reports
from fairlead_common.domain.scheduling import priority_classes, shapes
from fairlead_lookout.domain import public_events
from fairlead_lookout.http.responses import (
    array_responses,
    cluster_responses,
    fairness_responses,
    group_responses,
    job_responses,
    job_set_responses,
    report_responses,
)
from fairlead_lookout.store.queries import group_lists
from fairlead_submit.domain import request_types
from fairlead_submit.domain.groups import group_types
from fairlead_submit.domain.jobs import resubmission
from fairlead_submit.http.auth import token_routes
from fairlead_submit.http.configuration import executor_routes, queue_routes
from fairlead_submit.service import (
    action_service,
    group_action_service,
    group_service,
    resubmission_service,
    submission_service,
)
from fairlead_submit.service.arrays import array_service
from fairlead_submit.store import job_views, resubmission_store

SAME: dict[str, tuple[type, type, set[str]]] = {
    "job sent": (job_models.Job, request_types.Job, set()),
    "service sent": (job_parts.NetworkObject, request_types.NetworkObject, set()),
    "gang sent": (job_parts.Gang, request_types.Gang, set()),
    "array sent": (job_parts.Array, request_types.Array, set()),
    "array to wait for": (job_parts.AfterArray, request_types.AfterArray, set()),
    "array": (array_models.ArrayView, array_responses.ArrayResponse, set()),
    "task of an array": (array_models.ArrayTask, array_responses.TaskResponse, set()),
    "acted on an array": (array_models.ArrayActionResult, array_service.ArrayActionResult, set()),
    "retry sent": (job_parts.Retry, request_types.Retry, set()),
    "submitted": (job_models.SubmitResult, submission_service.SubmissionResponse, set()),
    "submitted job": (job_models.JobValidation, submission_service.SubmittedJob, set()),
    "acted": (job_models.ActionResult, action_service.ActionResult, set()),
    "found job": (job_models.JobMatch, job_views.JobMatch, set()),
    "resubmission": (job_models.StartedAction, resubmission.ResubmissionResponse, set()),
    "action": (job_models.Action, resubmission_service.Progress, set()),
    "refused job": (job_models.RefusedJob, resubmission_store.RefusedJob, set()),
    "filter": (job_models.Filter, request_types.Filter, set()),
    "token": (token_models.Token, token_routes.TokenView, set()),
    "new token": (token_models.NewToken, token_routes.NewToken, set()),
    "sign-in link": (token_models.SignInLink, token_routes.SignInLink, set()),
    "cordon": (cluster_models.Cordon, request_types.ExecutorCordon, set()),
    "cordoned": (cluster_models.ClusterCordon, executor_routes.CordonView, set()),
    "priority class": (
        cluster_models.PriorityClass,
        priority_classes.PriorityClass,
        {"awayNodeTypes"},
    ),
    "taint": (cluster_models.Taint, shapes.Taint, set()),
    "queue": (job_models.Queue, queue_routes.QueueView, set()),
    "job set": (job_models.JobSet, job_set_responses.JobSetResponse, set()),
    "job in a list": (job_models.JobView, job_responses.JobResponse, set()),
    "job": (job_models.JobDetail, job_responses.JobDetailResponse, set()),
    "group": (job_models.Group, job_responses.JobCountResponse, set()),
    "cluster": (cluster_models.Cluster, cluster_responses.ClusterResponse, set()),
    "avoidance": (cluster_models.Avoidance, cluster_responses.AvoidanceResponse, set()),
    "node": (cluster_models.Node, cluster_responses.NodeResponse, set()),
    "run": (job_models.Run, job_responses.RunResponse, set()),
    "why": (job_models.WaitingReason, job_responses.WaitingReasonResponse, set()),
    "why jobs wait": (client_reports.WaitingReport, scheduling_reports.WaitingReport, set()),
    "a queue's share": (client_reports.QueueShare, scheduling_reports.QueueShare, set()),
    "round": (client_reports.Round, report_responses.RoundResponse, set()),
    "rounds": (client_reports.Rounds, report_responses.RoundsResponse, set()),
    "queue report": (client_reports.QueueReport, report_responses.QueueReportResponse, set()),
    "pool report": (client_reports.PoolReport, report_responses.PoolReportResponse, set()),
    "standing": (client_reports.ShareSample, fairness_responses.ShareResponse, set()),
    "usage": (client_reports.Usage, fairness_responses.UsageResponse, set()),
    "fairness": (client_reports.Fairness, fairness_responses.FairnessResponse, set()),
    "submitted groups": (
        group_models.GroupSubmitResult,
        group_service.GroupSubmissionResponse,
        set(),
    ),
    "submitted group": (group_models.SubmittedGroup, group_service.SubmittedGroup, set()),
    "submitted member": (group_models.SubmittedMember, group_service.SubmittedMember, set()),
    "checked role": (group_models.RoleVerdict, group_service.RoleVerdict, set()),
    "group to submit": (group_models.GroupSpec, group_types.Group, set()),
    "role to submit": (group_models.GroupRole, group_types.Role, set()),
    "completion": (group_models.Completion, group_types.Completion, set()),
    "growth": (group_models.Elastic, group_types.Elastic, set()),
    "network": (group_models.GroupNetwork, group_types.Network, set()),
    "change of a role": (group_models.RoleChange, group_types.RoleChange, set()),
    "action on a group": (
        group_models.GroupActionResult,
        group_action_service.GroupActionResult,
        set(),
    ),
    "group in a list": (group_models.GroupView, group_responses.GroupSummary, set()),
    "group with members": (group_models.GroupDetail, group_responses.GroupDetail, set()),
    "member": (group_models.GroupMember, group_responses.MemberSummary, set()),
    "role": (group_models.RoleCounts, group_lists.RoleCounts, set()),
    "event": (job_models.Event, public_events.PublicEvent, {"final"}),
}
"""The client's struct, the server's, and the fields in which they differ on purpose."""


def names(kind: type) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize(("ours", "theirs", "left_out"), SAME.values(), ids=SAME.keys())
def test_client_and_server_name_the_same_fields(
    ours: type, theirs: type, left_out: set[str]
) -> None:
    assert names(ours) ^ names(theirs) <= left_out


@pytest.mark.parametrize("name", fairlead.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(fairlead, name).__name__ == name


def test_client_and_server_know_the_same_states() -> None:
    assert list(job_models.STATES) == list(JobState)
    assert job_models.ENDED == JOB_ENDED
