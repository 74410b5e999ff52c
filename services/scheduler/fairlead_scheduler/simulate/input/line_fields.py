"""The types of fields in the lines of `jobs.jsonl`."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

SECONDS_MAX: Final = 3_000_000_000
"""Nearly a century, so that traces with Unix times are valid."""

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Id = Name | Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=SECONDS_MAX)]


class LinePart(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Common settings of the structs of a line."""


class RunTime(LinePart, frozen=True):
    """A random run time: `min` plus an exponentially distributed time with mean `mean_tail`."""

    min: Seconds = 0.0
    mean_tail: Seconds = 0.0
