"""Whether a request of a browser comes from Fairlead's own pages (protection against CSRF).

What a browser adds by itself (a cookie, a stored password) does not prove that the user wanted the
request. `SameSite=Strict` withholds the cookie from requests of other sites; this is a second
check, of headers that no page is able to forge. `Authorization: Bearer` is added by programs and
needs no check.
"""

from collections.abc import Mapping
from typing import Final

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def is_same_origin(headers: Mapping[bytes, bytes]) -> bool | None:
    """Whether a page of this server sent the request; None if its headers do not say."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return None
    return origin.partition(b"://")[2] == headers.get(b"host")


def is_opened_by_another_site(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a link on a page of another site opened this one, as far as the browser says."""
    return headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none")
