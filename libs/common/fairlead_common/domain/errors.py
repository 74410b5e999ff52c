"""The three kinds of error: of the caller, of the environment, of Fairlead itself.

An error of the caller is a value (`FieldError`) and becomes a 4xx. One of the environment is an
exception below `WorldError`: it is retried within a bound, then it ends the process. One of
Fairlead itself is an `AssertionError`.
"""

import msgspec


class FieldError(msgspec.Struct, frozen=True):
    """One error of a request: `pointer` (RFC 6901, `""` is the whole body) and what is wrong."""

    pointer: str
    detail: str


class WorldError(Exception):
    """Something outside this process failed or refused."""


class StorageFull(WorldError):
    """A disk is full. Nothing was written, and writing works again once there is space."""


class LogError(WorldError):
    """The event log failed."""


class LogUrlInvalid(ValueError):
    """The URL of the log is not valid; the message says why."""


class LogUnavailable(LogError):
    """The log could not be reached within the bound. Nothing was written by this call."""


class AppendRefused(LogError):
    """The append was refused. Nothing of it is or will be visible; it may be tried again."""


class LogFull(AppendRefused, StorageFull):
    """The disk of the log is full. The same append works again once there is space."""


class RecordTooLarge(AppendRefused):
    """A record is larger than `RECORD_BYTES_MAX`. Trying again changes nothing."""


class AppendUnknown(LogError):
    """It is not known whether the append happened. Open a new producer and read back."""


class ProducerFenced(LogError):
    """A newer producer of the same name exists; this one can no longer append."""


class PositionExpired(LogError):
    """The position to read from is not retained any more, or never existed: start from `first`."""

    def __init__(self, topic: str, partition: int, position: int, first: int) -> None:
        super().__init__(
            f"{topic}/{partition}: position {position} is no longer retained, the log"
            f" begins at {first}"
        )
        self.topic = topic
        self.partition = partition
        self.position = position
        self.first = first


class TopicMismatch(LogError):
    """The topic is missing, or exists with other partitions or another retention."""


class ViewConflict(WorldError):
    """Another writer moved the positions of this view: this process no longer owns it."""
