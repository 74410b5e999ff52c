"""What can go wrong when one asks a server, as exceptions that say what to do about it.

Everything derives from `FairleadError`. `Refused` and its subclasses carry the server's problem
document; `ServerUnreachable` means that no answer came in spite of the retries.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from fairlead.models.job_models import Problem, SubmittedJob

FAULTS_SAID_MAX: Final = 20


class FairleadError(Exception):
    """Anything that this package raises on purpose."""


class NotConfigured(FairleadError):
    """A setting or a configuration file of the client cannot be understood."""


class NoServer(NotConfigured):
    """It is not known which server to ask."""


class ServerUnreachable(FairleadError):
    """No answer came, after as many tries as the retry policy allows."""


class UnexpectedAnswer(FairleadError):
    """What answered does not speak Fairlead's API."""


class WaitTimeout(FairleadError, TimeoutError):
    """What was waited for did not happen in the time given."""


class Refused(FairleadError):
    """The server refused the request; `problem` says why, with every fault it found.

    `accepted` holds the jobs that earlier requests of the same `submit` had already created. They
    are not created again when the whole list is submitted again with the same client ids.
    """

    def __init__(self, problem: Problem, accepted: Sequence[SubmittedJob] = ()) -> None:
        said = problem.detail or problem.title or f"status {problem.status}"
        faults = [f"{fault.pointer}: {fault.detail}" for fault in problem.errors[:FAULTS_SAID_MAX]]
        super().__init__("\n  ".join([said, *faults]))
        self.problem = problem
        self.accepted = tuple(accepted)

    def __reduce__(self) -> tuple[object, ...]:
        """So that it can be copied, and sent to another process, whole."""
        return type(self), (self.problem, self.accepted), self.__dict__


class Malformed(Refused):
    """400: the request could not be read."""


class Unauthenticated(Refused):
    """401: no token, or one that the server does not know."""


class Forbidden(Refused):
    """403: the caller may not do this."""


class NotFound(Refused):
    """404: there is no such thing, or the caller may not see it."""


class Conflict(Refused):
    """409 or 412: it conflicts with what is there."""


class TooLarge(Refused):
    """413: more bytes than the server takes."""


class Invalid(Refused):
    """422: understood, but wrong; see `problem.errors`."""


class Busy(Refused):
    """429: too many requests, also after waiting as the server asked."""


class Unavailable(Refused):
    """502, 503 or 504: something the server needs is away, also after retries."""


_BY_STATUS: Final[Mapping[int, type[Refused]]] = MappingProxyType(
    {
        400: Malformed,
        401: Unauthenticated,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        412: Conflict,
        413: TooLarge,
        422: Invalid,
        429: Busy,
        502: Unavailable,
        503: Unavailable,
        504: Unavailable,
    }
)


def refusal(problem: Problem, accepted: Sequence[SubmittedJob] = ()) -> Refused:
    """The exception of this problem's status."""
    return _BY_STATUS.get(problem.status, Refused)(problem, accepted)
