"""What the controller shows to nodes that call: a certificate, known to them by its fingerprint alone.

What makes and reads certificates is imported where that is done: every controller has this, and few have such nodes.
"""

from __future__ import annotations

import datetime
import hashlib
import ssl
from pathlib import Path

from hostler.model.errors import UsageError

YEARS = 50
"""Nodes ask for one certificate and not for a date; it must never be the date that ends a fleet."""


def self_signed(name: str) -> str:
    """A new key and a certificate for it, as one PEM file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()


def fingerprint(certificate: Path) -> str:
    """SHA-256 of the first certificate of a PEM file, in 64 hexadecimal digits. Raises `UsageError`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"no certificate can be read from {certificate}: {error}") from error
    return hashlib.sha256(found.public_bytes(serialization.Encoding.DER)).hexdigest()


def context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What TLS is spoken with. Raises `UsageError` where certificate and key cannot be used.

    Nobody is asked for the password of a key: a controller has nobody to ask.
    """

    def no_password() -> str:
        raise UsageError(
            f"the key {key} is encrypted, and nobody is asked for its password; decrypt it "
            "(`openssl pkey -in KEY -out PLAIN.key`) into a file that only you can read"
        )

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.load_cert_chain(certificate, key, no_password)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"the certificate {certificate} cannot be used with the key {key}: {error}") from error
    return made
