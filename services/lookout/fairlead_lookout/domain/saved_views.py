"""Saved views of the page of jobs: a name for a list of jobs, for one user or for all."""

from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Meta

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests.validation import without_implied

NAME_MAX: Final = 100
ADDRESS_MAX: Final = 2_000
PERSONAL_MAX: Final = 100
"""Personal views of one user."""
SHARED_MAX: Final = 200
PATH: Final = "/jobs"
FILTER_PATH: Final = "/jobs/filter"
"""Leads to the page of jobs; it has `submittedWithin` too, which counts from when it is opened."""
WITHIN: Final = "submittedWithin"
PARAMETERS: Final = frozenset(
    {
        *("q", "queue", "jobSet", "state", "class", "cluster", "node", "category"),
        *("submittedAfter", "groupBy"),
    }
)
"""Parameters of the page of jobs that belong to a view."""
PREFIXES: Final = ("label.", "annotation.")
FIELDS_MAX: Final = 100


class SavedViewRequest(
    msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """A view to save. `address`: of the page of jobs. `shared`: for all users."""

    name: Annotated[str, Meta(max_length=NAME_MAX)] | None = None
    address: Annotated[str, Meta(max_length=ADDRESS_MAX)] | None = None
    shared: bool | None = None


class RenameRequest(
    msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """The new name of a view."""

    name: Annotated[str, Meta(max_length=NAME_MAX)] | None = None


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    """A saved view. `owner`: the user who sees it, None if all users do. `by`: who saved it."""

    number: int
    name: str
    address: str
    owner: str | None
    by: str
    created_ms: int


def check_name(name: str | None) -> list[FieldError]:
    """Every error of the name of a view."""
    if not name or not name.strip():
        return [FieldError("/name", "is missing")]
    if not name.isprintable():
        return [FieldError("/name", "has characters that cannot be displayed")]
    return []


def check_request(given: SavedViewRequest, known: list[FieldError]) -> list[FieldError]:
    """Every error of a request. `known`: what decoding has found."""
    found = check_name(given.name)
    if not given.address:
        found.append(FieldError("/address", "is missing"))
    elif (detail := _check_address(given.address)) is not None:
        found.append(FieldError("/address", detail))
    return [*known, *without_implied(found, known)]


def _check_address(address: str) -> str | None:
    """Why this is not the address of a list of jobs. None if it is one."""
    example = f"use an address like {PATH}?state=FAILED"
    if not address.isascii() or not address.isprintable() or " " in address:
        return f"has characters that must be percent-encoded; {example}"
    try:
        parts = urlsplit(address)
        query = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        return f"is not a valid address; {example}"
    if (parts.scheme, parts.netloc, parts.fragment) != ("", "", "") or parts.path not in (
        PATH,
        FILTER_PATH,
    ):
        return f"is not an address of the page of jobs; {example}"
    for name, _ in query:
        if name == WITHIN and parts.path == FILTER_PATH:
            continue
        if name not in PARAMETERS and not name.startswith(PREFIXES):
            return f"has the parameter {name[:40]!r}, which the page of jobs does not have"
    return None
