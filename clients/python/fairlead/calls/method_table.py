"""The methods of both clients.

A flow becomes a method that returns its value, or on `AsyncClient` a coroutine; a flow that emits
items becomes an iterator, or on `AsyncClient` an asynchronous iterator.
"""

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from fairlead import discovery
from fairlead.calls import (
    administration,
    event_reading,
    job_action_calls,
    job_location,
    job_queries,
    report_queries,
    submission_calls,
)
from fairlead.calls.call_effects import Flow, Wrote
from fairlead.calls.written_positions import Writes, remembering
from fairlead.models import secret_models
from fairlead.models.cluster_models import Cluster, Node, QuarantineRecord
from fairlead.models.job_models import Action, Event, JobDetail, JobSet, JobView, Queue
from fairlead.models.token_models import Token
from fairlead.transport.retry_policy import Retries, retrying

if TYPE_CHECKING:
    from fairlead.aio import AsyncClient
    from fairlead.client import Client

P = ParamSpec("P")
T = TypeVar("T")


class Call(Generic[P, T]):
    """A method that drives a flow to its end and returns its value."""

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
    """The methods of a client of a Fairlead server.

    Without arguments the server is found as the command line finds it (see `fairlead.discovery`).
    Raises `NotConfigured` if no server is configured; every method raises the exceptions of
    `fairlead.errors`.
    """

    submit = Call(submission_calls.submit)
    check = Call(submission_calls.check)

    cancel = Call(job_action_calls.cancel)
    preempt = Call(job_action_calls.preempt)
    reprioritize = Call(job_action_calls.reprioritize)
    release = Call(job_action_calls.release)
    resubmit = Call(job_action_calls.resubmit)
    resubmit_failed = Call(job_action_calls.resubmit_failed)
    action = Call(job_action_calls.action)
    watch_action = Each(job_action_calls.watch_action, Action)

    job = Call(job_queries.job)
    iter_jobs = Each(job_queries.iter_jobs, JobView)
    count_jobs = Call(job_queries.count_jobs)
    job_set = Call(job_queries.job_set)
    job_sets = Each(job_queries.job_sets, JobSet)
    wait = Call(job_queries.wait)
    wait_job = Call(job_queries.wait_job)
    wait_jobs = Call(job_queries.wait_jobs)
    watch = Each(job_queries.watch, JobSet)
    watch_job = Each(job_queries.watch_job, JobDetail)
    events = Each(event_reading.events, Event)
    logs = Each(event_reading.logs, bytes)

    export_jobs = Each(report_queries.export_jobs, bytes)
    export_job_sets = Each(report_queries.export_job_sets, bytes)
    queue_report = Call(report_queries.queue_report)
    pool_report = Call(report_queries.pool_report)
    rounds = Call(report_queries.rounds)
    fairness = Call(report_queries.fairness)

    queue = Call(administration.queue)
    queues = Each(administration.queues, Queue)
    create_queue = Call(administration.create_queue)
    replace_queue = Call(administration.replace_queue)
    delete_queue = Call(administration.delete_queue)
    cordon_queue = Call(administration.cordon_queue)
    uncordon_queue = Call(administration.uncordon_queue)
    priority_classes = Call(administration.priority_classes)
    clusters = Each(administration.clusters, Cluster)
    nodes = Each(administration.nodes, Node)
    location = Call(job_location.location)
    quarantine = Each(administration.quarantine, QuarantineRecord)
    cordon = Call(administration.cordon)
    uncordon = Call(administration.uncordon)
    tokens = Each(administration.tokens, Token)
    create_token = Call(administration.create_token)
    revoke_token = Call(administration.revoke_token)
    sign_in_link = Call(administration.sign_in_link)
    set_secret = Call(secret_models.set_secret)
    secrets = Each(secret_models.secrets, secret_models.Secret)
    delete_secret = Call(secret_models.delete_secret)
    fetch = Call(administration.fetch)

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
        """Let reads include this position, at which another client submitted to the job set."""
        self._writes.record(Wrote(queue, job_set, position))

    def _with_retries(self, flow: Flow[T]) -> Flow[T]:
        """The flow with retries; records that the server has answered."""
        remembers = remembering(flow, self._writes)
        result = yield from retrying(remembers, self._retries, met=self._met)
        self._met = True
        return result

    @abstractmethod
    def _connect(self) -> None:
        """Create the HTTP client, without sending a request."""

    @abstractmethod
    def _finish(self, flow: Flow[Any]) -> Any:  # the flow's value, or something to await for it
        """Drive the flow to its end."""

    @abstractmethod
    def _items(self, flow: Flow[None], kind: type[Any]) -> Any:  # an iterator of either sort
        """Iterate over what the flow emits."""
