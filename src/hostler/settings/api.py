"""Where the controller listens, and who may come in."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from hostler.settings.section import Section

ScopeName: TypeAlias = Literal["read", "operate", "admin"]
User: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]


def _address(written: str) -> str:
    try:
        return str(ipaddress.ip_address(written))
    except ValueError:
        raise ValueError(f"{written!r} is no IP address; write one, as 10.0.0.5 or fd00::5") from None


def _place(written: str) -> str:
    return written if written == "localhost" else _address(written)


def _name(written: str) -> str:
    if any(sign in written for sign in "/:@ ") or not written.isascii():
        raise ValueError(f"{written!r} is no name of a machine; write it without a scheme and a port")
    return written.lower()


IpAddress: TypeAlias = Annotated[str, AfterValidator(_address)]
Place: TypeAlias = Annotated[str, AfterValidator(_place)]
HostName: TypeAlias = Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_name)]


class TrustedProxy(Section):
    """A proxy that asks people who they are, as by OIDC, and passes on who it was in a header."""

    addresses: Annotated[tuple[IpAddress, ...], Field(min_length=1)]
    """Where it connects from. From anywhere else the header counts for nothing."""
    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] = "X-Forwarded-User"
    """The header with the user's name; the proxy must drop what its clients send under that name."""
    scope: ScopeName = "read"
    """What its users may do who are not named."""
    users: dict[User, ScopeName] = {}
    """What single users may do."""


class Api(Section):
    """Where the controller listens, and who may come in besides those with a token."""

    host: Place = "127.0.0.1"
    """Address to listen on; `0.0.0.0` and `::` are all of this machine. Beyond loopback it takes a certificate and a
    token made by `hostler token create`."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    """TCP port; 0 takes a free one."""
    names: tuple[HostName, ...] = ()
    """Names that the controller is called by, besides localhost and the addresses of this machine. Requests to other
    names are refused: a web page could have made them up."""
    certificate: Annotated[str, Field(min_length=1)] | None = None
    """File with a certificate (PEM), and those that lead to a root: TLS is spoken then, on loopback too."""
    key: Annotated[str, Field(min_length=1)] | None = None
    """File with its private key (PEM); by default it is in the file of the certificate."""
    trusted_proxy: TrustedProxy | None = None
    """A proxy whose word counts for who somebody is."""
    shared_jobs: bool | None = None
    """Whether each token of scope `operate` may cancel, retry and rank the jobs of all owners. Otherwise only those of
    its own owner; `admin` may change all. By default it may as long as no token has another owner than the user that
    the controller runs as, and there is no `trusted_proxy`."""
    insecure_remote: bool = False
    """Permits to listen beyond loopback without a certificate, or without any token: whoever can listen in on the
    network reads everything, tokens too, and may use them."""

    @property
    def is_remote(self) -> bool:
        """Whether other machines can connect."""
        return self.host != "localhost" and not ipaddress.ip_address(self.host).is_loopback

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.key is not None and self.certificate is None:
            raise ValueError("key is that of a certificate; name its file, too")
        if self.is_remote and self.certificate is None and not self.insecure_remote:
            raise ValueError(
                f"on {self.host} other machines can connect, and all they send and are told, tokens too, would cross "
                "the network as plain text; name a `certificate` and its `key`, or listen on 127.0.0.1 and use "
                "`ssh -L` (`insecure_remote: true` permits it as it is)"
            )
        return self
