"""API tokens, and links that sign a browser in."""

from fairlead.models.model_bases import RequestModel, ResponseModel


class NewToken(RequestModel, frozen=True, kw_only=True):
    """The request for a token."""

    name: str | None = None
    roles: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    label: str | None = None
    expires_in_seconds: int | None = None


class Token(ResponseModel, frozen=True, kw_only=True):
    """An API token. Only the response that creates it contains the secret, `token`."""

    id: str
    name: str
    roles: tuple[str, ...] = ()
    kind: str = "token"
    personal: bool = False
    queues: tuple[str, ...] | None = None
    label: str = ""
    made_by: str = ""
    created_at: str | None = None
    expires_at: str | None = None
    token: str | None = None


class SignInLink(ResponseModel, frozen=True, kw_only=True):
    """The path of a link that signs a browser in. It works one time, until `expires_at`."""

    path: str
    expires_at: str | None = None
