"""The addresses of brokers and the credentials for them, from a `kafka://` URL.

    kafka://host:9092,host:9092
    kafka+tls://user:password@host:9093?ca=/etc/fairlead/ca.pem
    kafka+tls://host:9093?ca=ca.pem&cert=client.pem&key=client-key.pem

`kafka+tls` encrypts and verifies the brokers' certificates, with `ca` or the machine's trust store.
A user and password (percent-encoded where they contain `:`, `/` or `@`) authenticate by SASL with
`mechanism`; `cert` and `key` authenticate by a client certificate.
"""

import ssl
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from fairlead_common.domain.errors import LogUrlInvalid

MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""SASL mechanisms; the first is the default."""
_KEYS: Final = ("ca", "cert", "key", "mechanism")
_SCHEMES: Final = ("kafka", "kafka+tls")


class KafkaAddress(msgspec.Struct, frozen=True):
    """`servers` as `host:port,...`; `tls` None means unencrypted, `user` "" unauthenticated."""

    servers: str
    tls: ssl.SSLContext | None = None
    user: str = ""
    password: str = ""
    mechanism: str = MECHANISMS[0]

    def __repr__(self) -> str:
        """Without the password, because this text gets into messages and logs."""
        who = f" as {self.user}" if self.user else ""
        return f"{self.servers}{who}{' over TLS' if self.tls else ''}"

    def options(self) -> dict[str, Any]:
        """The arguments of every client of `aiokafka`."""
        protocol = f"{'SASL_' if self.user else ''}{'SSL' if self.tls else 'PLAINTEXT'}"
        options: dict[str, Any] = {"bootstrap_servers": self.servers, "security_protocol": protocol}
        if self.tls:
            options["ssl_context"] = self.tls
        if self.user:
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = self.user
            options["sasl_plain_password"] = self.password
        return options


def parse(url: str) -> KafkaAddress:
    """The address in a URL. Raises `LogUrlInvalid` with the reason."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise LogUrlInvalid(
            f"a Kafka URL begins with kafka:// or kafka+tls://, not {parts.scheme!r}"
        )
    signing_in, _, servers = parts.netloc.rpartition("@")
    if not servers:
        raise LogUrlInvalid("a Kafka URL must name at least one broker as host:port")
    user, _, password = (unquote(part) for part in signing_in.partition(":"))
    given = _query(parts.query)
    is_tls = parts.scheme == "kafka+tls"
    mechanism = given.pop("mechanism", MECHANISMS[0])
    if mechanism not in MECHANISMS:
        raise LogUrlInvalid(f"the Kafka URL's mechanism is one of {', '.join(MECHANISMS)}")
    if bool(user) != bool(password):
        raise LogUrlInvalid("a Kafka URL names a user and a password, or neither")
    if user and mechanism == "PLAIN" and not is_tls:
        raise LogUrlInvalid("PLAIN would send the password unencrypted: use kafka+tls:// or SCRAM")
    if given and not is_tls:
        raise LogUrlInvalid(f"{', '.join(given)} in a Kafka URL is for kafka+tls:// only")
    return KafkaAddress(servers, _context(**given) if is_tls else None, user, password, mechanism)


def _query(text: str) -> dict[str, str]:
    pairs = parse_qsl(text, keep_blank_values=True)
    given = dict(pairs)
    unknown = sorted(given.keys() - set(_KEYS))
    if unknown:
        raise LogUrlInvalid(f"a Kafka URL has no {unknown[0]!r}; known are {', '.join(_KEYS)}")
    if len(given) < len(pairs):
        raise LogUrlInvalid("a parameter occurs twice in the Kafka URL")
    return given


def _context(ca: str = "", cert: str = "", key: str = "") -> ssl.SSLContext:
    if bool(cert) != bool(key):
        raise LogUrlInvalid("a Kafka URL with a client certificate has both cert and key")
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if cert:
            context.load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(file for file in (ca, cert, key) if file)
        raise LogUrlInvalid(
            f"the Kafka URL's certificates cannot be read ({files}): {error}"
        ) from None
    return context
