"""The stack's own authority, what it signs, and whether an operator's own certificate can be used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from portal.compose.refusal import CannotStart

AUTHORITY_FOR = timedelta(days=3650)
LEAF_FOR = timedelta(days=1095)
LEAF_ANEW = timedelta(days=365)
"""A certificate that is valid for less than this is signed anew at the next start."""
_EARLIER = timedelta(hours=1)  # clocks of servers differ


def authority_make(*, name: str, now: datetime) -> tuple[str, str]:
    """A new authority: its certificate and its private key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Berth of {name}"[:64])])
    builder = (
        _builder(subject, subject, key.public_key(), now, AUTHORITY_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _pem(builder.sign(key, hashes.SHA256())), _key_pem(key)


def leaf_make(*, authority: str, authority_key: str, hosts: Sequence[str], now: datetime) -> tuple[str, str]:
    """A server's certificate for these names and addresses, and its private key, as PEM."""
    signer = x509.load_pem_x509_certificate(authority.encode())
    signing = load_pem_private_key(authority_key.encode(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)  # authority_check
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    ends = min(LEAF_FOR, signer.not_valid_after_utc - now)
    builder = (
        _builder(subject, signer.subject, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    return _pem(builder.sign(signing, hashes.SHA256())), _key_pem(key)


def leaf_is_good(text: str, *, authority: str, hosts: Sequence[str], now: datetime) -> bool:
    """Whether the certificate is of this authority, has these names and is valid for long enough."""
    try:
        leaf = x509.load_pem_x509_certificate(text.encode())
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
    except Exception:  # whatever is wrong with it (its text, its signer, its signature), it is made anew
        return False
    return _names(leaf) == {_general(host) for host in hosts} and leaf.not_valid_after_utc - now >= LEAF_ANEW


def own_certificate_check(folder: Path, *, host: str, now: datetime) -> None:
    """The operator's own ``certificate.pem`` (with its chain) and ``key.pem``. Raises CannotStart."""
    path = folder / "certificate.pem"
    leaf = _own(path)
    if _own_key(folder / "key.pem") != _public(leaf):
        raise CannotStart(f"{folder}: key.pem does not belong to the first certificate of certificate.pem.")
    _valid_now(leaf, path, now)
    if not any(_covers(name, host) for name in _names(leaf)):
        raise CannotStart(f"{folder}/certificate.pem: is not for {host}, the name in BERTH_URL.")


def authority_check(certificate: Path, key: Path, *, now: datetime) -> None:
    """Whether the authority that lies there can sign. Raises CannotStart."""
    authority = _own(certificate)
    if _own_key(key) != _public(authority):
        raise CannotStart(f"{key} does not belong to {certificate}: put the two of one authority there.")
    if not isinstance(authority.public_key(), ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise CannotStart(f"{certificate}: its key must be of RSA or of elliptic curves (ECDSA).")
    _valid_now(authority, certificate, now)


def _valid_now(certificate: x509.Certificate, path: Path, now: datetime) -> None:
    if certificate.not_valid_after_utc <= now:
        raise CannotStart(f"{path}: expired on {certificate.not_valid_after_utc:%Y-%m-%d}; put a renewed one there.")
    if certificate.not_valid_before_utc > now:
        raise CannotStart(
            f"{path}: valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on, and this server's clock "
            f"says {now:%Y-%m-%d %H:%M}: set it right."
        )


def _public(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _own(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(_read(path))[0]
    except ValueError:
        raise CannotStart(f"{path}: holds no certificate in PEM form.") from None


def _own_key(path: Path) -> bytes:
    try:
        key = load_pem_private_key(_read(path), None)
    except (ValueError, TypeError):
        raise CannotStart(f"{path}: holds no private key in PEM form without a password.") from None
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CannotStart(
            f"{path} is not there: BERTH_CERTIFICATE=files needs certificate.pem and key.pem in BERTH_CERTIFICATE_DIR."
        ) from None
    except OSError as error:
        raise CannotStart(
            f"{path}: cannot be read ({error.strerror}); run  chgrp 10013  and  chmod 640  on the file."
        ) from None


def _covers(name: x509.GeneralName, host: str) -> bool:
    if isinstance(name, x509.IPAddress):
        return str(name.value) == host
    pattern = str(name.value).lower()
    return pattern == host or (pattern.startswith("*.") and host.partition(".")[2] == pattern[2:])


def _names(leaf: x509.Certificate) -> set[x509.GeneralName]:
    try:
        return set(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
