"""Logs of runs: asked from the executor that has them, with a short-lived signed token."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec

from fairlead_common.domain import ids, timestamps
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.web import auth
from fairlead_lookout.store.topic_caches import Clusters

TOKEN_MS: Final = 60_000
CONNECT_S: Final = 3.0
READ_S: Final = 60.0
FOLLOW_READ_S: Final = 3_600.0
"""How long a run that is followed may write nothing before it is asked for again."""

CONNECTIONS_MAX: Final = 200


class LogBrokeOff(WorldError):
    """There is more of the log than came. A reader over HTTP sees its connection break, and can
    ask again for what follows the last byte it got."""


class Logs:
    """Fetches logs; holds one pool of connections to executors."""

    def __init__(self, clusters: Clusters, signing_key: str) -> None:
        self._clusters = clusters
        self._signing_key = signing_key
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(READ_S, connect=CONNECT_S, pool=CONNECT_S),
            limits=httpx2.Limits(max_connections=CONNECTIONS_MAX),
            follow_redirects=False,
            trust_env=False,
        )

    async def open(
        self, run_row: Mapping[str, Any], job_id: str, parameters: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """A run's log as it comes. Raises `Problem` when there is none to be had."""
        executor, run = run_row["executor"], run_row["number"]
        heartbeat = self._clusters.heartbeat(executor)
        if heartbeat is None and not self._clusters.ready:
            raise Problem(
                "unavailable",
                f"This server has just begun to read where the log of {executor} is to be had.",
                retry_after_s=1,
            )
        address = heartbeat.address if heartbeat else ""
        if urlsplit(address).scheme not in ("http", "https") or not self._signing_key:
            raise Problem(
                "not-found", f"The cluster {executor} serves no logs, or is not known any more."
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
                f"The cluster {executor}, which has this log, does not answer: {error}",
                retry_after_s=5,
            ) from error
        if response.status_code != 200:
            await response.aclose()
            raise _refusal(run_row, response.status_code)
        return _body(response)

    async def close(self) -> None:
        """Give up the connections."""
        await self._client.aclose()


async def _body(response: httpx2.Response) -> AsyncIterator[bytes]:
    """What comes until it ends. Raises `LogBrokeOff` when the executor goes away before that."""
    try:
        async for part in response.aiter_raw():
            yield part
    except httpx2.HTTPError as error:
        raise LogBrokeOff(f"The log broke off: {type(error).__name__}") from error
    finally:
        await response.aclose()


def containers(spec: msgspec.Raw) -> list[str]:
    """The names of a pod's containers, those that only prepare it included."""
    pod = _decode_pod(spec)
    return [each.name for each in (*pod.containers, *pod.init_containers) if each.name]


class _Container(msgspec.Struct, frozen=True):
    name: str = ""


class _Pod(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


_decode_pod: Final = msgspec.json.Decoder(_Pod).decode


def _refusal(run: Mapping[str, Any], status: int) -> Problem:
    executor, number = run["executor"], run["number"]
    if status in (404, 410):
        if run["ended_ms"] is not None:
            ended = timestamps.rfc3339(run["ended_ms"])
            detail = (
                f"The cluster {executor} has removed the log of run {number}, which ended at"
                f" {ended}: clusters keep logs for a while only."
            )
        elif run["running_ms"] is None:
            detail = (
                f"Run {number} has not started yet: on {executor} it is {run['state']}. Its log"
                " begins when it runs."
            )
        else:
            detail = f"The cluster {executor} has no log of run {number}."
        return Problem("not-found", detail)
    return Problem("unavailable", f"The cluster {executor} answered {status}.", retry_after_s=5)
