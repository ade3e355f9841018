"""Connections from a program: the controller by its address, its state directory, or as the command line finds it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hostler.client.address import Address, address_from, address_in
from hostler.client.plain import TIMEOUT_S, Client
from hostler.model.errors import UsageError
from hostler.settings.where import state_dir as usual_state_dir

if TYPE_CHECKING:
    from hostler.client.awaited import AsyncClient


EXAMPLES = {"server": "https://fleet.example.org:8765", "token": "the line that `hostler token create` printed"}


class _Place(NamedTuple):
    locate: Callable[[], Address]
    home: Path | None


def connect(
    server: str | None = None,
    *,
    token: str | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Client:
    """A client of a running controller, which has answered.

    The controller is that at the address `server` (with `token`, or `$HOSTLER_TOKEN`); or that of a `state_dir` on this
    machine; or, as the command line finds it, that of `$HOSTLER_URL`, `$HOSTLER_STATE_DIR`, or the usual directory.

    Raises `ControllerAbsent` where none answers, `UsageError` where the address or the token is missing or refused.
    """
    place = _place(server, token, state_dir, timeout_s)
    made = Client(place.locate, timeout_s=timeout_s, home=place.home)
    made.status()
    return made


async def connect_async(
    server: str | None = None,
    *,
    token: str | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> AsyncClient:
    """As `connect`, for asyncio programs. Leave the client by `async with`, or call `aclose`."""
    from hostler.client.awaited import AsyncClient

    place = _place(server, token, state_dir, timeout_s)
    made = AsyncClient(place.locate, timeout_s=timeout_s, home=place.home)
    try:
        await made.status()
    except BaseException:
        await made.aclose()
        raise
    return made


def _place(server: str | None, token: str | None, state_dir: str | os.PathLike[str] | None, timeout_s: float) -> _Place:
    for name, value in (("server", server), ("token", token)):
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{name} is {value!r:.80}. Give a text, as {EXAMPLES[name]!r}")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
        raise UsageError(f"timeout_s is {timeout_s!r:.80}. Give a number of seconds above 0")
    if server is not None and state_dir is not None:
        raise UsageError("server and state_dir both name a controller; give one of them")
    if server is None and token is not None and not os.environ.get("HOSTLER_URL"):
        raise UsageError("token is that of a controller at an address; give server, too")
    if state_dir is not None or (server is None and not os.environ.get("HOSTLER_URL")):
        home = _home(state_dir)
        return _Place(partial(address_in, home), home)
    given = {"HOSTLER_URL": server, "HOSTLER_TOKEN": token}
    environ = {**os.environ, **{name: value for name, value in given.items() if value is not None}}
    address_from(environ)  # what is missing is an error now, and not at the first request
    return _Place(partial(address_from, environ), None)


def _home(state_dir: str | os.PathLike[str] | None) -> Path:
    return usual_state_dir(os.environ) if state_dir is None else Path(os.path.expanduser(state_dir)).absolute()
