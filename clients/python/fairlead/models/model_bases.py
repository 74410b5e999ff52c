"""The bases of the objects of the API, which are frozen structs.

A request model rejects unknown fields when it is decoded. A response model ignores unknown fields,
so that an older client works with a newer server.
"""

import msgspec


class RequestModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The base of structs in the body of a request."""


class ResponseModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of structs in the body of a response."""
