"""Settings of ssh that serve a person's session, and that a connection of the controller never has.

An ssh configuration is shared with people: `Host *` with `ForwardAgent yes` is common. A connection of the controller
lasts for days, and its other end may be a rented machine. So each setting is listed once, with its value for OpenSSH's
client and for asyncssh. Sources: ssh_config(5); asyncssh.SSHClientConnectionOptions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class Setting(NamedTuple):
    """One setting, switched off: as OpenSSH's client takes it, and as asyncssh does where it knows the setting."""

    openssh: str
    asyncssh: Mapping[str, object] = {}


NEWER = ("KnownHostsCommand", "SessionType", "StdinNull", "ForkAfterAuthentication")
"""Settings that OpenSSH has from 8.5 or 8.7 on."""
OFF = (
    Setting("ForwardAgent=no", {"agent_forwarding": False}),
    Setting("ForwardX11=no", {"x11_forwarding": False}),
    Setting("ForwardX11Trusted=no"),
    Setting("GSSAPIDelegateCredentials=no", {"gss_delegate_creds": False}),
    Setting("AddKeysToAgent=no"),
    # Only the first SetEnv counts, so that one variable keeps all others away.
    Setting("SetEnv=HOSTLER_CONNECTION=1", {"env": None}),
    # `SendEnv` can only be added to: `environment` leaves nothing to send.
    Setting("IgnoreUnknown=" + ",".join(NEWER), {"send_env": None}),
    Setting("RemoteCommand=none", {"command": None}),
    Setting("SessionType=default"),
    Setting("RequestTTY=no", {"request_pty": False}),
    Setting("StdinNull=no"),
    Setting("ForkAfterAuthentication=no"),
    Setting("ClearAllForwardings=yes"),
    Setting("Tunnel=no"),
    Setting("PermitLocalCommand=no"),
    Setting("ControlMaster=no"),
    Setting("ControlPath=none"),
)
KEPT = ("HOME", "PATH", "USER", "LOGNAME", "SHELL", "SSH_AUTH_SOCK", "TMPDIR")
"""Variables that OpenSSH's client and a `ProxyCommand` need."""


def openssh_options() -> list[str]:
    """The settings as values of `-o`."""
    return [each.openssh for each in OFF]


def asyncssh_options() -> dict[str, object]:
    """The settings as arguments of `SSHClientConnectionOptions`."""
    return {name: value for each in OFF for name, value in each.asyncssh.items()}


def environment() -> dict[str, str]:
    """The variables of OpenSSH's client: it can send no others."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}
