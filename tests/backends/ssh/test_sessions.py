"""What people configure for their own ssh sessions reaches no connection of the controller, by either client."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from hostler.backends.ssh import Network, openssh, sessions
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.integration.conftest import until
from tests.patience import PATIENCE_S

TOOLS = all(map(shutil.which, ("ssh", "ssh-agent", "ssh-add")))
pytestmark = pytest.mark.skipif(
    sshd.MISSING is not None or not TOOLS, reason=sshd.MISSING or "there is no ssh-agent here"
)
SECRET = "planted-9f2c"
LOOK = "env; tty; readlink /proc/self/fd/0; ssh-add -l; echo end of it"
"""The environment of a session, its terminal, its standard input, and the keys that its agent shows."""


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent with a key, and a shell with a display and a secret."""
    sock = tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL)
    try:
        until(sock.exists, "the socket of ssh-agent")
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", SECRET, "-f", tmp_path / "own"], check=True
        )
        monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))
        subprocess.run(["ssh-add", "-q", str(tmp_path / "own")], check=True)
        monkeypatch.setenv("DISPLAY", "127.0.0.1:99")
        monkeypatch.setenv("WANDB_API_KEY", SECRET)
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    """A host that lets in all that a person could send."""
    options = (
        "AcceptEnv PLANTED WANDB_* DISPLAY LC_*",
        "AllowAgentForwarding yes",
        "X11Forwarding yes",
        "AllowTcpForwarding yes",
    )
    with sshd.running(tmp_path / "sshd", *options) as found:
        yield found


def config(folder: Path, *lines: str) -> Path:
    path = folder / "config"
    path.write_text("Host *\n" + "".join(f"  {line}\n" for line in lines))
    return path


ALL = (
    "ForwardAgent yes",
    "ForwardX11 yes",
    "ForwardX11Trusted yes",
    "SendEnv *",
    f"SetEnv PLANTED={SECRET}",
    "AddKeysToAgent yes",
    "GSSAPIDelegateCredentials yes",
    "RequestTTY force",
    f"RemoteCommand echo {SECRET}",
    "SessionType none",
    "StdinNull yes",
    "ForkAfterAuthentication yes",
    "PermitLocalCommand yes",
    "LocalCommand touch local-command",
    "ControlMaster yes",
    "ControlPath control",
    "ControlPersist yes",
    "RemoteForward 127.0.0.1:0 127.0.0.1:9",
)
ALONE = ("ForwardAgent yes", "SendEnv *", "RequestTTY force", "SessionType none")


async def by_asyncssh(server: Sshd, path: Path) -> str:
    network = Network(replace(server.habits(), config=(path,)))
    try:
        connection = await network.connect(server.target())
        async with connection:
            ran = await connection.run(LOOK, encoding="utf-8")
            return str(ran.stdout)
    finally:
        await network.close()


async def by_openssh(server: Sshd, path: Path) -> str:
    words = openssh.command(server.target(), replace(server.habits(), config=(path,)), LOOK)
    assert words is not None
    client = openssh.Client()
    writer = await client.start(words)
    said = b""
    while piece := await client.read(4096):
        said += piece
    writer.close()
    return said.decode()


@pytest.mark.parametrize("run", [by_asyncssh, by_openssh])
@pytest.mark.parametrize("lines", [ALL, *[(each,) for each in ALONE]], ids=["all", *ALONE])
@pytest.mark.usefixtures("agent")
async def test_setting_of_a_persons_session_reaches_no_connection(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: object, lines: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    async with asyncio.timeout(PATIENCE_S):
        said = await run(server, config(tmp_path, *lines))  # type: ignore[operator]
    assert said.endswith("end of it\n"), said
    assert "not a tty" in said
    assert SECRET not in said
    assert not {"SSH_AUTH_SOCK", "DISPLAY", "SSH_TTY"} & {line.partition("=")[0] for line in said.splitlines()}
    assert not (tmp_path / "local-command").exists()
    assert not (tmp_path / "control").exists()


def test_client_of_openssh_has_no_variable_but_those_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    assert set(sessions.environment()) <= set(sessions.KEPT)
    assert "PATH" in sessions.environment()


def test_settings_hold_against_those_of_a_file(tmp_path: Path) -> None:
    """As OpenSSH itself resolves them."""
    options = [word for each in sessions.openssh_options() for word in ("-o", each)]
    ran = subprocess.run(
        ["ssh", "-G", "-F", str(config(tmp_path, *ALL)), *options, "far"], capture_output=True, text=True, check=True
    )
    found = dict(line.partition(" ")[::2] for line in ran.stdout.splitlines())
    for each in ("forwardagent", "forwardx11", "permitlocalcommand", "tunnel", "gssapidelegatecredentials"):
        assert found.get(each, "no") in ("no", "false"), each
    assert (found["clearallforwardings"], found["requesttty"]) == ("yes", "false")
    assert SECRET not in ran.stdout.replace("sendenv", "")


def test_settings_are_off_in_asyncssh() -> None:
    options = asyncssh.SSHClientConnectionOptions(**sessions.asyncssh_options())
    assert (options.agent_forward_path, options.x11_forwarding, options.env, options.send_env) == (
        None,
        False,
        None,
        None,
    )
    assert (options.command, options.request_pty, options.gss_delegate_creds) == (None, False, False)
