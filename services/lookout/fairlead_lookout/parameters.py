"""No parameter is passed over in silence: a name that a route does not know is an error."""

from typing import Final

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from fairlead_common.errors import Fault
from fairlead_common.problems import FAULTS_MAX, Problem
from fairlead_lookout.filters import ANNOTATION, LABEL

PREFIXES: Final = "x-parameter-prefixes"
"""In a route's `openapi_extra`: beginnings of the names that it reads itself."""
BY_NAME: Final = {PREFIXES: [LABEL, ANNOTATION]}


def _names(dependant: Dependant) -> set[str]:
    """The parameters that a route reads, and what it depends on."""
    own = {each.alias for each in dependant.query_params}
    return own.union(*map(_names, dependant.dependencies))


async def check(request: Request) -> None:
    """Raises a 422 `Problem` that names unknown parameters, and those given twice."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = _names(route.dependant)
    prefixes = tuple((route.openapi_extra or {}).get(PREFIXES, ()))
    seen: set[str] = set()
    faults = []
    for name, _ in request.query_params.multi_items():
        pointer = f"/query/{name[:100]}"
        if name in seen:
            faults.append(Fault(pointer, "This parameter is given more than once."))
        elif name not in known and not name.startswith(prefixes or "\0"):
            also = "".join(f", {prefix}<name>" for prefix in prefixes)
            detail = f"There is no such parameter here; there are {', '.join(sorted(known))}{also}."
            faults.append(Fault(pointer, detail))
        seen.add(name)
    if faults:
        raise Problem("invalid", "A parameter is not known.", faults[:FAULTS_MAX])
