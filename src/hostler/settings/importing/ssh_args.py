"""What arguments of the program `ssh` mean for a node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

TAKES_VALUE = "BbcDEeFIiJLlmOoPpQRSWw"
"""Letters of `ssh` that another word belongs to."""
TAKEN_CARE_OF = frozenset(
    {
        *("batchmode", "compression", "connectionattempts", "connecttimeout", "controlmaster", "controlpath"),
        *("controlpersist", "forwardagent", "identitiesonly", "loglevel", "passwordauthentication"),
        *("preferredauthentications", "serveralivecountmax", "serveraliveinterval", "tcpkeepalive"),
    }
)
"""Options that make no difference to Hostler, or that it has settings of its own for."""
KEY_CHECKS = frozenset({"stricthostkeychecking", "userknownhostsfile", "globalknownhostsfile"})

_FORWARD = "%h:%p"


@dataclass(slots=True)
class SshArgs:
    """What is understood of a line of arguments, and what is not."""

    via: tuple[str, ...] | None = None
    port: str | None = None
    user: str | None = None
    identity: str | None = None
    forward: str | None = None
    remarks: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """Words that belong to no letter."""


def ssh_args(line: str) -> SshArgs:
    """The meaning of a line of arguments of `ssh`, quoted as a shell would have it. It quotes no value in `remarks`."""
    try:
        words = shlex.split(line)
    except ValueError:
        return SshArgs(remarks=["the arguments of ssh cannot be read: a quotation mark is not closed"])
    return _understood(words)


def hops(text: str) -> tuple[str, ...]:
    """The jump hosts of a `ProxyJump`, the nearest first; none for `none`."""
    each = (part.strip().removeprefix("ssh://").rstrip("/") for part in text.split(","))
    return tuple(part for part in each if part and part.lower() != "none")


def jump_host(jump: str) -> str:
    """The host of a jump host, without its user and port, in small letters."""
    host = jump.rpartition("@")[2].lower()
    return host.partition(":")[0] if host.count(":") == 1 else host.partition("]")[0].removeprefix("[")


def _understood(words: Sequence[str]) -> SshArgs:
    found = SshArgs()
    for letter, value in _options(words, found.words):
        match letter:
            case "J":
                _jump(found, value)
            case "p":
                found.port = found.port or value
            case "l":
                found.user = found.user or value
            case "i":
                found.identity = found.identity or value
            case "W":
                found.forward = value
            case "F":
                found.remarks.append("-F names a configuration of SSH; name it in the fleet file's `ssh.config`")
            case "o":
                _option(found, value)
            case _ if letter in TAKES_VALUE:
                found.remarks.append(f"-{letter} of its SSH arguments is not taken over")
    return found


def _options(words: Sequence[str], others: list[str]) -> Iterator[tuple[str, str]]:
    """Letters with their values; words that belong to none go to `others`."""
    rest = iter(words)
    for word in rest:
        if not re.match("-[A-Za-z0-9]", word):
            others.append(word)
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in TAKES_VALUE:
                yield letter, word[at:] or next(rest, "")
                break
            yield letter, ""


def _option(found: SshArgs, text: str) -> None:
    name, value = [*re.split(r"\s*=\s*|\s+", text.strip(), maxsplit=1), ""][:2]
    match name.lower():
        case "proxyjump":
            _jump(found, value)
        case "proxycommand":
            _proxy_command(found, value)
        case "port":
            found.port = found.port or value
        case "user":
            found.user = found.user or value
        case "identityfile":
            found.identity = found.identity or value
        case lowered if lowered in KEY_CHECKS:
            found.remarks.append("Hostler always checks host keys: accept them with `hostler node trust`")
        case lowered if lowered not in TAKEN_CARE_OF:
            known = name if re.fullmatch("[A-Za-z0-9]{1,40}", name) else "-o"
            found.remarks.append(f"{known} of its SSH arguments is not taken over; say it in ~/.ssh/config")


def _jump(found: SshArgs, text: str) -> None:
    if found.via is None:
        found.via = hops(text)


def _proxy_command(found: SshArgs, command: str) -> None:
    """The jump host in `ssh -W %h:%p HOST`; any other command stays to the configuration of SSH."""
    words = command.split()
    inner = _understood(words[1:]) if words and words[0].rpartition("/")[2] == "ssh" else SshArgs()
    if inner.forward is None or inner.forward.strip("\"'[]").replace("]:", ":") != _FORWARD or len(inner.words) != 1:
        found.remarks.append("its ProxyCommand is not taken over; say it in ~/.ssh/config")
        return
    if inner.identity is not None:
        found.remarks.append("the key for its jump host is not taken over; say it in ~/.ssh/config")
    user = "" if inner.user is None else f"{inner.user}@"
    port = "" if inner.port is None else f":{inner.port}"
    if found.via is None:
        found.via = (*(inner.via or ()), f"{user}{inner.words[0]}{port}")
