"""Variables of jobs with secret values: sealed in the pod spec, and left out of what names a job.

Two forms are accepted. `secret: true` beside `value` keeps a value of the job itself secret;
`valueFrom: {secretKeyRef: {name, key}}`, or `secretRef` in its place, refers to a secret of the
queue. A reference takes the value that the secret has when the job is submitted. Pure.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.secret_values import (
    SEALED,
    DecryptionFailed,
    Keyring,
    has_sealed,
    variables,
)
from fairlead_submit.domain import validation
from fairlead_submit.domain.request_types import Env, EnvValue, EnvVar, Job, SecretKeyRef, ValueFrom

Values = Mapping[str, Mapping[str, str]]
"""The secrets of a queue: name -> key -> sealed value."""
NO_KEY: Final = "needs a key for secrets (the setting secretsKey), which this installation lacks"
_WORDS: Final = (b'"sealed"', b'"secret"', b'"secretRef"', b'"secretKeyRef"')


class QueueSecrets:
    """What seals the values of a queue's jobs. `digest` tells it from another state."""

    def __init__(self, keyring: Keyring, queue: str, values: Values) -> None:
        self._keyring = keyring
        self._queue = queue
        self._values = values
        text = msgspec.json.encode((queue, values), order="deterministic")
        self.digest = hashlib.blake2b(text, digest_size=16).digest()

    def seal(self, value: str) -> str | None:
        """The sealed value; None without a key."""
        return self._keyring.seal(self._queue, value) if self._keyring else None

    def opens(self, sealed: str) -> bool:
        """Whether this value was sealed for the queue, with a key that there is."""
        try:
            self._keyring.open(self._queue, sealed)
        except DecryptionFailed:
            return False
        return True

    def find(self, name: str, key: str) -> str | None:
        """The sealed value of a secret of the queue, if it has it."""
        return self._values.get(name, {}).get(key)


def may_have_secrets(canonical: bytes) -> bool:
    """Whether a pod spec has to be looked at. `canonical`: as encoded here, without escapes."""
    return any(word in canonical for word in _WORDS)


def seal_values(document: dict[str, Any], secrets: QueueSecrets, found: list[FieldError]) -> None:
    """Seal the values that are marked as secret, in place. `Any`: JSON. Adds faults."""
    for at, variable in variables(document):
        if SEALED in variable:
            found.append(FieldError(f"{at}/sealed", "is not a field that is known here"))
        secret = variable.pop("secret", None)
        if secret not in (None, True, False):
            found.append(FieldError(f"{at}/secret", "is neither true nor false"))
        source = variable.get("valueFrom")
        if isinstance(source, dict) and "secretRef" in source:
            source["secretKeyRef"] = source.pop("secretRef")
        if "secretRef" in variable:
            variable["valueFrom"] = {"secretKeyRef": variable.pop("secretRef")}
        if secret is not True or _reference(variable) is not None:
            continue
        value = variable.pop("value", None)
        if not isinstance(value, str):
            found.append(FieldError(f"{at}/value", "is missing, or not a text"))
            continue
        sealed = secrets.seal(value)
        if sealed is None:
            found.append(FieldError(at, NO_KEY))
        else:
            variable[SEALED] = sealed


def resolve(document: dict[str, Any], secrets: QueueSecrets, found: list[FieldError]) -> None:
    """Put the values of the queue's secrets beside the references to them, in place."""
    for at, variable in variables(document):
        reference = _reference(variable)
        if reference is None:
            continue
        name, key = reference.get("name"), reference.get("key")
        sealed = secrets.find(str(name), str(key))
        if sealed is not None:
            variable[SEALED] = sealed
        elif reference.get("optional") is True:
            variable.pop("valueFrom")
            variable["value"] = ""
        else:
            secret, its_key = validation.shown(name), validation.shown(key)
            detail = f"the queue has no secret {secret} with a key {its_key}"
            found.append(FieldError(f"{at}/valueFrom/secretKeyRef", detail))


def _reference(variable: dict[str, Any]) -> dict[str, Any] | None:
    source = variable.get("valueFrom")
    reference = source.get("secretKeyRef") if isinstance(source, dict) else None
    return reference if isinstance(reference, dict) else None


def entries(env: Env) -> list[dict[str, Any]]:
    """The variables of the short form as a container has them. `Any`: JSON."""
    if isinstance(env, list):
        return [_entry(item.name or "", item) for item in env]
    return [
        {"name": name, "value": value} if isinstance(value, str) else _entry(name, value)
        for name, value in env.items()
    ]


def _entry(name: str, value: EnvValue | EnvVar) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name}
    if value.value is not None:
        entry["value"] = value.value
    if value.secret is not None:
        entry["secret"] = value.secret
    source = value.value_from or ValueFrom()
    reference = value.secret_ref or source.secret_key_ref or source.secret_ref
    if reference is not None:
        entry["valueFrom"] = {"secretKeyRef": _fields(reference)}
    return entry


def _fields(reference: SecretKeyRef) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": reference.name, "key": reference.key}
    return fields | ({"optional": True} if reference.optional else {})


def refers(jobs: Iterable[Job]) -> bool:
    """Whether any of these jobs may have a secret value or refer to a secret."""
    return any(
        (job.env is not None and _is_more_than_texts(job.env))
        or (job.pod_spec is not msgspec.UNSET and _may_name_secrets(bytes(job.pod_spec)))
        for job in jobs
    )


def _is_more_than_texts(env: Env) -> bool:
    return isinstance(env, list) or not all(isinstance(value, str) for value in env.values())


def _may_name_secrets(spec: bytes) -> bool:
    """Escapes in the JSON are no way around this."""
    return b"secret" in spec or b"\\u" in spec


def again(spec: bytes, secrets: QueueSecrets) -> bytes | str:
    """The pod spec of a job that is submitted again, with its secrets as they are now; or why not.

    A value of the job itself stays as it was sealed, which binds it to its queue.
    """
    if not has_sealed(spec):
        return spec
    document = msgspec.json.decode(spec)
    for _, variable in variables(document):
        inline = SEALED in variable and "valueFrom" not in variable
        if inline and not secrets.opens(variable[SEALED]):
            return "it has secret values of another queue, or of a key that is no longer there"
    found: list[FieldError] = []
    resolve(document, secrets, found)
    if found:
        return found[0].detail
    return msgspec.json.encode(document)


NONE: Final = QueueSecrets(Keyring(""), "", {})
