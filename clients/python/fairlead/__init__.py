"""The Fairlead client library and command line.

    from fairlead import Client, Job

    with Client() as client:
        client.submit("default", "hello", [Job(command=("echo", "hello"))])
        print(client.wait("default", "hello").states)

Names are imported when first used, so that the command line starts quickly.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairlead.asynchronous.client_class import AsyncClient
    from fairlead.blocking.client_class import Client
    from fairlead.errors import (
        Busy,
        Conflict,
        FairleadError,
        Forbidden,
        Invalid,
        Malformed,
        NoServer,
        NotConfigured,
        NotFound,
        RequestRefused,
        ServerUnreachable,
        TooLarge,
        Unauthenticated,
        Unavailable,
        UnexpectedResponse,
        WaitTimeout,
    )
    from fairlead.models.array_models import ArrayView
    from fairlead.models.cluster_models import Cluster, ClusterCordon, Node, PriorityClass
    from fairlead.models.group_models import (
        Completion,
        GroupDetail,
        GroupNetwork,
        GroupRole,
        GroupSpec,
        GroupView,
        Topology,
    )
    from fairlead.models.job_models import (
        Action,
        ActionResult,
        Event,
        FieldError,
        Filter,
        Group,
        Job,
        JobDetail,
        JobMatch,
        JobSet,
        JobValidation,
        JobView,
        Permission,
        Problem,
        Queue,
        Run,
        StartedAction,
        SubmitResult,
        SubmittedJob,
        UserRequest,
        ValidationResult,
        WaitingReason,
    )
    from fairlead.models.job_parts import AfterArray, Array, Gang, NetworkObject, Retry
    from fairlead.models.report_models import (
        Fairness,
        PoolReport,
        QueueReport,
        QueueShare,
        Round,
        ShareSample,
        Usage,
        UserUsage,
        WaitingReport,
    )
    from fairlead.models.token_models import SignInLink, Token
    from fairlead.transport.retry_policy import Retries

__all__ = [
    "Action",
    "ActionResult",
    "AfterArray",
    "Array",
    "ArrayView",
    "AsyncClient",
    "Busy",
    "Client",
    "Cluster",
    "ClusterCordon",
    "Completion",
    "Conflict",
    "Event",
    "FairleadError",
    "Fairness",
    "FieldError",
    "Filter",
    "Forbidden",
    "Gang",
    "Group",
    "GroupDetail",
    "GroupNetwork",
    "GroupRole",
    "GroupSpec",
    "GroupView",
    "Invalid",
    "Job",
    "JobDetail",
    "JobMatch",
    "JobSet",
    "JobValidation",
    "JobView",
    "Malformed",
    "NetworkObject",
    "NoServer",
    "Node",
    "NotConfigured",
    "NotFound",
    "Permission",
    "PoolReport",
    "PriorityClass",
    "Problem",
    "Queue",
    "QueueReport",
    "QueueShare",
    "RequestRefused",
    "Retries",
    "Retry",
    "Round",
    "Run",
    "ServerUnreachable",
    "ShareSample",
    "SignInLink",
    "StartedAction",
    "SubmitResult",
    "SubmittedJob",
    "Token",
    "TooLarge",
    "Topology",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedResponse",
    "Usage",
    "UserRequest",
    "UserUsage",
    "ValidationResult",
    "WaitTimeout",
    "WaitingReason",
    "WaitingReport",
]

_MODULES: Final = (
    "models.job_models",
    "errors",
    "models.cluster_models",
    "models.token_models",
    "models.report_models",
    "models.group_models",
    "models.array_models",
)
_ELSEWHERE: Final = {
    "Client": "blocking.client_class",
    "AsyncClient": "asynchronous.client_class",
    "Retries": "transport.retry_policy",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'fairlead' has no attribute {name!r}")
    for module_name in [_ELSEWHERE[name]] if name in _ELSEWHERE else _MODULES:
        module = importlib.import_module(f"fairlead.{module_name}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AssertionError(f"{name} is in __all__ and nowhere else")
