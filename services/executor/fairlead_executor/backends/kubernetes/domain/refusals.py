"""What a refusal of the API server means for the run whose pod it was. Pure."""

from enum import Enum, auto
from typing import Final

import msgspec

from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.backends.kubernetes.domain.api_objects import Status
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End

MESSAGE_LENGTH_MAX: Final = 2_000
_REPEATED_CODES: Final = frozenset({401, 408, 409, 429})


class Outcome(Enum):
    """What to do after an answer."""

    REPEAT = auto()
    EXISTS = auto()
    NO_NAMESPACE = auto()
    ENDED = auto()


class Refusal(msgspec.Struct, frozen=True):
    """An answer to the creation of a pod other than success; `end` with `ENDED` only."""

    outcome: Outcome
    end: End | None = None


def is_repeated(code: int) -> bool:
    """Whether the same request can succeed later."""
    return code in _REPEATED_CODES or code >= 500


def read_refusal(code: int, status: Status) -> Refusal:
    """What an answer with this HTTP code means for a pod that was to be created."""
    message = status.message[:MESSAGE_LENGTH_MAX] or f"HTTP status {code}"
    if code == 409 and status.reason == "AlreadyExists":
        return Refusal(Outcome.EXISTS)
    if code == 403 and "exceeded quota" in message:
        return Refusal(Outcome.ENDED, pods.returned(f"the cluster has no quota left: {message}"))
    if code == 403 and "cannot create resource" in message:
        text = f"the executor is not permitted to create pods there: {message}"
        return Refusal(Outcome.ENDED, pods.returned(text))
    if code == 404 and "namespaces" in message:
        return Refusal(Outcome.NO_NAMESPACE)
    if code == 403 and "being terminated" in message:
        return Refusal(Outcome.ENDED, pods.failed(FailureCategory.ADMISSION, message))
    if is_repeated(code):
        return Refusal(Outcome.REPEAT)
    text = f"the cluster refused the pod: {message}"
    return Refusal(Outcome.ENDED, pods.failed(FailureCategory.ADMISSION, text))
