"""Secret values of jobs: sealed where they enter, opened where the job starts, hidden in between.

A variable of a container then has `sealed` in place of a value, beside `valueFrom` if it refers to
a secret of its queue. Sealing (AES-SIV) is bound to the queue, and the same for the same value, so
that a repeated request is known as one; therefore sealed texts are not shown either.
"""

import base64
import hashlib
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

SEALED: Final = "sealed"
_VERSION: Final = "1"
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


class DecryptionFailed(Exception):
    """A sealed text cannot be opened; the message does not contain it."""


class Keyring:
    """The keys of the installation. The first seals, all of them open."""

    def __init__(self, keys: str) -> None:
        """`keys`: one or several, separated by commas; without any nothing can be sealed."""
        self._keys = {
            _name_of(key): AESSIV(hashlib.sha512(b"fairlead secrets\0" + key).digest())
            for key in (part.strip().encode() for part in keys.split(","))
            if key
        }

    def __bool__(self) -> bool:
        return bool(self._keys)

    def seal(self, queue: str, value: str) -> str:
        """The encrypted value, which reveals nothing but its length without a key."""
        name, key = next(iter(self._keys.items()))
        # A zero in front: AES-SIV takes no empty text.
        sealed = key.encrypt(b"\0" + value.encode(), [queue.encode()])
        return f"{_VERSION}.{name}.{base64.urlsafe_b64encode(sealed).decode()}"

    def open(self, queue: str, text: str) -> str:
        """The value of a text that was sealed for this queue. Raises `DecryptionFailed`."""
        version, _, rest = text.partition(".")
        name, _, body = rest.partition(".")
        key = self._keys.get(name)
        if version != _VERSION or key is None:
            raise DecryptionFailed("it was encrypted with a key that is not in `secretsKey`")
        try:
            return key.decrypt(base64.urlsafe_b64decode(body), [queue.encode()])[1:].decode()
        except (InvalidTag, ValueError) as error:
            raise DecryptionFailed("it is damaged, or was encrypted for another queue") from error


def _name_of(key: bytes) -> str:
    return hashlib.sha256(b"fairlead secrets key\0" + key).hexdigest()[:8]


def variables(spec: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The variables of all containers of a pod spec, each with its pointer. `Any`: JSON."""
    found = []
    for field in _CONTAINERS:
        for number, container in enumerate(_list(spec.get(field))):
            entries = _list(container.get("env")) if isinstance(container, dict) else []
            found += [
                (f"/{field}/{number}/env/{index}", entry)
                for index, entry in enumerate(entries)
                if isinstance(entry, dict)
            ]
    return found


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def has_sealed(spec: bytes) -> bool:
    """Whether a pod spec, as submit wrote it, has secret values."""
    return b'"sealed":' in spec


def without_sealed(spec: msgspec.Raw) -> msgspec.Raw:
    """The pod spec as it is shown: variables are marked as secret, or refer to a secret."""
    if not has_sealed(bytes(spec)):
        return spec
    document = msgspec.json.decode(spec)
    for _, variable in variables(document):
        if variable.pop(SEALED, None) is not None and "valueFrom" not in variable:
            variable["secret"] = True
    return msgspec.Raw(msgspec.json.encode(document))
