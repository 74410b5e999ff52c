"""Environment variables with secret values: sealed in the pod spec, and not part of its digest.

There are two forms. `secret: true` with `value` makes a value of the job itself secret; `valueFrom:
{secretKeyRef: {name, key}}`, or `secretRef` instead, refers to a secret of the queue. A reference
has the value of the secret at the time of submission.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests import validation
from fairlead_common.domain.secret_values import (
    SEALED,
    DecryptionFailed,
    Keyring,
    has_sealed,
    variables,
)
from fairlead_submit.domain.request_types import Env, EnvValue, EnvVar, SecretKeyRef, ValueFrom

Values = Mapping[str, Mapping[str, str]]
"""The secrets of a queue: name -> key -> sealed value."""
NO_KEY: Final = "requires a key for secrets; ask the operator to set `secretsKey`"
_QUOTED_NAMES: Final = (b'"sealed"', b'"secret"', b'"secretRef"', b'"secretKeyRef"')
_SECRET_NAME: Final = re.compile(rb'"(?:sealed|secret)')
_QUOTED_START: Final = b'"se'
"""How all of `_QUOTED_NAMES` begin: one search excludes most pod specs."""


class QueueSecrets:
    """Seals the values of jobs of a queue. `digest` identifies the state of the queue's secrets."""

    def __init__(self, keyring: Keyring, queue: str, values: Values) -> None:
        self._keyring = keyring
        self._queue = queue
        self._values = values
        text = msgspec.json.encode((queue, values), order="deterministic")
        self.digest = hashlib.blake2b(text, digest_size=16).digest()

    def seal(self, value: str) -> str | None:
        """The sealed value; None without a key."""
        return self._keyring.seal(self._queue, value) if self._keyring else None

    def can_open(self, sealed: str) -> bool:
        """Whether this value was sealed for the queue with a key that still exists."""
        try:
            self._keyring.open(self._queue, sealed)
        except DecryptionFailed:
            return False
        return True

    def find(self, name: str, key: str) -> str | None:
        """The sealed value of a secret of the queue, if it exists."""
        return self._values.get(name, {}).get(key)


def may_contain_secrets(canonical: bytes) -> bool:
    """Whether a pod spec has to be searched. `canonical`: as encoded here, without escapes."""
    return _QUOTED_START in canonical and any(name in canonical for name in _QUOTED_NAMES)


def seal_values(document: dict[str, Any], secrets: QueueSecrets, found: list[FieldError]) -> None:
    """Seal the values that are marked as secret, in place. Adds to `found`. `Any`: JSON."""
    for at, variable in variables(document):
        if SEALED in variable:
            found.append(FieldError(f"{at}/sealed", "is not a known field"))
        secret = variable.pop("secret", None)
        if secret not in (None, True, False):
            found.append(FieldError(f"{at}/secret", "must be true or false"))
        source = variable.get("valueFrom")
        if isinstance(source, dict) and "secretRef" in source:
            source["secretKeyRef"] = source.pop("secretRef")
        if "secretRef" in variable:
            variable["valueFrom"] = {"secretKeyRef": variable.pop("secretRef")}
        if secret is not True or _find_reference(variable) is not None:
            continue
        value = variable.pop("value", None)
        if not isinstance(value, str):
            found.append(FieldError(f"{at}/value", "must be a text"))
            continue
        sealed = secrets.seal(value)
        if sealed is None:
            found.append(FieldError(at, NO_KEY))
        else:
            variable[SEALED] = sealed


def resolve_references(
    document: dict[str, Any],
    secrets: QueueSecrets,
    found: list[FieldError],
    *,
    of_cluster: bool = False,
) -> None:
    """Add the values of the queue's secrets to the references to them, in place.

    `of_cluster`: other references, which have had no value so far, are to Secrets of the cluster.
    """
    for at, variable in variables(document):
        reference = _find_reference(variable)
        if reference is None:
            continue
        name, key = reference.get("name"), reference.get("key")
        sealed = secrets.find(str(name), str(key))
        if sealed is not None:
            variable[SEALED] = sealed
        elif of_cluster and SEALED not in variable:
            continue
        elif reference.get("optional") is True:
            variable.pop("valueFrom")
            variable["value"] = ""
        else:
            secret, its_key = validation.quote(name), validation.quote(key)
            detail = f"does not exist: the queue has no secret {secret} with the key {its_key}"
            found.append(FieldError(f"{at}/valueFrom/secretKeyRef", detail))


def _find_reference(variable: dict[str, Any]) -> dict[str, Any] | None:
    source = variable.get("valueFrom")
    reference = source.get("secretKeyRef") if isinstance(source, dict) else None
    return reference if isinstance(reference, dict) else None


def make_entries(env: Env) -> list[dict[str, Any]]:
    """The variables of the short form in the form of a container. `Any`: JSON."""
    if isinstance(env, list):
        return [_make_entry(item.name or "", item) for item in env]
    return [
        {"name": name, "value": value} if isinstance(value, str) else _make_entry(name, value)
        for name, value in env.items()
    ]


def _make_entry(name: str, value: EnvValue | EnvVar) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name}
    if value.value is not None:
        entry["value"] = value.value
    if value.secret is not None:
        entry["secret"] = value.secret
    source = value.value_from or ValueFrom()
    reference = value.secret_ref or source.secret_key_ref or source.secret_ref
    if reference is not None:
        entry["valueFrom"] = {"secretKeyRef": _make_reference(reference)}
    return entry


def _make_reference(reference: SecretKeyRef) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": reference.name, "key": reference.key}
    return fields | ({"optional": True} if reference.optional else {})


def may_have_secrets(body: bytes) -> bool:
    """Whether jobs of this JSON text possibly have secret values or refer to secrets. False also
    means that `may_contain_secrets` is false for each of their pod specs.
    """
    return _SECRET_NAME.search(body) is not None or (
        b"\\" in body and b"\\u" in body  # escapes hide nothing
    )


def refresh_secrets(spec: bytes, secrets: QueueSecrets) -> bytes | str:
    """The pod spec of a resubmitted job with the present secrets, or the reason for its refusal.

    A value of the job itself stays sealed, which binds it to its queue.
    """
    if not has_sealed(spec):
        return spec
    document = msgspec.json.decode(spec)
    for _, variable in variables(document):
        inline = SEALED in variable and "valueFrom" not in variable
        if inline and not secrets.can_open(variable[SEALED]):
            return "it has secret values of another queue, or of a key that no longer exists"
    found: list[FieldError] = []
    resolve_references(document, secrets, found, of_cluster=True)
    if found:
        return found[0].detail
    return msgspec.json.encode(document)


NO_SECRETS: Final = QueueSecrets(Keyring(""), "", {})
