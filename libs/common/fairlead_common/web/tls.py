"""How services verify the HTTPS servers to which they connect."""

import functools
import ssl

import httpx2


@functools.cache
def trust_system() -> ssl.SSLContext:
    """Trusts the certificates of this machine. Reading them takes tens of milliseconds, in which
    the event loop stands still, so all clients share one context, which must not be changed."""
    return httpx2.create_ssl_context(trust_env=False)
