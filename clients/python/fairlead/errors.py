"""The exceptions of the client; their messages say what to do.

Everything derives from `FairleadError`. `Refused` and its subclasses carry the server's problem
document; `ServerUnreachable` means that no answer came in spite of the retries.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from fairlead.models.job_models import Problem, SubmittedJob

FIELD_ERRORS_LISTED_MAX: Final = 20


class FairleadError(Exception):
    """The base class of all exceptions of this package."""


class NotConfigured(FairleadError):
    """A setting or a configuration file of the client cannot be understood."""


class NoServer(NotConfigured):
    """No server is configured."""


class ServerUnreachable(FairleadError):
    """No answer came, after as many tries as the retry policy allows."""


class UnexpectedAnswer(FairleadError):
    """The answer is not one of Fairlead's API."""


class WaitTimeout(FairleadError, TimeoutError):
    """The awaited state was not reached within the timeout."""


class Refused(FairleadError):
    """The server refused the request; `problem` holds the reason and all field errors.

    `accepted` holds the jobs that earlier requests of the same `submit` had already created. They
    are not created again when the whole list is submitted again with the same client ids.
    """

    def __init__(self, problem: Problem, accepted: Sequence[SubmittedJob] = ()) -> None:
        reason = problem.detail or problem.title or f"status {problem.status}"
        found = [
            f"{error.pointer}: {error.detail}" for error in problem.errors[:FIELD_ERRORS_LISTED_MAX]
        ]
        super().__init__("\n  ".join([reason, *found]))
        self.problem = problem
        self.accepted = tuple(accepted)

    def __reduce__(self) -> tuple[object, ...]:
        """Let copies, and pickles for other processes, hold all fields."""
        return type(self), (self.problem, self.accepted), self.__dict__


class Malformed(Refused):
    """400: the request could not be read."""


class Unauthenticated(Refused):
    """401: no token, or one that the server does not know."""


class Forbidden(Refused):
    """403: the caller is not permitted to do this."""


class NotFound(Refused):
    """404: it does not exist, or the caller is not permitted to see it."""


class Conflict(Refused):
    """409 or 412: it conflicts with the current state."""


class TooLarge(Refused):
    """413: more bytes than the server accepts."""


class Invalid(Refused):
    """422: readable, but not valid; see `problem.errors`."""


class Busy(Refused):
    """429: too many requests, also after the retries."""


class Unavailable(Refused):
    """502, 503 or 504: a dependency of the server is unavailable, also after the retries."""


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
