"""Reading and decompressing the body of a request, limited in size."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

from backports import zstd
from fastapi import Request

from fairlead_common.domain.problems import Problem

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
BODY_BYTES_MAX: Final = 2**20
"""Maximum size of a body without jobs."""

PIECE_BYTES: Final = 2**20
"""Maximum size of one decompression step, after which other requests continue."""

FRAMES_MAX: Final = 1_000
"""Maximum number of gzip members or zstd frames of a body: empty ones cost time."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_WINDOW: Final[Mapping[int, int]] = {zstd.DecompressionParameter.window_log_max: 25}
"""The window of zstd: 32 MiB, the maximum size of a body."""


async def read_body(
    request: Request, bytes_max: int = BODY_BYTES_MAX, kinds: tuple[str, ...] = (JSON,)
) -> bytes:
    """The decompressed body. Raises a 400, 413 or 415 `Problem`, as early as possible."""
    check_content_type(request, kinds)
    return await read_content(request, bytes_max)


async def read_content(request: Request, bytes_max: int) -> bytes:
    """As `read_body`, for any content type."""
    sent, inflater = _BoundedBody(request, bytes_max), _find_inflater(request)
    if inflater is None:
        return await sent.whole()
    return b"".join([piece async for piece in _inflate(sent, inflater, bytes_max)])


def stream_content(request: Request, bytes_max: int) -> AsyncIterator[bytes]:
    """The decompressed body in pieces. Raises a 400, 413 or 415 `Problem`."""
    sent, inflater = _BoundedBody(request, bytes_max), _find_inflater(request)
    return sent.pieces() if inflater is None else _inflate(sent, inflater, bytes_max)


def check_content_type(request: Request, kinds: tuple[str, ...]) -> str:
    """The content type, the first of `kinds` by default. Raises a 415 for any other."""
    declared, _, parameters = request.headers.get("content-type", kinds[0]).partition(";")
    name = declared.strip().lower()
    if name not in kinds:
        raise Problem(
            "unsupported-media-type",
            f"The content type {name[:80]!r} is not supported; send the header"
            f" `Content-Type: {' or '.join(kinds)}`.",
        )
    label, _, charset = parameters.partition("=")
    charset = charset.strip().strip('"').lower()
    if label.strip().lower() == "charset" and charset not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(
            "unsupported-media-type", f"The charset {charset[:80]!r} is not supported; use utf-8."
        )
    return name


class _BoundedBody:
    """The body as the client sends it, limited in size. Raises a 400 or 413 `Problem`."""

    def __init__(self, request: Request, bytes_max: int) -> None:
        self._receive = request.receive
        self._bytes_max = bytes_max
        self._bytes = 0
        self._is_whole = False
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > bytes_max:
            raise _too_large(bytes_max)

    async def whole(self) -> bytes:
        """All of it, usually one piece."""
        found = []
        while not self._is_whole:
            found.append(await self._next())
        return b"".join(found)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The pieces as they arrive."""
        while not self._is_whole:
            yield await self._next()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Problem("malformed", "The connection was closed before the end of the body.")
        piece: bytes = message.get("body", b"")
        self._is_whole = not message.get("more_body", False)
        self._bytes += len(piece)
        if self._bytes > self._bytes_max:
            raise _too_large(self._bytes_max)
        return piece


class _Inflater(Protocol):
    """One content encoding. A body can consist of several frames."""

    name: str

    def feed(self, piece: bytes, bytes_max: int) -> bytes:
        """At most `bytes_max` bytes of output. For the rest, feed b"" until the output is empty."""
        ...

    def is_whole(self) -> bool:
        """Whether the input ends at the end of a frame."""
        ...


class _Gzip:
    name = "gzip"

    def __init__(self) -> None:
        self._frame = zlib.decompressobj(_GZIP)
        self._rest = b""
        self._frames = 0

    def feed(self, piece: bytes, bytes_max: int) -> bytes:
        self._rest += piece
        while self._rest:
            if self._frame.eof or not self._frames:
                self._frame = zlib.decompressobj(_GZIP)
                self._frames = _count_frame(self._frames)
            out = self._frame.decompress(self._rest, bytes_max)
            ended = self._frame.eof
            self._rest = self._frame.unused_data if ended else self._frame.unconsumed_tail
            if out:
                return out
        return self._frame.decompress(b"", bytes_max)

    def is_whole(self) -> bool:
        return self._frame.eof and not self._rest


class _Zstd:
    name = "zstd"

    def __init__(self) -> None:
        self._frame = zstd.ZstdDecompressor(options=_WINDOW)
        self._frames = 1

    def feed(self, piece: bytes, bytes_max: int) -> bytes:
        while True:
            if self._frame.eof:
                piece = self._frame.unused_data + piece
                if not piece:
                    return b""
                self._frame = zstd.ZstdDecompressor(options=_WINDOW)
                self._frames = _count_frame(self._frames)
            out = self._frame.decompress(piece, bytes_max)
            if out or not self._frame.eof:
                return out
            piece = b""

    def is_whole(self) -> bool:
        return self._frame.eof and not self._frame.unused_data


def _find_inflater(request: Request) -> _Inflater | None:
    """The inflater for the content encoding, if there is one. Raises a 415 `Problem`."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    match encoding:
        case "identity" | "":
            return None
        case "gzip" | "x-gzip":
            return _Gzip()
        case "zstd":
            return _Zstd()
        case _:
            raise Problem(
                "unsupported-media-type",
                f"The content encoding {encoding[:80]!r} is not supported; use gzip or zstd.",
            )


def _count_frame(frames: int) -> int:
    """The number of frames plus one. Raises a 400 `Problem` beyond the limit."""
    if frames >= FRAMES_MAX:
        raise Problem(
            "malformed",
            f"The body has more than {FRAMES_MAX} compressed frames; compress it as one.",
        )
    return frames + 1


async def _inflate(sent: _BoundedBody, inflater: _Inflater, bytes_max: int) -> AsyncIterator[bytes]:
    """Decompress the body. Raises a 413 `Problem` as soon as the output is too large."""
    size = 0
    try:
        async for piece in sent.pieces():
            while out := inflater.feed(piece, min(PIECE_BYTES, bytes_max + 1 - size)):
                size += len(out)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                yield out
                piece = b""
                await asyncio.sleep(0)
    except (zlib.error, zstd.ZstdError) as error:
        name = inflater.name
        raise Problem("malformed", f"The body is not valid {name}: {error}.") from None
    if not inflater.is_whole():
        raise Problem("malformed", f"The {inflater.name} body is truncated.")


def _too_large(bytes_max: int) -> Problem:
    return Problem(
        "too-large",
        f"The body is larger than {bytes_max} bytes; send the jobs in several requests.",
    )
