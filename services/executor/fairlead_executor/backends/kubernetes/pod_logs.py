"""The log of a pod's container, as the API server hands it on from the node.

A followed log is ended here, too: a node can be lost without an end of its log, and nodes of KWOK
never end one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from fairlead_common.domain import timestamps
from fairlead_common.domain.records.log_parts import LogPart
from fairlead_executor.backends.kubernetes.api_client import ApiClient, ApiRefused, ApiUnavailable
from fairlead_executor.backends.kubernetes.domain.api_objects import PodObject
from fairlead_executor.domain.run_logs import LogEnd, LogEndRequest, LogRequest, NoLog, Stream

CHUNK_BYTES: Final = 64 * 1024
EXPECTED_LINE_BYTES: Final = 64
LINES_MIN: Final = 1_000
"""Requested first, also if they are expected to have more bytes."""
LINE_BYTES_MAX: Final = 16 * 1024
"""containerd and CRI-O split longer lines, and count the parts as lines, if they are not configured
otherwise."""
EXCESS_BYTES: Final = 8 * 1024
"""Requested beyond what is returned: `limitBytes` is permitted to return slightly less than its
number, and less than half of this excess shows that nothing was left out."""
SILENCE_S: Final = 2.0
"""A followed log is over when nothing has arrived for this long after the end of the run."""


async def read(
    client: ApiClient, pod: PodObject, request: LogRequest, has_ended: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The requested part of the log of a container. `has_ended`: of the run. Raises `NoLog`."""
    path, parameters = _describe_log(pod, request)
    if request.follow:
        parameters["follow"] = "true"
    if request.tail is not None and request.since_bytes is None:
        parameters["tailLines"] = str(request.tail)
    if request.since_ms is not None:
        parameters["sinceTime"] = timestamps.rfc3339(request.since_ms)
    skipped = request.since_bytes or 0
    async with _open_stream(client, path, parameters) as stream:
        async for chunk in _read_chunks(stream, has_ended):
            part = chunk[skipped:]
            skipped -= min(skipped, len(chunk))
            if part:
                yield part


async def read_end(
    client: ApiClient, pod: PodObject, request: LogEndRequest, has_ended: Callable[[], bool]
) -> LogEnd:
    """The last lines of the log that fit into the requested number of bytes. Raises `NoLog`.

    The API can skip to a number of lines, and limits bytes from there on, and not from the end. So
    fewer lines are requested until all of them fit: first as many as expected, then as many as fit
    by the size of those that arrived, then as many as fit if each has the maximum size.
    """
    path, parameters = _describe_log(pod, request)
    parameters["limitBytes"] = str(request.bytes_max + EXCESS_BYTES)
    least = max(1, request.bytes_max // LINE_BYTES_MAX)
    lines = request.lines_max or max(LINES_MIN, request.bytes_max // EXPECTED_LINE_BYTES)
    is_cut = False
    while True:
        parameters["tailLines"] = str(lines)
        async with _open_stream(client, path, parameters) as stream:
            data = await _read_at_most(stream, request.bytes_max + EXCESS_BYTES, has_ended)
        count = data.count(b"\n")
        if len(data) <= request.bytes_max + EXCESS_BYTES // 2:
            # Parts of a line count as lines for the server, and end without the end of a line.
            has_more = count + len(data) // LINE_BYTES_MAX >= lines
            is_cut = is_cut or has_more or len(data) > request.bytes_max
            return LogEnd(LogPart(is_cut), _send(data[-request.bytes_max :]))
        if lines <= least:
            raise NoLog(
                f"the cluster sends more than {request.bytes_max >> 10:,} KiB as the last"
                f" {lines:,} lines, so the end cannot be read; download the log"
            )
        lines = max(least, lines // 8 if is_cut else min(lines - 1, count * 3 // 4))
        is_cut = True


def _describe_log(
    pod: PodObject, request: LogRequest | LogEndRequest
) -> tuple[str, dict[str, str]]:
    """The path and the parameters of the log of a container. Raises `NoLog`."""
    if request.stream is Stream.STDERR:
        raise NoLog("Kubernetes writes both outputs of a container into one log; request stdout")
    metadata = pod.metadata
    path = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}/log"
    container = request.container or next((item.name for item in pod.spec.containers), "")
    return path, {"container": container}


@asynccontextmanager
async def _open_stream(
    client: ApiClient, path: str, parameters: Mapping[str, str]
) -> AsyncIterator[aiohttp.StreamReader]:
    """The log as it arrives. Raises `NoLog`."""
    try:
        async with client.stream(path, parameters, None) as stream:
            yield stream
    except ApiRefused as error:
        if error.code == 404:
            raise NoLog("its pod has been removed from the cluster") from error
        raise NoLog(f"the cluster returns no log: {error}") from error
    except ApiUnavailable as error:
        raise NoLog(f"the cluster does not answer: {error}") from error


async def _read_at_most(
    stream: aiohttp.StreamReader, bytes_max: int, has_ended: Callable[[], bool]
) -> bytes:
    """The first bytes of the stream, at most this many, also from a server that sends more."""
    data = bytearray()
    async for chunk in _read_chunks(stream, has_ended):
        data += chunk
        if len(data) >= bytes_max:
            break
    return bytes(data[:bytes_max])


async def _send(data: bytes) -> AsyncIterator[bytes]:
    yield data


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
