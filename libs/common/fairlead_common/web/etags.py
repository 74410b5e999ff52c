"""ETags in the headers of requests (RFC 9110, section 13.1)."""


def is_known(header: str | None, etag: str) -> bool:
    """Whether `If-None-Match` names this tag. A proxy that compresses answers makes tags weak:
    `W/"3"` is as good as `"3"` here.
    """
    return matches(header, etag, weak=True)


def matches(header: str | None, etag: str, *, weak: bool = False) -> bool:
    """Whether `If-Match` names this tag."""
    texts = [text.strip() for text in (header or "").split(",")]
    return any(text in ("*", etag) or (weak and text.removeprefix("W/") == etag) for text in texts)
