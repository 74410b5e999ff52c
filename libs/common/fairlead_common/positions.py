"""Position tokens of the API: opaque texts that name a place in `fairlead.jobs`.

A change answers with the positions that a reader has passed when it has seen it; a read is given
the token and waits until its view has passed them. Only partitions that matter are in a token.
"""

import base64
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from fairlead_common.log.topics import JOB_PARTITIONS

TOKEN_LENGTH_MAX: Final = 2_000

_Partition = Annotated[int, msgspec.Meta(ge=0, lt=JOB_PARTITIONS)]
_Position = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_decoder: Final = msgspec.json.Decoder(dict[_Partition, _Position])


def encode(positions: Mapping[int, int]) -> str:
    """The token of {partition: position to read next}. Without partitions: nothing to wait for."""
    text = msgspec.json.encode(dict(sorted(positions.items())))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def decode(token: str) -> dict[int, int]:
    """The inverse of `encode`. Raises ValueError for what is no token of ours."""
    if len(token) > TOKEN_LENGTH_MAX:
        raise ValueError("the position is longer than any that Fairlead has given")
    try:
        return _decoder.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (msgspec.MsgspecError, ValueError):
        raise ValueError("the position is not one that Fairlead has given") from None


def merge(*tokens: Mapping[int, int]) -> dict[int, int]:
    """The place that is behind all of these."""
    merged: dict[int, int] = {}
    for token in tokens:
        for partition, position in token.items():
            merged[partition] = max(position, merged.get(partition, 0))
    return merged
