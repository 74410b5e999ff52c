"""A shape: everything about a job that decides where it is able to run, except its priority class.

Its canonical JSON travels in `JobSubmitted.shape`; equal shapes are equal bytes, so folds intern
them without decoding. Made by submit, read by scheduler and lookout. The taints of nodes, which a
shape tolerates or not, are here too.
"""

import hashlib
from typing import Annotated, Final

import msgspec

ResourceName = Annotated[str, msgspec.Meta(max_length=256)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Taint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """As Kubernetes writes it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """As Kubernetes writes it; an empty key with `Exists` tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One `matchExpressions` or `matchFields` entry of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class SelectorTerm(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All of its requirements must match; of several terms one must match."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class Preference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Nodes that match the term are preferred, by weight."""

    weight: int
    term: SelectorTerm


class Shape(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`requests` in fixed units (see `quantities`). `affinity` holds the required terms;
    `preferred` only ranks eligible nodes.
    """

    requests: dict[ResourceName, Amount]
    node_selector: dict[str, str] = {}
    affinity: tuple[SelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[Preference, ...] = ()


_encoder: Final = msgspec.json.Encoder(order="deterministic")
_decoder: Final = msgspec.json.Decoder(Shape)


def encode(shape: Shape) -> msgspec.Raw:
    """The canonical JSON: equal shapes give equal bytes."""
    return msgspec.Raw(_encoder.encode(shape))


def decode(raw: bytes | msgspec.Raw) -> Shape:
    """The inverse of `encode`."""
    return _decoder.decode(bytes(raw))


def key(raw: bytes, priority_class: str) -> str:
    """16 hex digits that name (shape, class) in reports and tables."""
    digest = hashlib.blake2b(raw, digest_size=8)
    digest.update(b"\0" + priority_class.encode())
    return digest.hexdigest()
