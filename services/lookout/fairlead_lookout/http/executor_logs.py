"""Logs of runs, fetched from their executors with a short-lived signed token."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec

from fairlead_common.domain import ids, timestamps
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import log_parts
from fairlead_common.service import clock
from fairlead_common.web import auth, tls
from fairlead_common.web.fair_semaphore import FairSemaphore
from fairlead_lookout.store.queries.list_filters import invalid_parameter
from fairlead_lookout.store.topic_caches import ClusterCache

TOKEN_MS: Final = 60_000
CONNECT_S: Final = 3.0
READ_S: Final = 60.0
FOLLOW_READ_S: Final = 3_600.0
"""How long a followed run can write nothing before the connection is ended."""

CONNECTIONS_MAX: Final = 200
SEARCHES: Final = 3
"""Each holds up to 16 MiB of a log, as bytes and as text."""
SEARCHES_WAITING_MAX: Final = 64
"""Of one caller; more are refused."""


class LogInterrupted(WorldError):
    """The log ended early. A client over HTTP sees a broken connection, and can continue after the
    last byte that it received."""


class ExecutorLog(msgspec.Struct, frozen=True):
    """A log as it arrives. `part`: where its bytes are; None if the executor does not say it."""

    chunks: AsyncIterator[bytes]
    part: log_parts.LogPart | None


class ExecutorLogs:
    """Fetches logs; holds one pool of connections to executors. `searches`: places of those that
    search a log, one for each caller."""

    def __init__(self, clusters: ClusterCache, signing_key: str) -> None:
        self._clusters = clusters
        self._signing_key = signing_key
        self.searches = FairSemaphore("searches of logs", SEARCHES, 1, SEARCHES_WAITING_MAX)
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(READ_S, connect=CONNECT_S, pool=CONNECT_S),
            limits=httpx2.Limits(max_connections=CONNECTIONS_MAX),
            follow_redirects=False,
            trust_env=False,
            verify=tls.trust_system(),
        )

    async def open(
        self, run_row: Mapping[str, Any], job_id: str, parameters: Mapping[str, str]
    ) -> ExecutorLog:
        """The log of a run, as it arrives. Raises `Problem` if it is not available."""
        executor, run = run_row["executor"], run_row["number"]
        heartbeat = self._clusters.find_heartbeat(executor)
        if heartbeat is None and not self._clusters.ready:
            raise Problem(
                "unavailable",
                f"This server has just started and does not know cluster {executor} yet."
                " Try again.",
                retry_after_s=1,
            )
        address = heartbeat.address if heartbeat else ""
        if urlsplit(address).scheme not in ("http", "https") or not self._signing_key:
            raise Problem(
                "not-found", f"Cluster {executor} does not serve logs, or does not exist any more."
            )
        run_id = ids.run_id(job_id, run)
        token = auth.sign(self._signing_key, f"logs:{run_id}", clock.now_ms() + TOKEN_MS)
        request = self._client.build_request(
            "GET",
            f"{address.rstrip('/')}/logs/{run_id}",
            params=dict(parameters),
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(
                FOLLOW_READ_S if parameters.get("follow") == "true" else READ_S,
                connect=CONNECT_S,
                pool=CONNECT_S,
            ),
        )
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise Problem(
                "unavailable",
                f"Cluster {executor}, which has this log, does not respond: {error}",
                retry_after_s=5,
            ) from error
        if response.status_code != 200:
            await response.aclose()
            if response.status_code == 422 and "since_ms" in parameters:
                raise invalid_parameter(
                    "sinceTime",
                    f"Cluster {executor} does not know when the lines of a log were written. Use"
                    " `tail`, the number of last lines.",
                )
            raise _explain_refusal(run_row, response.status_code)
        return ExecutorLog(
            _body(response), log_parts.decode(response.headers.get(log_parts.HEADER))
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def _body(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body until its end. Raises `LogInterrupted` if the connection breaks before that."""
    try:
        async for part in response.aiter_raw():
            yield part
    except httpx2.HTTPError as error:
        raise LogInterrupted(f"The log was interrupted: {type(error).__name__}") from error
    finally:
        await response.aclose()


def list_containers(spec: msgspec.Raw) -> list[str]:
    """The names of the containers of a pod, init containers included."""
    pod = _decode_pod(spec)
    return [each.name for each in (*pod.containers, *pod.init_containers) if each.name]


class _Container(msgspec.Struct, frozen=True):
    name: str = ""


class _Pod(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


_decode_pod: Final = msgspec.json.Decoder(_Pod).decode


def _explain_refusal(run: Mapping[str, Any], status: int) -> Problem:
    executor, number = run["executor"], run["number"]
    if status in (404, 410):
        if run["ended_ms"] is not None:
            ended = timestamps.rfc3339(run["ended_ms"])
            detail = (
                f"Cluster {executor} has removed the log of run {number}, which ended at {ended}."
                " Clusters keep logs only for a limited time."
            )
        elif run["running_ms"] is None:
            detail = (
                f"Run {number} has not started yet: it is {run['state']} on cluster {executor}. It"
                " has a log as soon as it runs."
            )
        else:
            detail = f"Cluster {executor} has no log of run {number}."
        return Problem("not-found", detail)
    return Problem(
        "unavailable", f"Cluster {executor} answered with status {status}.", retry_after_s=5
    )
