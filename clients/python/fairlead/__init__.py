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
    from fairlead.aio import AsyncClient
    from fairlead.client import Client
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
        Refused,
        ServerUnreachable,
        TooLarge,
        Unauthenticated,
        Unavailable,
        UnexpectedAnswer,
        WaitTimeout,
    )
    from fairlead.fleet import Cluster, Node, PriorityClass
    from fairlead.models import (
        Acted,
        Action,
        Checked,
        CheckedJob,
        Event,
        Fault,
        Filter,
        FoundJob,
        Gang,
        Group,
        Job,
        JobDetail,
        JobSet,
        JobView,
        Permission,
        Problem,
        Queue,
        Retry,
        Run,
        Started,
        Submitted,
        SubmittedJob,
        Why,
    )
    from fairlead.reports import (
        Fairness,
        PoolReport,
        QueueReport,
        QueueShare,
        Round,
        Standing,
        Usage,
        Waiting,
    )
    from fairlead.retries import Retries
    from fairlead.tokens import SignInLink, Token

__all__ = [
    "Acted",
    "Action",
    "AsyncClient",
    "Busy",
    "Checked",
    "CheckedJob",
    "Client",
    "Cluster",
    "Conflict",
    "Event",
    "FairleadError",
    "Fairness",
    "Fault",
    "Filter",
    "Forbidden",
    "FoundJob",
    "Gang",
    "Group",
    "Invalid",
    "Job",
    "JobDetail",
    "JobSet",
    "JobView",
    "Malformed",
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
    "Refused",
    "Retries",
    "Retry",
    "Round",
    "Run",
    "ServerUnreachable",
    "SignInLink",
    "Standing",
    "Started",
    "Submitted",
    "SubmittedJob",
    "Token",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "Usage",
    "WaitTimeout",
    "Waiting",
    "Why",
]

_MODULES: Final = ("models", "errors", "fleet", "tokens", "reports")
_ELSEWHERE: Final = {"Client": "client", "AsyncClient": "aio", "Retries": "retries"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'fairlead' has no attribute {name!r}")
    for module_name in [_ELSEWHERE[name]] if name in _ELSEWHERE else _MODULES:
        module = importlib.import_module(f"fairlead.{module_name}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AssertionError(f"{name} is in __all__ and nowhere else")
