"""The methods of both clients: one table, from which each makes its own kind of call.

A flow becomes a method that returns its value, or on `AsyncClient` one to await; a flow that emits
items becomes one to iterate over with `for`, or with `async for`.
"""

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from fairlead import acting, discovery, follow, location, looking, managing, reporting, submitting
from fairlead import secrets as queue_secrets
from fairlead.fleet import Cluster, Node, QuarantineRecord
from fairlead.models import Action, Event, JobDetail, JobSet, JobView, Queue
from fairlead.retries import Retries, retrying
from fairlead.steps import Flow, Wrote
from fairlead.tokens import Token
from fairlead.writes import Writes, remembering

if TYPE_CHECKING:
    from fairlead.aio import AsyncClient
    from fairlead.client import Client

P = ParamSpec("P")
T = TypeVar("T")


class Call(Generic[P, T]):
    """A method that drives a flow to its end and gives its value."""

    def __init__(self, flow: Callable[P, Flow[T]]) -> None:
        self._flow = flow
        self.__doc__ = flow.__doc__

    @overload
    def __get__(self, client: None, owner: object) -> Callable[P, Flow[T]]: ...
    @overload
    def __get__(self, client: "Client", owner: object) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: "AsyncClient", owner: object
    ) -> Callable[P, Coroutine[None, None, T]]: ...
    def __get__(self, client: Any, owner: object) -> Any:  # as the overloads say
        if client is None:
            return self._flow
        return _like(
            self._flow, lambda *args, **kwargs: client._finish(self._flow(*args, **kwargs))
        )


class Each(Generic[P, T]):
    """A method that iterates over what a flow emits, all of one kind."""

    def __init__(self, flow: Callable[P, Flow[None]], kind: type[T]) -> None:
        self._flow = flow
        self._kind = kind
        self.__doc__ = flow.__doc__

    @overload
    def __get__(self, client: None, owner: object) -> Callable[P, Flow[None]]: ...
    @overload
    def __get__(self, client: "Client", owner: object) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: object) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: object) -> Any:  # as the overloads say
        if client is None:
            return self._flow
        flow, kind = self._flow, self._kind
        return _like(flow, lambda *args, **kwargs: client._items(flow(*args, **kwargs), kind))


def _like(flow: Callable[..., object], method: Callable[..., object]) -> Callable[..., object]:
    """The method, with the name, signature and docstring of the flow."""
    return functools.wraps(flow)(method)


class Methods(ABC):
    """What a Fairlead server can be asked.

    Without arguments the server is found as the command line finds it (see `fairlead.discovery`).
    Raises `NotConfigured` when there is none, and from every method what `fairlead.errors` lists.
    """

    submit = Call(submitting.submit)
    check = Call(submitting.check)

    cancel = Call(acting.cancel)
    preempt = Call(acting.preempt)
    reprioritize = Call(acting.reprioritize)
    release = Call(acting.release)
    resubmit = Call(acting.resubmit)
    resubmit_failed = Call(acting.resubmit_failed)
    action = Call(acting.action)
    watch_action = Each(acting.watch_action, Action)

    job = Call(looking.job)
    iter_jobs = Each(looking.iter_jobs, JobView)
    count_jobs = Call(looking.count_jobs)
    job_set = Call(looking.job_set)
    job_sets = Each(looking.job_sets, JobSet)
    wait = Call(looking.wait)
    wait_job = Call(looking.wait_job)
    wait_jobs = Call(looking.wait_jobs)
    watch = Each(looking.watch, JobSet)
    watch_job = Each(looking.watch_job, JobDetail)
    events = Each(follow.events, Event)
    logs = Each(follow.logs, bytes)

    export_jobs = Each(reporting.export_jobs, bytes)
    export_job_sets = Each(reporting.export_job_sets, bytes)
    queue_report = Call(reporting.queue_report)
    pool_report = Call(reporting.pool_report)
    rounds = Call(reporting.rounds)
    fairness = Call(reporting.fairness)

    queue = Call(managing.queue)
    queues = Each(managing.queues, Queue)
    create_queue = Call(managing.create_queue)
    replace_queue = Call(managing.replace_queue)
    delete_queue = Call(managing.delete_queue)
    cordon_queue = Call(managing.cordon_queue)
    uncordon_queue = Call(managing.uncordon_queue)
    priority_classes = Call(managing.priority_classes)
    clusters = Each(managing.clusters, Cluster)
    nodes = Each(managing.nodes, Node)
    location = Call(location.location)
    quarantine = Each(managing.quarantine, QuarantineRecord)
    cordon = Call(managing.cordon)
    uncordon = Call(managing.uncordon)
    tokens = Each(managing.tokens, Token)
    create_token = Call(managing.create_token)
    revoke_token = Call(managing.revoke_token)
    sign_in_link = Call(managing.sign_in_link)
    set_secret = Call(queue_secrets.set_secret)
    secrets = Each(queue_secrets.secrets, queue_secrets.Secret)
    delete_secret = Call(queue_secrets.delete_secret)
    fetch = Call(managing.fetch)

    def __init__(
        self,
        server: str | discovery.Server | None = None,
        *,
        token: str | None = None,
        retries: Retries | None = None,
    ) -> None:
        if not isinstance(server, discovery.Server):
            server = discovery.find(os.environ, server=server, token=token)
        self.server = server
        self._retries = retries or Retries()
        self._met = False
        self._writes = Writes()
        self._connect()

    def expect(self, queue: str, job_set: str, position: str) -> None:
        """Let reads see this position, at which another client submitted to the job set."""
        self._writes.note(Wrote(queue, job_set, position))

    def _patiently(self, flow: Flow[T]) -> Flow[T]:
        """The flow, repeating what may be repeated; notes when the server has answered."""
        remembers = remembering(flow, self._writes)
        result = yield from retrying(remembers, self._retries, met=self._met)
        self._met = True
        return result

    @abstractmethod
    def _connect(self) -> None:
        """Make the HTTP client; nothing is asked yet."""

    @abstractmethod
    def _finish(self, flow: Flow[Any]) -> Any:  # the flow's value, or something to await for it
        """Drive the flow to its end."""

    @abstractmethod
    def _items(self, flow: Flow[None], kind: type[Any]) -> Any:  # an iterator of either sort
        """Iterate over what the flow emits."""
