"""The log of a pod's container, as the API server hands it on from the node.

A followed log is ended here, too: a node can be lost without an end of its log, and nodes of KWOK
never end one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

import aiohttp

from fairlead_common.domain import timestamps
from fairlead_executor.backends.kubernetes.api_client import ApiClient, ApiRefused, ApiUnavailable
from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject
from fairlead_executor.domain.cluster_protocol import LogRequest, NoLog, Stream

CHUNK_BYTES: Final = 64 * 1024
SILENCE_S: Final = 2.0
"""A followed log is over when nothing has arrived for this long after the end of the run."""


async def read(
    client: ApiClient, pod: PodObject, request: LogRequest, has_ended: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The requested part of the log of a container. `has_ended`: of the run. Raises `NoLog`."""
    if request.stream is Stream.STDERR:
        raise NoLog("Kubernetes writes both outputs of a container into one log; request stdout")
    metadata = pod.metadata
    path = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}/log"
    container = request.container or next((item.name for item in pod.spec.containers), "")
    parameters = {"container": container}
    if request.follow:
        parameters["follow"] = "true"
    if request.tail is not None and request.since_bytes is None:
        parameters["tailLines"] = str(request.tail)
    if request.since_ms is not None:
        parameters["sinceTime"] = timestamps.rfc3339(request.since_ms)
    skipped = request.since_bytes or 0
    try:
        async with client.stream(path, parameters, None) as stream:
            chunks = _read_chunks(stream, has_ended)
            if request.last_bytes is not None:
                chunks = _keep_newest(chunks, request.last_bytes)
            async for chunk in chunks:
                part = chunk[skipped:]
                skipped -= min(skipped, len(chunk))
                if part:
                    yield part
    except ApiRefused as error:
        if error.code == 404:
            raise NoLog("its pod has been removed from the cluster") from error
        raise NoLog(f"the cluster returns no log: {error}") from error
    except ApiUnavailable as error:
        raise NoLog(f"the cluster does not answer: {error}") from error


async def _keep_newest(chunks: AsyncIterator[bytes], bytes_max: int) -> AsyncIterator[bytes]:
    """The last bytes, at most this many, when all have arrived: the server cannot skip to them."""
    newest: deque[bytes] = deque()
    size = 0
    async for chunk in chunks:
        newest.append(chunk)
        size += len(chunk)
        while size - len(newest[0]) >= bytes_max:
            size -= len(newest.popleft())
    if size > bytes_max:
        newest[0] = newest[0][size - bytes_max :]
    for chunk in newest:
        yield chunk


async def _read_chunks(
    stream: aiohttp.StreamReader, has_ended: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The chunks as they arrive, until the server ends them or they are over."""
    is_over = False
    while True:
        try:
            async with asyncio.timeout(SILENCE_S):
                chunk = await stream.read(CHUNK_BYTES)
        except TimeoutError:
            if is_over:
                return
            is_over = has_ended()
            continue
        if not chunk:
            return
        yield chunk
