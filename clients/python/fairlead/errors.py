"""The exceptions of the client; their messages say what to do.

All derive from `FairleadError`. `RequestRefused` and its subclasses contain the problem document of
the server. `ServerUnreachable` means that no response came, also after the retries.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from fairlead.models.job_models import Problem, SubmittedJob

FIELD_ERRORS_LISTED_MAX: Final = 20


class FairleadError(Exception):
    """The base class of all exceptions of this package."""


class NotConfigured(FairleadError):
    """A setting or a configuration file of the client is not valid."""


class NoServer(NotConfigured):
    """No server is configured."""


class ServerUnreachable(FairleadError):
    """No response came within the attempts of the retry policy."""


class UnexpectedResponse(FairleadError):
    """The response does not conform to the API."""


class WaitTimeout(FairleadError, TimeoutError):
    """The state was not reached within the timeout."""


class RequestRefused(FairleadError):
    """The server refused the request; `problem` holds the reason and all field errors.

    `accepted` has the jobs that earlier requests of the same `submit` have created. Submitting the
    whole list again with the same client ids does not create them a second time.
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
        """Copy and pickle all fields."""
        return type(self), (self.problem, self.accepted), self.__dict__


class Malformed(RequestRefused):
    """400: the request could not be read."""


class Unauthenticated(RequestRefused):
    """401: the request has no token, or an invalid one."""


class Forbidden(RequestRefused):
    """403: the caller is not permitted to do this."""


class NotFound(RequestRefused):
    """404: the object does not exist, or the caller is not permitted to view it."""


class Conflict(RequestRefused):
    """409 or 412: the request conflicts with the current state of the object."""


class TooLarge(RequestRefused):
    """413: the request has more bytes than the server accepts."""


class Invalid(RequestRefused):
    """422: the request can be decoded but is not valid; `problem.errors` lists the fields."""


class Busy(RequestRefused):
    """429: too many requests, also after the retries."""


class Unavailable(RequestRefused):
    """502, 503 or 504: a dependency of the server is unavailable, also after the retries."""


_BY_STATUS: Final[Mapping[int, type[RequestRefused]]] = MappingProxyType(
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


def build_refusal(problem: Problem, accepted: Sequence[SubmittedJob] = ()) -> RequestRefused:
    """The exception of this problem's status."""
    return _BY_STATUS.get(problem.status, RequestRefused)(problem, accepted)
