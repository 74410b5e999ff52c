"""Certificates for a broker and for a client, of an authority of their own, as PEM files."""

import datetime
import ipaddress
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_BEGIN: Final = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END: Final = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


class Signed(msgspec.Struct, frozen=True):
    """A certificate with its key: `both` holds the two in one file, as Kafka wants them."""

    cert: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates; `ca` is its own, by which others know them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.ca = folder / "ca.pem"
        certificate = (
            _begun(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str) -> Signed:
        """A certificate of this name for 127.0.0.1, and for the host of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        places = x509.SubjectAlternativeName([here, x509.DNSName(name)])
        certificate = (
            _begun(subject, self._name, key)
            .add_extension(places, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        written = certificate.public_bytes(serialization.Encoding.PEM)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        signed = Signed(*(self._folder / f"{name}{end}.pem" for end in ("", "-key", "-both")))
        signed.cert.write_bytes(written)
        signed.key.write_bytes(secret)
        signed.both.write_bytes(secret + written)
        return signed


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
    )
