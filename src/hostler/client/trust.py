"""TLS to a controller: how it is known, and what is wrong where it is not.

The library is imported where it is used: most commands ask a controller on this machine.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hostler.client.address import Address
from hostler.client.wire import lost
from hostler.model.errors import HostlerError, LinkLost, LinkRefused

if TYPE_CHECKING:
    import ssl

END = "-----END CERTIFICATE-----"
NOT_YET_VALID, EXPIRED, OTHER_NAME, OTHER_ADDRESS = 9, 10, 62, 64
"""Codes of OpenSSL for what is wrong with a certificate (X509_V_ERR_...)."""
PROBE_S = 2.0
PORTS = {"http": 80, "https": 443}


def tls(address: Address) -> ssl.SSLContext:
    """How the controller is known: by its very certificate, or by its name and by what vouches for that.

    Raises `LinkRefused` where the file that says so cannot be read.
    """
    try:
        return _tls(address)
    except (OSError, ValueError) as error:
        file = address.certificate or address.authority
        named = f"the file {file}" + (" of $HOSTLER_CA" if address.certificate is None else "")
        raise LinkRefused(f"{named} cannot be read as a certificate (PEM): {error}. Name another file") from error


def secured(connection: socket.socket, host: str, address: Address) -> ssl.SSLSocket:
    """The connection under TLS. Raises `LinkRefused` where the controller is not the right one, and `LinkLost`."""
    context = tls(address)
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except OSError as error:
        raise fault(address, error) from error


def fault(address: Address, error: OSError) -> HostlerError:
    """What a connection to an address of TLS failed by."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return stranger(address, error)
    if isinstance(error, ssl.SSLError) and not isinstance(error, TimeoutError):
        plain = address.url.replace("https:", "http:", 1)
        return LinkRefused(
            f"{address.url} does not answer in TLS ({error.reason or error}). Where the controller has no certificate "
            f"(`api.certificate` of its fleet file), its address is {plain}; otherwise check the port"
        )
    return lost(address.url, error)


def stranger(address: Address, error: ssl.SSLCertVerificationError) -> LinkRefused:
    """What is wrong with the certificate of a server, and what to do."""
    host, shows = urlsplit(address.url).hostname, f"{address.url} shows a certificate"
    if error.verify_code == EXPIRED:
        return LinkRefused(
            f"{shows} that has expired. Its owner puts another one into the file of `api.certificate` and starts the "
            "controller again; if it has not expired, set the clock of this machine"
        )
    if error.verify_code == NOT_YET_VALID:
        return LinkRefused(f"{shows} that is not valid yet. Set the clocks of this machine and of the controller's")
    if error.verify_code in (OTHER_NAME, OTHER_ADDRESS):
        return LinkRefused(
            f"{shows} for other names than {host}. Use a name that it is for in $HOSTLER_URL or --server; or its owner "
            f"has one made for {host} (`api.certificate`)"
        )
    if address.certificate is not None:
        return LinkRefused(
            f"{shows} that is not the one in {address.certificate} ({error.verify_message}). Another server has its "
            "port, or the file was changed: start the controller again"
        )
    by = f"the file {address.authority} of $HOSTLER_CA" if address.authority is not None else "this machine"
    return LinkRefused(
        f"{shows} that {by} does not vouch for ({error.verify_message}). If it is the right one, name a file with it, "
        "or with the authority that has signed it, in $HOSTLER_CA"
    )


def explained(address: Address, error: LinkLost) -> HostlerError:
    """A lost link to a server that never answered: it may want TLS, which one more connection shows."""
    if address.url.startswith("https:") or isinstance(error.__cause__, TimeoutError) or not _speaks_tls(address):
        return error
    secure = address.url.replace("http:", "https:", 1)
    return LinkRefused(
        f"{address.url} answers in TLS alone. Use {secure} in $HOSTLER_URL or --server, and $HOSTLER_CA for a file "
        "with its certificate where this machine does not know it"
    )


def _speaks_tls(address: Address) -> bool:
    import ssl

    parts = urlsplit(address.url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    try:
        with socket.create_connection((parts.hostname, parts.port or PORTS[parts.scheme]), timeout=PROBE_S) as made:
            context.wrap_socket(made).close()
    except OSError:
        return False
    return True


def _tls(address: Address) -> ssl.SSLContext:
    import ssl

    if address.certificate is None:
        made = ssl.create_default_context(cafile=address.authority)
    else:
        own = address.certificate.read_text()
        made = ssl.create_default_context(cadata=own[own.index("-----BEGIN CERT") :].partition(END)[0] + END)
        made.check_hostname = False
    # Without this only a root could vouch for itself; a certificate from elsewhere may stand for itself, too.
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return made
