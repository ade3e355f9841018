"""What is wrong with a connection by TLS, or with a token: the address, the reason, and what to do, in both clients."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hostler.client import Address, AsyncClient, Client
from hostler.model.errors import HostlerError, LinkRefused
from tests.patience import PATIENCE_S
from tests.web.core_desk import Window, window

DAY = datetime.timedelta(days=1)


def certificate(file: Path, first: int = -1, last: int = 1, address: str = "127.0.0.1") -> Path:
    """A file with a certificate, valid from so many days from now to so many, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleet")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now + first * DAY).not_valid_after(now + last * DAY)
    signed = made.add_extension(names, critical=False).sign(key, hashes.SHA256())
    own = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + own)
    return file


@contextmanager
def listening(file: Path | None) -> Iterator[int]:
    """The port of a server that speaks TLS with this certificate, or answers in plain HTTP."""
    context = None
    if file is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                made, _ = listener.accept()
            except OSError:
                return
            with made, suppress(OSError):
                made.settimeout(PATIENCE_S)
                if context is not None:
                    context.wrap_socket(made, server_side=True).close()
                else:
                    made.recv(65536)
                    made.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def plain(address: Address) -> None:
    Client(lambda: address, timeout_s=PATIENCE_S).drain(key="k")


def awaited(address: Address) -> None:
    async def go() -> None:
        async with AsyncClient(lambda: address, timeout_s=PATIENCE_S) as client:
            await client.drain(key="k")

    asyncio.run(go())


BOTH = pytest.mark.parametrize("ask", [plain, awaited])


def refused(ask: Callable[[Address], Any], address: Address) -> str:
    """The message of the error that a request ends with."""
    with pytest.raises(HostlerError) as caught:
        ask(address)
    assert type(caught.value) is LinkRefused, caught.value
    assert address.url in str(caught.value)
    return str(caught.value)


@BOTH
def test_certificate_that_is_not_trusted_names_the_variable_that_would_trust_it(
    ask: Callable[[Address], Any], tmp_path: Path
) -> None:
    other = certificate(tmp_path / "other.pem")
    with listening(certificate(tmp_path / "tls.pem")) as port:
        url = f"https://127.0.0.1:{port}"
        assert "this machine does not vouch for" in (said := refused(ask, Address(url, "t")))
        assert "name a file with it, or with the authority that has signed it, in $HOSTLER_CA" in said
        assert f"the file {other} of $HOSTLER_CA does not vouch for" in refused(ask, Address(url, "t", authority=other))
        assert f"is not the one in {other}" in refused(ask, Address(url, "t", certificate=other))
        with pytest.raises(LinkRefused, match=r"the file .*none.pem of \$HOSTLER_CA cannot be read"):
            ask(Address(url, "t", authority=tmp_path / "none.pem"))


@BOTH
@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"first": -3, "last": -1}, "that has expired. Its owner puts another one into the file of `api.certificate`"),
        ({"first": 1, "last": 3}, "that is not valid yet. Set the clocks"),
        ({"address": "127.0.0.2"}, "for other names than 127.0.0.1. Use a name that it is for in $HOSTLER_URL"),
    ],
)
def test_certificate_that_does_not_hold_says_why_and_what_to_do(
    ask: Callable[[Address], Any], made: dict[str, Any], message: str, tmp_path: Path
) -> None:
    file = certificate(tmp_path / "tls.pem", **made)
    with listening(file) as port:
        assert message in refused(ask, Address(f"https://127.0.0.1:{port}", "t", authority=file))


@BOTH
def test_address_of_the_other_scheme_is_named(ask: Callable[[Address], Any], tmp_path: Path) -> None:
    with listening(None) as port:
        said = refused(ask, Address(f"https://127.0.0.1:{port}", "t"))
        assert "does not answer in TLS (WRONG_VERSION_NUMBER). Where the controller has no certificate" in said
        assert f"its address is http://127.0.0.1:{port}; otherwise check the port" in said
    with listening(certificate(tmp_path / "tls.pem")) as port:
        said = refused(ask, Address(f"http://127.0.0.1:{port}", "t"))
        assert f"answers in TLS alone. Use https://127.0.0.1:{port} in $HOSTLER_URL or --server" in said


@pytest.fixture(scope="module")
def served() -> Iterator[Window]:
    with window() as made:
        yield made


@BOTH
def test_token_that_is_refused_says_where_it_is_from_and_how_to_make_one(
    ask: Callable[[Address], Any], served: Window
) -> None:
    url = f"http://127.0.0.1:{served.port}"
    said = refused(ask, Address(url, "wrong", token_from="the file /state/token"))
    assert "refuses the token of the file /state/token (401 Unauthorized)" in said
    assert "the token was revoked or has expired. `hostler token create NAME`" in said


@BOTH
def test_token_whose_scope_is_too_small_says_which_is_needed(ask: Callable[[Address], Any], served: Window) -> None:
    url = f"http://127.0.0.1:{served.port}"
    owner = Client(lambda: Address(url, served.headers["Authorization"].split()[1]))
    made = owner.create_token(f"reader-{ask.__name__}", "read")
    said = refused(ask, Address(url, made["token"]))
    assert "refused (403 Forbidden): this needs the scope admin" in said or "needs the scope operate" in said
    assert "`hostler token create NAME --scope" in said
    assert "(the token is that of $HOSTLER_TOKEN)" in said
