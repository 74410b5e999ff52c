"""The query of a request: what it may hold, read strictly.

Read by hand: FastAPI's way costs a single job a tenth of its time, and passes over a parameter
that it does not know, so that `?dryrun=true` would do what it was meant to try.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import Request

from fairlead_common.domain import durations, position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_submit.domain import validation

LENGTH_MAX: Final = 2_000
READ: Final = ("after", "wait")
"""What any read may be given."""


class Query:
    """The parameters of a request, each known and there once."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str) -> str | None:
        """The text of a parameter."""
        return self._given.get(name)

    def flag(self, name: str) -> bool:
        """Whether a parameter is true. Raises a 422 `Problem` for other words."""
        text = self._given.get(name, "false")
        if text not in ("true", "false"):
            detail = f"is {validation.shown(text)}; true or false is expected"
            raise _invalid([FieldError(f"/query/{validation.escape(name)}", detail)])
        return text == "true"


NOTHING = Query({})


def of_read(request: Request) -> None:
    """Raises a `Problem` unless the query holds only what any read may be given, well written."""
    given = of(request, *READ)
    try:
        durations.wait_s(given.text("wait"))
    except ValueError as error:
        raise _invalid([FieldError("/query/wait", str(error))]) from None
    check_position(given.text("after"))


def check_position(after: str | None) -> None:
    """Raises a 400 `Problem` for what is no position. There is none to wait for: submit reads no
    view that lags.
    """
    if after is None:
        return
    try:
        position_tokens.decode(after)
    except ValueError as error:
        fault = FieldError("/query/after", str(error))
        raise Problem("malformed", "The position cannot be read.", [fault]) from None


def of(request: Request, *names: str) -> Query:
    """The query, which may hold these. Raises a 422 `Problem` that names what is wrong with it."""
    if not request.scope.get("query_string"):
        return NOTHING
    pairs = request.query_params.multi_items()
    found = _faults(pairs, names)
    if found:
        raise _invalid(found)
    return Query(dict(pairs))


def _faults(pairs: Sequence[tuple[str, str]], names: Sequence[str]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for name, text in pairs:
        place = f"/query/{validation.escape(name[:100])}"
        if name not in names:
            known = ", ".join(names) or "none"
            found.append(FieldError(place, f"is no parameter of this call; there are: {known}"))
        elif name in seen:
            found.append(FieldError(place, "is said more than once"))
        elif "\0" in text:
            found.append(FieldError(place, "holds a NUL character"))
        elif len(text) > LENGTH_MAX:
            found.append(FieldError(place, f"has {len(text)} characters"))
        seen.add(name)
    return found


def _invalid(found: list[FieldError]) -> Problem:
    return Problem("invalid", "A parameter is not valid.", found)
