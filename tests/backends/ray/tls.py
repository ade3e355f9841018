"""A door of TLS in front of a dashboard that speaks plain HTTP, with a certificate that nobody knows."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, name: str, address: str = "127.0.0.1", days: int = 1) -> tuple[Path, Path]:
    """A self-signed certificate for an address, and its key; of less than no days it has ended."""
    secret = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .sign(secret, hashes.SHA256())
    )
    shown, kept = folder / f"{name}.crt", folder / f"{name}.key"
    shown.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    kept.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return shown, kept


@contextlib.contextmanager
def tls_before(address: str, shown: Path, kept: Path) -> Iterator[str]:
    """The address of such a door, open until the end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown, kept)
    behind = urlsplit(address)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = (str(behind.hostname), int(behind.port or 80))
        threading.Thread(target=_accept, args=(listener, context, place), daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, context: ssl.SSLContext, place: tuple[str, int]) -> None:
    with contextlib.suppress(OSError):
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=_serve, args=(plain, context, place), daemon=True).start()


def _serve(plain: socket.socket, context: ssl.SSLContext, place: tuple[str, int]) -> None:
    with (
        contextlib.suppress(OSError),
        plain,
        context.wrap_socket(plain, server_side=True) as outer,
        socket.create_connection(place) as inner,
    ):
        back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
        back.start()
        _copy(outer, inner)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
