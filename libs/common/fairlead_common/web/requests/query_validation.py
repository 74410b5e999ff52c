"""Strict validation of query parameters: an unknown name is an error, and the response lists every
error.

FastAPI validates the values of a route's parameters; names are checked here, against the OpenAPI
document of the route.
"""

import functools
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import AfterValidator

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests.validation import escape_pointer
from fairlead_common.web import problem_documents
from fairlead_common.web.openapi import PREFIXES
from fairlead_common.web.problem_documents import FIELD_ERRORS_MAX
from fairlead_common.web.routing import DeferredRoute

NAMES_MAX: Final = 16
"""Most parameters with the same beginning."""
NAME_LENGTH_MAX: Final = 317
WAIT_S_MAX: Final = 60.0
_WAIT: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m)?")
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}

_name_errors: Final[ContextVar[Sequence[FieldError]]] = ContextVar("name_errors", default=())
"""The errors in the names of the current request, until its values have been validated too."""


def parse_wait_s(text: str | None, default_s: float = 0.0) -> float:
    """The seconds that `30s`, `500ms`, `2m` or a plain number says, at most `WAIT_S_MAX`.

    Raises `ValueError`.
    """
    if text is None:
        return default_s
    match = _WAIT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a valid duration; write it like 30s or 500ms.")
    return min(float(match[1]) * _UNIT_S[match[2] or "s"], WAIT_S_MAX)


def validated_by(read: Callable[[str], object]) -> AfterValidator:
    """An annotation for a parameter's type: `read` raises `ValueError` for an invalid text."""

    def check(text: str) -> str:
        read(text)
        return text

    return AfterValidator(check)


After = Annotated[
    str | None,
    Query(
        max_length=2_000,
        description=(
            "Wait until the view has reached this position, from the response to an earlier change."
        ),
    ),
]
Wait = Annotated[
    Annotated[str, validated_by(parse_wait_s)] | None,
    Query(max_length=20, description="The longest time to wait, for example 30s."),
]


class StrictRoute(DeferredRoute):
    """A route that answers an invalid query with a 422 `Problem` that lists every error.

    The endpoint is called only if both the names and the values are valid.
    """

    def __init__(
        self, path: str, endpoint: Callable[..., Awaitable[Any]], **options: Any
    ) -> None:  # `Any`: what a route takes and returns is up to it and FastAPI
        super().__init__(path, _raise_name_errors_first(endpoint), **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            given = request.query_params.multi_items()
            found = list(find_name_errors(given, self._names, self._prefixes)) if given else []
            token = _name_errors.set(found)
            try:
                return await handle(request)
            except RequestValidationError as error:
                known = {each.pointer for each in found}
                values = problem_documents.field_errors(error)
                raise _invalid([*found, *(e for e in values if e.pointer not in known)]) from None
            finally:
                _name_errors.reset(token)

        return handle_strictly

    @functools.cached_property
    def _names(self) -> Collection[str]:
        """The names of the parameters, as the OpenAPI document has them."""
        (calls,) = get_openapi(title="", version="", routes=[self])["paths"].values()
        parameters = [each for call in calls.values() for each in call.get("parameters", ())]
        return sorted({each["name"] for each in parameters if each["in"] == "query"})

    @property
    def _prefixes(self) -> Sequence[str]:
        prefixes: Sequence[str] = (self.openapi_extra or {}).get(PREFIXES, ())
        return prefixes


def _raise_name_errors_first(endpoint: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """The endpoint, which raises the errors in names once FastAPI found none in the values."""

    @functools.wraps(endpoint)
    async def call(*given: Any, **named: Any) -> Any:
        if found := _name_errors.get():
            raise _invalid(found)
        return await endpoint(*given, **named)

    return call


def find_name_errors(
    given: Sequence[tuple[str, str]], names: Collection[str], prefixes: Sequence[str] = ()
) -> Iterator[FieldError]:
    """Unknown and repeated names, and NUL characters. `prefixes` begin names of any ending."""
    seen: set[str] = set()
    for name, text in given:
        place = _place(name)
        prefix = next(filter(name.startswith, prefixes), None)
        if name in seen:
            yield FieldError(place, "This parameter is given more than once.")
        elif "\0" in name + text:
            yield FieldError(
                place, "This parameter contains a NUL character, which is not allowed."
            )
        elif name not in names and prefix is None:
            there_are = ", ".join([*sorted(names), *(f"{each}<name>" for each in prefixes)])
            detail = "This parameter does not exist here; the parameters are "
            yield FieldError(place, f"{detail}{there_are or 'none'}.")
        elif prefix is not None and not len(prefix) < len(name) <= len(prefix) + NAME_LENGTH_MAX:
            yield FieldError(place, f"Write {prefix}<name>=<value>.")
        seen.add(name)
    for prefix in prefixes:
        count = sum(name.startswith(prefix) for name in seen)
        if count > NAMES_MAX:
            detail = f"{count} are given; at most {NAMES_MAX} are allowed."
            yield FieldError(_place(prefix), detail)


def _invalid(found: Sequence[FieldError]) -> Problem:
    return Problem("invalid", "A parameter is not valid.", found[:FIELD_ERRORS_MAX])


def _place(name: str) -> str:
    """The JSON pointer to a parameter."""
    return f"/query/{escape_pointer(name[:100])}"
