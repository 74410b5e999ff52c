"""Whether a browser sent a request by itself, or because a foreign page made it (CSRF).

What a browser adds by itself (a cookie, a remembered password) proves nothing about who wanted the
request. `SameSite=Strict` keeps the cookie from foreign sites; this is the second lock, by headers
that no page can forge. Tokens in `Authorization` are added by programs and need none of it.
"""

from collections.abc import Mapping
from typing import Final

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def is_same_origin(headers: Mapping[bytes, bytes]) -> bool | None:
    """Whether our own page asked; None if the request does not say, as no browser today does."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return None
    return origin.partition(b"://")[2] == headers.get(b"host")
