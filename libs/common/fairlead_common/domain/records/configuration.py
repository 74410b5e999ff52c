"""Queues and cordons: the records of `fairlead.config`, keyed `kind/name`.

Full values with versions, relayed from Postgres by an outbox; folds use the highest version. A
deleted object is a value with `deleted`, and later null, when all readers have had time to read it.
"""

from typing import Final

import msgspec

from fairlead_common.domain import position_tokens
from fairlead_common.domain.records.events import RetryPolicy
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import CONFIG

FIFO: Final = "fifo"
"""Order of a queue: by priority, then by submission."""
FAIR: Final = "fair"
"""Order of a queue: by weighted running time, least first (rule G9)."""
ORDERS: Final = (FIFO, FAIR)


class Permission(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which subjects are permitted which verbs: `submit, cancel, preempt, reprioritize, view`."""

    subjects: tuple[str, ...]
    verbs: tuple[str, ...]


class Queue(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="queue"
):
    """A tenant. `limits`: class -> resource -> fraction of the pool (number) or quantity (text).

    `retry_policy` is that of jobs without one of their own. `order`: `FIFO` or `FAIR`, the order of
    its jobs and groups within a class value. `by`: who made this version.
    """

    name: str
    version: int = 1
    weight: float = 1.0
    cordoned: bool = False
    reason: str = ""
    limits: dict[str, dict[str, float | str]] = {}
    permissions: tuple[Permission, ...] = ()
    labels: dict[str, str] = {}
    retry_policy: RetryPolicy | None = None
    order: str = FIFO
    deleted: bool = False
    by: str = ""


class Cordon(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, tag="cordon"
):
    """Whether an operator (`by`) has cordoned an executor (`node` None) or one of its nodes."""

    executor: str
    node: str | None = None
    version: int = 1
    cordoned: bool = True
    reason: str = ""
    deleted: bool = False
    by: str = ""


_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[Queue | Cordon]] = msgspec.json.Decoder(Queue | Cordon)


def decode(value: bytes) -> Queue | Cordon:
    """The queue or cordon of a record. Raises `msgspec.DecodeError`."""
    return _decoder.decode(value)


def key(item: Queue | Cordon) -> str:
    """The key of an item's record."""
    match item:
        case Queue(name=name):
            return f"queue/{name}"
        case Cordon(executor=executor, node=None):
            return f"cordon/{executor}"
        case Cordon(executor=executor, node=node):
            return f"cordon/{executor}/{node}"


def position(item: Queue | Cordon) -> str:
    """The position token of this version, for `after=` of a read."""
    return position_tokens.encode_configured(key(item), item.version)


def record(item: Queue | Cordon) -> Record:
    """The record of an item's newest value."""
    return Record(CONFIG, key(item), _encoder.encode(item))
