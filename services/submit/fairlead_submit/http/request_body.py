"""Reading the body of a request, within bounds, whatever its encoding claims."""

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
"""Bound of bodies that hold no jobs."""

PIECE_BYTES: Final = 2**20
"""Most that is inflated at a time: others have their turn in between."""

FRAMES_MAX: Final = 1_000
"""Most gzip members or zstd frames of a body: empty ones cost time and bring nothing."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_WINDOW: Final[Mapping[int, int]] = {zstd.DecompressionParameter.window_log_max: 25}
"""zstd may look back 32 MiB, as far as a body reaches."""


async def read_body(
    request: Request, bytes_max: int = BODY_BYTES_MAX, kinds: tuple[str, ...] = (JSON,)
) -> bytes:
    """The inflated body. Raises a 400, 413 or 415 `Problem`; reads no more than it must."""
    check_content_type(request, kinds)
    return await read_content(request, bytes_max)


async def read_content(request: Request, bytes_max: int) -> bytes:
    """As `read`, of whatever kind the body is."""
    sent, inflater = _BoundedBody(request, bytes_max), _find_inflater(request)
    if inflater is None:
        return await sent.whole()
    return b"".join([piece async for piece in _inflate(sent, inflater, bytes_max)])


def stream_content(request: Request, bytes_max: int) -> AsyncIterator[bytes]:
    """The inflated body as it comes. It too raises a 400, 413 or 415 `Problem`."""
    sent, inflater = _BoundedBody(request, bytes_max), _find_inflater(request)
    return sent.pieces() if inflater is None else _inflate(sent, inflater, bytes_max)


def check_content_type(request: Request, kinds: tuple[str, ...]) -> str:
    """Which of these the body is said to be, the first when nothing is said. Raises a 415."""
    said, _, parameters = request.headers.get("content-type", kinds[0]).partition(";")
    name = said.strip().lower()
    if name not in kinds:
        raise Problem(
            "unsupported-media-type",
            f"The body is said to be {name[:80]!r}; send it with the header"
            f" `Content-Type: {' or '.join(kinds)}`.",
        )
    label, _, charset = parameters.partition("=")
    charset = charset.strip().strip('"').lower()
    if label.strip().lower() == "charset" and charset not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(
            "unsupported-media-type", f"The charset {charset[:80]!r} is not understood; utf-8 is."
        )
    return name


class _BoundedBody:
    """What the client sends, within a bound. Raises a 400 or 413 `Problem`."""

    def __init__(self, request: Request, bytes_max: int) -> None:
        self._receive = request.receive
        self._bytes_max = bytes_max
        self._bytes = 0
        self._is_whole = False
        said = request.headers.get("content-length", "")
        if said.isdecimal() and len(said) < 20 and int(said) > bytes_max:
            raise _too_large(bytes_max)

    async def whole(self) -> bytes:
        """All of it. Mostly it is one piece, and there already."""
        found = []
        while not self._is_whole:
            found.append(await self._next())
        return b"".join(found)

    async def pieces(self) -> AsyncIterator[bytes]:
        """As it comes."""
        while not self._is_whole:
            yield await self._next()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Problem("malformed", "The connection ended before the body did.")
        piece: bytes = message.get("body", b"")
        self._is_whole = not message.get("more_body", False)
        self._bytes += len(piece)
        if self._bytes > self._bytes_max:
            raise _too_large(self._bytes_max)
        return piece


class _Inflater(Protocol):
    """One encoding. A body may be several frames of it, one behind the other."""

    name: str

    def feed(self, piece: bytes, bytes_max: int) -> bytes:
        """At most so many bytes of what comes out; there may be more: feed b"" until nothing is."""
        ...

    def is_whole(self) -> bool:
        """Whether what was fed ends where a frame does."""
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
    """Of the encoding that the body is said to have; None for none. Raises a 415 `Problem`."""
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
                f"The content encoding {encoding[:80]!r} is not understood; gzip and zstd are.",
            )


def _count_frame(frames: int) -> int:
    """One frame more. Raises a 400 `Problem` when it is too many."""
    if frames >= FRAMES_MAX:
        raise Problem("malformed", f"The body has more than {FRAMES_MAX} compressed frames.")
    return frames + 1


async def _inflate(sent: _BoundedBody, inflater: _Inflater, bytes_max: int) -> AsyncIterator[bytes]:
    """Stops as soon as more than allowed comes out, however little went in."""
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
        raise Problem("malformed", f"The body is no {name} that can be read: {error}.") from None
    if not inflater.is_whole():
        raise Problem("malformed", f"The {inflater.name} body ends too early.")


def _too_large(bytes_max: int) -> Problem:
    return Problem(
        "too-large",
        f"The body is larger than {bytes_max} bytes; send the jobs in several requests.",
    )
