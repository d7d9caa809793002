"""TLS by PEM files: contexts for sockets, bytes for gRPC, and the name of whoever is connected.

Nodes prove to each other who they are: both sides show a certificate of the cluster's authority,
and the common name in it is the node's name (`floodmark tls init` makes such files). Files that
do not fit are refused when a node starts, with the path, not at the first handshake.
"""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from floodmark.errors import UserError

MOST_FILE_BYTES: Final = 1 << 20
_HOW_TO_MAKE: Final = "'floodmark tls init' makes such files"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The paths of a node's PEM files."""

    certificate: str
    """The node's certificate, and after it those between it and the authority, if any."""
    key: str
    ca: str
    """The certificates of the authorities whose word is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """The contents of the files, read once and found to fit; what gRPC's credentials take."""

    certificate: bytes
    key: bytes
    ca: bytes
    name: str
    """The common name in the node's own certificate."""

    def __repr__(self) -> str:
        return f"TlsMaterial(name={self.name!r})"  # a private key belongs in no log


def load_material(files: TlsFiles, *, now: datetime | None = None) -> TlsMaterial:
    """Reads the files; a `UserError` says which of them does not fit, and why."""
    now = now or datetime.now(UTC)
    certificate, key, ca = (_read(path) for path in (files.certificate, files.key, files.ca))
    chain = _certificates(certificate, files.certificate)
    authorities = _certificates(ca, files.ca)
    leaf = chain[0]
    private = _private_key(key, files.key)
    if _public_bytes(private.public_key()) != _public_bytes(leaf.public_key()):
        raise UserError(
            f"{files.key} is not the key of the certificate in {files.certificate}",
            "name the two files of one node",
        )
    for path, found in ((files.certificate, leaf), *((files.ca, item) for item in authorities)):
        _check_time(path, found, now)
    if not any(_is_issuer(leaf, issuer) for issuer in (*chain[1:], *authorities)):
        raise UserError(
            f"{files.certificate} was not issued by the authority in {files.ca}",
            "use the files of one authority",
        )
    name = _common_name(leaf)
    if name is None:
        raise UserError(f"{files.certificate} has no common name", _HOW_TO_MAKE)
    return TlsMaterial(certificate=certificate, key=key, ca=ca, name=name)


def server_context(files: TlsFiles, *, client_certificates: bool = True) -> ssl.SSLContext:
    """For a listener. Without `client_certificates` anybody may come, as browsers do."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, files)
    context.verify_mode = ssl.CERT_REQUIRED if client_certificates else ssl.CERT_NONE
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """For connections to other nodes, whose name or address must be in their certificate."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, files)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def peer_name(connection: ssl.SSLObject | ssl.SSLSocket) -> str | None:
    """The common name that the other side has proved to have; None if it proved nothing."""
    certificate = connection.getpeercert()
    if not certificate:
        return None
    for group in certificate.get("subject", ()):
        for attribute in group:
            # The stubs leave the shape of an attribute open.
            if isinstance(attribute, tuple) and attribute[0] == "commonName":
                return str(attribute[1])
    return None


def _context(protocol: int, files: TlsFiles) -> ssl.SSLContext:
    material = load_material(files)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
        context.load_verify_locations(cadata=material.ca.decode("ascii", "replace"))
    except ssl.SSLError as error:
        what = f"{files.certificate}, {files.key} and {files.ca} cannot be used: {error.reason}"
        raise UserError(what, _HOW_TO_MAKE) from None
    return context


def _no_password() -> str:
    """OpenSSL must never stop and ask on the terminal."""
    return ""


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", _HOW_TO_MAKE) from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "check the path and permissions") from None
    if len(data) > MOST_FILE_BYTES:
        raise UserError(f"{path} is too large for a PEM file", "check the path")
    return data


def _certificates(data: bytes, path: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise UserError(f"{path} holds no certificate in PEM", _HOW_TO_MAKE) from None


def _private_key(data: bytes, path: str) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(data, password=None)
    except TypeError:
        remedy = "decrypt it, and protect the file by its permissions"
        raise UserError(f"the key in {path} is encrypted", remedy) from None
    except (ValueError, UnsupportedAlgorithm):
        raise UserError(f"{path} holds no private key in PEM", _HOW_TO_MAKE) from None


def _public_bytes(key: object) -> bytes:
    data: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return data


def _check_time(path: str, certificate: x509.Certificate, now: datetime) -> None:
    if certificate.not_valid_after_utc < now:
        end = certificate.not_valid_after_utc.date()
        raise UserError(f"the certificate in {path} expired on {end}", "make a new one")
    if certificate.not_valid_before_utc > now:
        start = certificate.not_valid_before_utc.date()
        remedy = "check this machine's clock"
        raise UserError(f"the certificate in {path} is valid from {start} on only", remedy)


def _is_issuer(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _common_name(certificate: x509.Certificate) -> str | None:
    names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(names[0].value) if names and names[0].value else None
