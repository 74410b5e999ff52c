"""Reading the body of a request, within bounds, whatever its encoding claims."""

import zlib
from collections.abc import AsyncIterator
from typing import Final

from fastapi import Request

from fairlead_common.problems import Problem

JSON: Final = "application/json"
BODY_BYTES_MAX: Final = 2**20
"""Bound of bodies that hold no jobs."""

_GZIP: Final = 16 + zlib.MAX_WBITS


async def read(
    request: Request, bytes_max: int = BODY_BYTES_MAX, kinds: tuple[str, ...] = (JSON,)
) -> bytes:
    """The inflated body. Raises a 400, 413 or 415 `Problem`; reads no more than it must."""
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind not in kinds:
        raise Problem(
            "unsupported-media-type",
            f"The body is said to be {kind[:80]!r}; send it with the header"
            f" `Content-Type: {' or '.join(kinds)}`.",
        )
    said = request.headers.get("content-length", "")
    if said.isdecimal() and len(said) < 20 and int(said) > bytes_max:
        raise _too_large(bytes_max)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    match encoding:
        case "identity" | "":
            return await _plain(request.stream(), bytes_max)
        case "gzip":
            return await _inflated(request.stream(), bytes_max)
        case _:
            raise Problem(
                "unsupported-media-type",
                f"The content encoding {encoding[:80]!r} is not understood; gzip is.",
            )


async def _plain(stream: AsyncIterator[bytes], bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in stream:
        size += len(piece)
        if size > bytes_max:
            raise _too_large(bytes_max)
        pieces.append(piece)
    return b"".join(pieces)


async def _inflated(stream: AsyncIterator[bytes], bytes_max: int) -> bytes:
    """Stops as soon as more than allowed comes out, however little went in."""
    inflater = zlib.decompressobj(_GZIP)
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in stream:
            while piece and not inflater.eof:
                out = inflater.decompress(piece, bytes_max + 1 - size)
                size += len(out)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                pieces.append(out)
                piece = inflater.unconsumed_tail
    except zlib.error as error:
        raise Problem("malformed", f"The body is no gzip that can be read: {error}.") from None
    if not inflater.eof:
        raise Problem("malformed", "The gzip body ends too early.")
    return b"".join(pieces)


def _too_large(bytes_max: int) -> Problem:
    return Problem(
        "too-large",
        f"The body is larger than {bytes_max} bytes; send the jobs in several requests.",
    )
