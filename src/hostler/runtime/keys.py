"""The keyring of this machine's user, by the library `keyring` where it is installed (the extra `keyring`)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, TimeoutError as Late
from types import ModuleType
from typing import TypeVar

from hostler.model.errors import HostlerError

AnswerT = TypeVar("AnswerT")

SERVICE = "hostler"
PROBE = "probe"
ANSWER_S = 5.0
"""How long the keyring may take: a locked one asks a person, whom a service does not have."""
SWITCH = "HOSTLER_KEYRING"
"""`0`: the keyring is not used."""


class KeyringFault(HostlerError):
    """The keyring cannot be used."""


class Keyring:
    """The keyring's entries of one controller, called `hostler-` and its identity."""

    def __init__(self, library: ModuleType, identity: str) -> None:
        self._library = library
        self._service = f"{SERVICE}-{identity}"
        self._calls = ThreadPoolExecutor(max_workers=4, thread_name_prefix="keyring")

    def get(self, name: str) -> str:
        """The value of a name. Raises `KeyringFault`."""
        value: object = self._asked(lambda: self._library.get_password(self._service, name))
        if not isinstance(value, str):
            raise KeyringFault("it does not have that name")
        return value

    def set(self, name: str, value: str) -> None:
        """Keep a value. Raises `KeyringFault`."""
        self._asked(lambda: self._library.set_password(self._service, name, value))

    def remove(self, name: str) -> None:
        """Forget a name. Raises `KeyringFault`."""
        self._asked(lambda: self._library.delete_password(self._service, name))

    def _asked(self, ask: Callable[[], AnswerT]) -> AnswerT:
        try:
            return self._calls.submit(ask).result(ANSWER_S)
        except Late:
            raise KeyringFault(f"it did not answer within {ANSWER_S:g} s; is it locked?") from None
        except Exception as error:  # noqa: BLE001 - raised again
            # Its back-ends raise errors of their own, and of D-Bus; a text of theirs might repeat what was asked.
            raise KeyringFault(type(error).__name__) from None


def usable(identity: Callable[[], str]) -> Keyring | None:
    """The keyring, if the library is installed and a trial value came back from it; `None`: it cannot be used."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        import keyring as library
    except ImportError:
        return None
    found, trial = Keyring(library, identity()), secrets.token_hex(8)
    try:
        if library.get_keyring().priority < 1:
            return None
        found.set(PROBE, trial)
        same = found.get(PROBE) == trial
        found.remove(PROBE)
    except KeyringFault:
        return None
    return found if same else None


def no_keyring() -> Keyring | None:
    """For a store that keeps all values in its file."""
    return None
