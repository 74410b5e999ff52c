"""API tokens, and links that sign a browser in."""

from fairlead.models.job_models import Answer, Sent


class NewToken(Sent, frozen=True, kw_only=True):
    """The request for a token."""

    name: str | None = None
    roles: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    label: str | None = None
    expires_in_seconds: int | None = None


class Token(Answer, frozen=True, kw_only=True):
    """A token. Its secret, `token`, is in the answer that makes it, and never again."""

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


class SignInLink(Answer, frozen=True, kw_only=True):
    """The path of a link that signs a browser in, once, until then."""

    path: str
    expires_at: str | None = None
