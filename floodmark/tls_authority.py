"""A certificate authority for one cluster: its own certificate, and those of the nodes.

Keys are of the curve P-256, which every TLS library knows. A node's certificate says its name (as
common name and as DNS name) and its hosts, and serves both ends of a connection, for nodes call
each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
CLOCK_SKEW: Final = timedelta(hours=1)
"""Certificates are valid from a little before they are made: clocks of a cluster differ."""
LEAST_CA_DAYS: Final = 3650
"""An authority outlives what it issues, so that nodes can get new certificates from it."""
MOST_NAME: Final = 64
"""What a common name may have (RFC 5280, ub-common-name)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PemPair:
    """A certificate and its private key."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "PemPair(...)"  # a private key belongs in no log


class Authority:
    """Issues certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, name: str, *, now: datetime, days: int) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        lifetime = timedelta(days=max(days, LEAST_CA_DAYS))
        builder = (
            _builder(subject, subject, key.public_key(), now, lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(ca=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, pair: PemPair) -> "Authority":
        """From files that `create` has made; a `ValueError` says what they are not."""
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = load_pem_private_key(pair.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not an elliptic curve's")  # noqa: TRY004 - of the file
        if key.public_key() != certificate.public_key():
            raise ValueError("certificate and key do not belong together")
        return cls(certificate, key)

    @property
    def pair(self) -> PemPair:
        return _pair(self._certificate, self._key)

    @property
    def valid_until(self) -> datetime:
        return self._certificate.not_valid_after_utc

    def issue(self, name: str, hosts: Sequence[str], *, now: datetime, days: int) -> PemPair:
        """A node's certificate; it is never valid for longer than the authority's own."""
        key = ec.generate_private_key(ec.SECP256R1())
        lifetime = min(timedelta(days=days), self.valid_until - now)
        issuer = self._certificate.subject
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        names = dict.fromkeys((name, *hosts, *LOOPBACK_HOSTS))
        builder = (
            _builder(_subject(name), issuer, key.public_key(), now, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(ours, critical=False)
            .add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in names]),
                critical=False,
            )
        )
        return _pair(builder.sign(self._key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> PemPair:
    return PemPair(
        certificate=certificate.public_bytes(Encoding.PEM),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
