"""All SSH connections of a controller: jump hosts are shared, and only a few handshakes go on at once over each."""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeAlias
from weakref import WeakSet

import asyncssh

from hostler.backends.ssh import openssh, sessions, trust
from hostler.backends.ssh.target import Habits, Target, jump, jumps
from hostler.backends.ssh.trust import HostKey
from hostler.model.errors import LinkLost, LinkRefused

Way: TypeAlias = tuple[str, ...]
"""Jump hosts, the nearest first; empty: straight on."""
KEEPALIVES = 3
OWN_KEY = "its host key"
"""The host key of a node in a message that begins with the name of the node."""
RESTS_S = (0.2, 0.5, 1.0)


class Network:
    """Makes connections; every method raises `LinkLost` where nobody answers, `LinkRefused` where somebody says no."""

    def __init__(self, habits: Habits) -> None:
        self.habits = habits
        self._gates: defaultdict[Way, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(habits.handshakes))
        self._jumps: dict[Way, asyncssh.SSHClientConnection] = {}
        self._made: WeakSet[asyncssh.SSHClientConnection] = WeakSet()
        self._making: defaultdict[Way, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def connect(self, target: Target) -> asyncssh.SSHClientConnection:
        """A new connection to a target. Its host key must be known, and it must let us in by a key."""
        options = self._options(target)
        way = _way(target, options)
        tunnel = await self._tunnel(way)
        made = await self._shake_hands(target, options, way, tunnel)
        self._made.add(made)
        return made

    async def host_key(self, target: Target) -> HostKey:
        """The key that a target shows, whether it is known or not."""
        options = self._options(target)
        way = _way(target, options)
        tunnel = await self._tunnel(way)
        async with self._gates[way], _explained(target, options, self.habits):
            key = await asyncssh.get_server_host_key(target.host, options=options, tunnel=tunnel)
        if key is None:
            raise LinkRefused(f"{target} shows no host key; it has to use one that people can compare")
        return trust.shown(options.host, options.port, key)

    def jumps(self, target: Target) -> list[Target]:
        """The jump hosts on the way to a target, the nearest first; each is reached over those before it."""
        way = _way(target, self._options(target))
        return [replace(jump(each), via=way[:at]) for at, each in enumerate(way)]

    def command(self, target: Target, remote: str) -> list[str] | None:
        """How OpenSSH's own client runs something there; `None` where it cannot, or need not, get there as we do."""
        if _way(target, self._options(target)):
            return None  # behind a jump host the line is hardly faster than we are
        return openssh.command(target, self.habits, remote)

    def accept(self, found: HostKey) -> None:
        """Make a key known from now on, as a person has decided."""
        trust.add(self.habits.known_hosts[0], found)

    def known(self, found: HostKey) -> bool | None:
        """Whether a key is known; `None`: another one is, of the same host."""
        host, _, port = found.host.rpartition(":") if found.host.startswith("[") else (found.host, "", "22")
        keys = trust.known(self.habits.known_hosts, host.strip("[]"), "", int(port))
        return found.key in keys or (None if keys else False)

    async def close(self) -> None:
        """Hang up everywhere: first on the nodes, then on the jump hosts they are behind."""
        for connections in (list(self._made), list(self._jumps.values())):
            for connection in connections:
                connection.abort()
            await asyncio.gather(*(connection.wait_closed() for connection in connections))
        self._jumps.clear()

    async def _tunnel(self, way: Way) -> asyncssh.SSHClientConnection | None:
        """The kept connection to the last jump host of a way; `None`: it goes straight on."""
        if not way:
            return None
        async with self._making[way]:
            kept = self._jumps.get(way)
            if kept is None or kept.is_closed():
                before, last = await self._tunnel(way[:-1]), jump(way[-1])
                options = self._options(last)
                kept = self._jumps[way] = await self._shake_hands(
                    last, options, way[:-1], before, f"the host key of {last}"
                )
            return kept

    async def _shake_hands(
        self,
        target: Target,
        options: asyncssh.SSHClientConnectionOptions,
        way: Way,
        tunnel: asyncssh.SSHClientConnection | None,
        key: str = OWN_KEY,
    ) -> asyncssh.SSHClientConnection:
        """A connection; a server that drops strangers because there are many is asked again, a little later."""
        async with _explained(target, options, self.habits, key):
            for rest_s in RESTS_S:
                try:
                    async with self._gates[way]:
                        return await asyncssh.connect(target.host, options=options, tunnel=tunnel)
                except (ConnectionResetError, asyncssh.ConnectionLost):
                    await asyncio.sleep(rest_s * random.uniform(0.5, 1.5))  # noqa: S311
            async with self._gates[way]:
                return await asyncssh.connect(target.host, options=options, tunnel=tunnel)

    def _options(self, target: Target) -> asyncssh.SSHClientConnectionOptions:
        """What a target and the configuration say together. Passwords are never asked for, nor sent."""
        habits, given = self.habits, sessions.asyncssh_options()
        if target.port is not None:
            given["port"] = target.port
        if target.user is not None:
            given["username"] = target.user
        if target.identity is not None:
            given["client_keys"] = [str(target.identity)]
        try:
            return asyncssh.SSHClientConnectionOptions(
                host=target.host,
                config=[str(path) for path in habits.config if path.exists()],
                known_hosts=[str(path) for path in habits.known_hosts if path.exists()],
                preferred_auth=["publickey"],
                connect_timeout=habits.connect_s,
                login_timeout=habits.connect_s,
                keepalive_interval=habits.keepalive_s,
                keepalive_count_max=KEEPALIVES,
                encryption_algs=openssh.CIPHERS,
                **given,
            )
        except (OSError, ValueError, asyncssh.Error) as error:  # files that are not there, or hold something else
            raise LinkRefused(f"{target} cannot be connected to as it is configured: {error}") from error


def _way(target: Target, options: asyncssh.SSHClientConnectionOptions) -> Way:
    if target.via is not None:
        return target.via
    return tuple(jumps(options.tunnel)) if isinstance(options.tunnel, str) else ()


@asynccontextmanager
async def _explained(
    target: Target, options: asyncssh.SSHClientConnectionOptions, habits: Habits, key: str = OWN_KEY
) -> AsyncIterator[None]:
    """Errors of SSH and of the network in words that say what to do; `key` names the host key that is compared."""
    try:
        async with asyncio.timeout(2 * habits.connect_s):
            yield
    except asyncssh.HostKeyNotVerifiable as error:
        raise LinkRefused(_of_host_key(target, options, habits, key)) from error
    except asyncssh.PermissionDenied as error:
        raise LinkRefused(
            f"{target} lets nobody in as {options.username!r} with the keys that are offered ({error.reason}); "
            f"try `ssh {target}`, add the public key to its ~/.ssh/authorized_keys, or name another `identity`"
        ) from error
    except TimeoutError as error:
        raise LinkLost(f"{target} does not answer within {habits.connect_s:g} s") from error
    except (OSError, asyncssh.Error) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise LinkLost(f"{target} cannot be reached: {why}; see whether it is on, and its SSH server runs") from error


def _of_host_key(target: Target, options: asyncssh.SSHClientConnectionOptions, habits: Habits, key: str) -> str:
    if trust.known(habits.known_hosts, options.host, "", options.port):
        return (
            f"{target} shows another host key than the one that is known: it was set up anew, or somebody stands in "
            "between. Ask its owner for the fingerprint, and see `hostler node trust`"
        )
    return f"{key} is not known; `hostler node trust {habits.fleet_file}`"
