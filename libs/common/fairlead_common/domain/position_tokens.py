"""Position tokens of the API: opaque texts that name a place in the log.

The response to a change of jobs has the positions in `fairlead.jobs` after the change; the response
to a change of the configuration has the version of its record in `fairlead.config` (the outbox can
append versions of different records in any order). A read with the token waits until its view has
reached them.
"""

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from fairlead_common.log.topics import JOB_PARTITIONS

TOKEN_LENGTH_MAX: Final = 2_000

_Partition = Annotated[int, msgspec.Meta(ge=0, lt=JOB_PARTITIONS)]
_Key = Annotated[str, msgspec.Meta(pattern="/", max_length=600)]
_Position = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Place(msgspec.Struct, frozen=True):
    """`jobs`: {partition: position to read next}; `configured`: {key of a record: version}.

    Without either there is nothing to wait for.
    """

    jobs: Mapping[_Partition, _Position] = {}
    configured: Mapping[_Key, _Position] = {}


_jobs_decoder: Final = msgspec.json.Decoder(dict[_Partition, _Position])
_configured_decoder: Final = msgspec.json.Decoder(dict[_Key, _Position])


def encode(positions: Mapping[int, int]) -> str:
    """The token of {partition: position to read next}."""
    return _encoded(dict(sorted(positions.items())))


def encode_configured(key: str, version: int) -> str:
    """The token of a record of `fairlead.config`."""
    return _encoded({key: version})


def decode(token: str) -> Place:
    """The place that a token names. Raises ValueError for an invalid token."""
    if len(token) > TOKEN_LENGTH_MAX:
        raise ValueError("the position is too long")
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        if b"/" in text:
            return Place(configured=_configured_decoder.decode(text))
        return Place(jobs=_jobs_decoder.decode(text))
    except (msgspec.MsgspecError, ValueError):
        raise ValueError("the position is not valid") from None


def _encoded(content: Mapping[Any, int]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).decode().rstrip("=")


def merge(*places: Mapping[int, int]) -> dict[int, int]:
    """The positions after all of these: the greatest of each partition."""
    merged: dict[int, int] = {}
    for place in places:
        for partition, position in place.items():
            merged[partition] = max(position, merged.get(partition, 0))
    return merged
