"""One exchange with the server: the request, the reply, and the failure to get one."""

import msgspec

REQUEST_READ_S: float = 60.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request. `repeatable`: it is idempotent, so it can be sent again.

    `read_s`: the read timeout; None for no timeout.
    """

    method: str = "GET"
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    repeatable: bool = True
    read_s: float | None = REQUEST_READ_S


class Reply(msgspec.Struct, frozen=True):
    """A response of the server; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


class Unreachable(Exception):
    """No response, or an incomplete one. `sent`: the server has possibly received the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
