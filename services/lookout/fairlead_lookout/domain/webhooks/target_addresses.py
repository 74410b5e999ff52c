"""To which addresses deliveries are sent: URLs are checked when a webhook is stored, addresses at
each connection.

Webhooks make the server send requests to addresses that users choose (server-side request forgery).
Only addresses of the public internet are permitted, and networks that the operator allows.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

URL_LENGTH_MAX: Final = 2_048
HOST_LENGTH_MAX: Final = 253

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_SPECIAL_NETWORKS: Final = tuple(
    map(ipaddress.IPv4Network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24"))
)
"""Global addresses for Python at which clouds serve the metadata of their machines, or relays."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_HOST_NAME: Final = re.compile(
    r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?",
    re.IGNORECASE,
)
_PORTS: Final = {"https": 443, "http": 80}
_NUMERIC: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)\.?", re.IGNORECASE)


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks in CIDR notation. Raises ValueError."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def explain_refusal(text: str, allowed: Sequence[Network], *, encrypted: bool = True) -> str | None:
    """Why no request is sent to this address; None if one is. Without encryption, only networks
    that the operator allows are permitted."""
    address = _unwrap(ipaddress.ip_address(text.partition("%")[0]))
    if any(address.version == network.version and address in network for network in allowed):
        return None
    if not _is_public(address):
        return f"{text} is not a public address, and not in the setting webhookNetworks"
    if not encrypted:
        return f"http is only permitted to networks in the setting webhookNetworks, not to {text}"
    return None


def _unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for (mapped, NAT64), or the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _is_public(address: Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_NETWORKS)
    if address.is_site_local or address.teredo is not None:
        return False
    # A 6to4 gateway would forward packets to this IPv4 address.
    return address.sixtofour is None or _is_public(address.sixtofour)


def check_url(url: str, allowed: Sequence[Network]) -> str | None:
    """What is wrong with the URL of a webhook, as far as it is known without resolving its name."""
    if len(url) > URL_LENGTH_MAX:
        return f"has {len(url)} characters; at most {URL_LENGTH_MAX} are allowed"
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "has characters that are not allowed in a URL; percent-encode them"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"is not a valid URL: {error}"
    if parts.scheme == "http" and not allowed:
        return (
            "must begin with https://, because the operator permits http:// to no network"
            " (setting webhookNetworks)"
        )
    if parts.scheme not in _PORTS:
        return "must begin with https://"
    if port == 0:
        return "has the port 0"
    if parts.username is not None or parts.password is not None:
        return "contains a user name or password; send credentials in `headers`"
    if parts.fragment:
        return "has a fragment (#), which is never sent"
    return _check_host(parts, allowed)


def find_origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a valid URL: requests to one origin reach the same server."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def _check_host(parts: SplitResult, allowed: Sequence[Network]) -> str | None:
    host = parts.hostname or ""
    if not host:
        return "has no host"
    encrypted = parts.scheme == "https"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if "[" in parts.netloc:
            return "has a host in brackets that is not an IPv6 address"
    else:
        if "%" in host:
            return "has an address with a zone"
        return explain_refusal(host, allowed, encrypted=encrypted)
    if len(host) > HOST_LENGTH_MAX or _HOST_NAME.fullmatch(host) is None:
        return "has a host that is not a valid name or address"
    if _NUMERIC.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return "has a host that is neither a name nor an address in the usual form"
    if host.rstrip(".").rpartition(".")[2].lower() == "localhost":
        return explain_refusal("127.0.0.1", allowed, encrypted=encrypted)
    return None
