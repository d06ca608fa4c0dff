"""Certificates for one test: an authority, and servers' certificates that it signs, good and bad ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Files:
    """A server's certificate and its key, in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; ``ca`` is the file by which clients know it."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / f"{name}-ca.pem"
        self._folder, self._name = folder, _name(f"{name}'s authority")
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        made = self._builder(self._name, self._key, now - DAY, now + 30 * DAY)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_agreement=False,
            key_encipherment=False, data_encipherment=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = made.add_extension(usage, critical=True)
        self.ca.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *, host: str = "127.0.0.1", begins: timedelta = -DAY, ends: timedelta = DAY) -> Files:
        """A certificate of ``host``, valid from and until so long from now."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        made = self._builder(_name(host), key, now + begins, now + ends)
        alternative = x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        made = made.add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        files = Files(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        files.certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ))  # fmt: skip
        return files

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, begins: datetime, ends: datetime
    ) -> x509.CertificateBuilder:
        """With the names of both keys, without which Python 3.13 and newer take no certificate."""
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        signers = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject).issuer_name(self._name).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)
            .add_extension(own, critical=False).add_extension(signers, critical=False)
        )  # fmt: skip


@cache
def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
