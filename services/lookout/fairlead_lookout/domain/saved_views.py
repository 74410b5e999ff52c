"""Saved views: a name for a page with its filters and its order, for one user or for all."""

from collections.abc import Sequence
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
FIELDS_MAX: Final = 100
FILTER: Final = "/filter"
"""After the path of a page: leads to the page, and knows hours before the view is opened."""


class SavablePage(msgspec.Struct, frozen=True):
    """A page that can be saved. `path`: its address, with `*` for a name; `parameters`: those that
    belong to a view; `prefixes`: of further ones.

    `after`: the parameter that is the time since when the page lists; `within`: a number of hours
    in its place, which counts from when the view is opened.
    """

    path: str
    title: str
    parameters: frozenset[str]
    prefixes: tuple[str, ...] = ()
    after: str | None = None
    within: str | None = None


PAGES: Final = (
    SavablePage(
        "/jobs",
        "Jobs",
        frozenset(
            {
                *("q", "queue", "jobSet", "state", "class", "cluster", "node", "category"),
                *("submittedAfter", "groupBy"),
            }
        ),
        prefixes=("label.", "annotation."),
        after="submittedAfter",
        within="submittedWithin",
    ),
    SavablePage("/", "Job sets", frozenset({"queue", "q", "active"})),
    SavablePage("/queues", "Queues", frozenset({"sort"})),
    SavablePage("/clusters", "Clusters", frozenset({"sort"})),
    SavablePage("/clusters/*", "Nodes", frozenset({"resource", "q", "sort"})),
    SavablePage("/pools", "Pools", frozenset({"sort"})),
    SavablePage("/pools/*", "Pool", frozenset({"sort"})),
    SavablePage(
        "/preemptions",
        "Preemptions",
        frozenset({"queue", "from", "to"}),
        after="from",
        within="fromWithin",
    ),
    SavablePage("/fairness", "Fairness", frozenset({"pool", "q", "period", "sort"})),
)
_TITLES: Final = ", ".join(page.title.lower() for page in PAGES)


class SavedViewRequest(
    msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """A view to save. `address`: of a page with its filters. `shared`: for all users."""

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


def find_page(path: str) -> SavablePage | None:
    """The page at this path; None if it cannot be saved."""
    return next((page for page in PAGES if _matches(page.path, path.split("/"))), None)


def _matches(pattern: str, parts: Sequence[str]) -> bool:
    wanted = pattern.split("/")
    return len(wanted) == len(parts) and all(
        part == each or (each == "*" and part not in ("", ".", ".."))
        for each, part in zip(wanted, parts, strict=True)
    )


def _check_address(address: str) -> str | None:
    """Why this is not the address of a page that can be saved. None if it is one."""
    example = "use an address like /jobs?state=FAILED"
    if not address.isascii() or not address.isprintable() or " " in address:
        return f"has characters that must be percent-encoded; {example}"
    try:
        parts = urlsplit(address)
        query = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        return f"is not a valid address; {example}"
    page = find_page(parts.path)
    permitted = page.parameters if page else frozenset()
    if page is None and parts.path.endswith(FILTER):
        page = find_page(parts.path.removesuffix(FILTER))
        permitted = page.parameters | {page.within} if page and page.within else frozenset()
    if (parts.scheme, parts.netloc, parts.fragment) != ("", "", "") or page is None:
        return f"is not an address of a page with filters ({_TITLES}); {example}"
    for name, _ in query:
        if name not in permitted and not name.startswith(page.prefixes):
            return f"has the parameter {name[:40]!r}, which the page does not have"
    return None
