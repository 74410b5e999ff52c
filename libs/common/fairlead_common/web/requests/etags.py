"""ETags in the headers of requests (RFC 9110, section 13.1)."""


def is_known(header: str | None, etag: str) -> bool:
    """Whether `If-None-Match` contains this ETag. A proxy that compresses responses makes ETags
    weak: `W/"3"` matches `"3"` here.
    """
    return matches(header, etag, weak=True)


def matches(header: str | None, etag: str, *, weak: bool = False) -> bool:
    """Whether `If-Match` contains this ETag."""
    texts = [text.strip() for text in (header or "").split(",")]
    return any(text in ("*", etag) or (weak and text.removeprefix("W/") == etag) for text in texts)
