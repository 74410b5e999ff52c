"""The query string of a request, read strictly: an unknown parameter is an error.

It is not read by FastAPI, which takes a tenth of the time of a single job, and ignores unknown
parameters, so that `?dryrun=true` would submit jobs.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import Request

from fairlead_common.domain import position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests import validation
from fairlead_common.web.requests import query_validation
from fairlead_common.web.requests.query_validation import find_name_errors

LENGTH_MAX: Final = 2_000
READ_PARAMETERS: Final = ("after", "wait")
"""Parameters that every read accepts."""


class Query:
    """The parameters of a request, without unknown or repeated ones."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str) -> str | None:
        """The value of a parameter, if it is given."""
        return self._given.get(name)

    def flag(self, name: str) -> bool:
        """Whether a parameter is `true`. Raises a 422 `Problem` for anything but true or false."""
        text = self._given.get(name, "false")
        if text not in ("true", "false"):
            detail = f"is {validation.quote(text)}; true or false is expected"
            raise _problem([FieldError(f"/query/{validation.escape_pointer(name)}", detail)])
        return text == "true"


EMPTY = Query({})


def check_read_query(request: Request) -> None:
    """Raises a `Problem` unless the query has only valid parameters of every read."""
    given = read_query(request, *READ_PARAMETERS)
    try:
        query_validation.parse_wait_s(given.text("wait"))
    except ValueError as error:
        raise _problem([FieldError("/query/wait", str(error))]) from None
    check_position(given.text("after"))


def check_position(after: str | None) -> None:
    """Raises a 400 `Problem` for a text that is not a position token. Reads of submit do not wait
    for positions, since its tables do not lag.
    """
    if after is None:
        return
    try:
        position_tokens.decode(after)
    except ValueError as error:
        field_error = FieldError("/query/after", str(error))
        raise Problem(
            "malformed",
            "The position `after` is not valid. Use a `position` that a response has returned.",
            [field_error],
        ) from None


def read_query(request: Request, *names: str) -> Query:
    """The query, with these parameters allowed. Raises a 422 `Problem` that names every error."""
    if not request.scope.get("query_string"):
        return EMPTY
    pairs = request.query_params.multi_items()
    found = [*find_name_errors(pairs, names), *_find_long_values(pairs)]
    if found:
        raise _problem(found)
    return Query(dict(pairs))


def _find_long_values(pairs: Sequence[tuple[str, str]]) -> list[FieldError]:
    return [
        FieldError(
            f"/query/{validation.escape_pointer(name[:100])}",
            f"has {len(text)} characters; at most {LENGTH_MAX} are allowed",
        )
        for name, text in pairs
        if len(text) > LENGTH_MAX
    ]


def _problem(found: list[FieldError]) -> Problem:
    return Problem("invalid", "A parameter is not valid.", found)
