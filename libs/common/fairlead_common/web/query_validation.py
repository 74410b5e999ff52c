"""Strict validation of query parameters: an unknown name is an error, and the response lists every
error.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Final

from fastapi import Query, Request
from fastapi._compat import ModelField
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from fairlead_common.domain import durations
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.web import problem_documents
from fairlead_common.web.openapi_texts import PREFIXES
from fairlead_common.web.problem_documents import FIELD_ERRORS_MAX

NAMES_MAX: Final = 16
"""Most parameters with the same beginning."""
NAME_LENGTH_MAX: Final = 317


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
    Annotated[str, validated_by(durations.wait_s)] | None,
    Query(max_length=20, description="The longest time to wait, for example 30s."),
]


async def check_query(request: Request) -> None:
    """Raises a 422 `Problem` with every error in the query of a request."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = {field.alias: field for field in _fields(route.dependant)}
    prefixes: tuple[str, ...] = tuple((route.openapi_extra or {}).get(PREFIXES, ()))
    given = request.query_params.multi_items()
    found = [*_list_errors(given, known, prefixes), *_missing(given, known)]
    if found:
        raise Problem("invalid", "A parameter is not valid.", found[:FIELD_ERRORS_MAX])


def _fields(dependant: Dependant) -> Iterator[ModelField]:
    """The parameters of a route and of its dependencies."""
    yield from dependant.query_params
    for each in dependant.dependencies:
        yield from _fields(each)


def _list_errors(
    given: Sequence[tuple[str, str]], known: dict[str, ModelField], prefixes: tuple[str, ...]
) -> Iterator[FieldError]:
    seen: dict[str, str] = {}
    for name, text in given:
        place = _place(name)
        prefix = next(filter(name.startswith, prefixes), None)
        if name in seen:
            yield FieldError(place, "This parameter is given more than once.")
        elif "\0" in name + text:
            yield FieldError(
                place, "This parameter contains a NUL character, which is not allowed."
            )
        elif name in known:
            _, wrong = known[name].validate(text, loc=("query", name))
            yield from (
                FieldError(place, problem_documents.strip_validator_prefix(each["msg"]))
                for each in wrong
            )
        elif prefix is None:
            there_are = ", ".join([*sorted(known), *(f"{each}<name>" for each in prefixes)])
            detail = "This parameter does not exist here; the parameters are "
            yield FieldError(place, f"{detail}{there_are or 'none'}.")
        elif not len(prefix) < len(name) <= len(prefix) + NAME_LENGTH_MAX:
            yield FieldError(place, f"Write {prefix}<name>=<value>.")
        seen[name] = text
    for prefix in prefixes:
        count = sum(name.startswith(prefix) for name in seen)
        if count > NAMES_MAX:
            detail = f"{count} are given; at most {NAMES_MAX} are allowed."
            yield FieldError(_place(prefix), detail)


def _missing(
    given: Sequence[tuple[str, str]], known: dict[str, ModelField]
) -> Iterator[FieldError]:
    names = {name for name, _ in given}
    for name, field in known.items():
        if field.field_info.is_required() and name not in names:
            yield FieldError(_place(name), "This parameter is missing.")


def _place(name: str) -> str:
    """The JSON pointer (RFC 6901) to a parameter."""
    return "/query/" + name[:100].replace("~", "~0").replace("/", "~1")
