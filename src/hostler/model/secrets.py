"""Secrets: their names, their limits, and the environment variables that are taken for credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Field

from hostler.model.errors import SpecError
from hostler.model.record import record

OWN = "job:"
"""How the names begin of values that came with a submission; `hostler secret set` makes none of these."""
VALUE_BYTES = 1 << 16
NAMED_MAX = 1000
"""Secrets that people have set."""
OWN_MAX = 10_000
"""Values that came with submissions and are kept at a time."""
CREDENTIAL = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|TOKEN|PASSPHRASE|PASS|PAT)$|_KEY$|APIKEY$|SECRET|PASSWORD|PASSWD|CREDENTIALS?$",
    re.IGNORECASE,
)
"""Names of variables whose values are stored as secrets."""

SecretName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
SecretValue: TypeAlias = Annotated[str, Field(min_length=1, max_length=VALUE_BYTES, pattern=r"^[^\x00]+$", repr=False)]


@record
class SecretView:
    """A secret as it is shown: never its value."""

    name: str
    set_at: float
    """When its value was set, in Unix seconds."""
    kept_in: str
    """`keyring`, or `file`: a file of the state directory that only its owner can read."""


def is_own(ref: str) -> bool:
    """Whether a secret is a value that came with a submission."""
    return ref.startswith(OWN)


def looks_like_credential(variable: str) -> bool:
    """Whether the value of an environment variable of this name is stored as a secret."""
    return CREDENTIAL.search(variable) is not None


def credentials(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that are taken for credentials and have a value."""
    return {name: value for name, value in env.items() if value and looks_like_credential(name)}


def expect_value(what: str, value: str) -> None:
    """Raise `SpecError` for a value that cannot be an environment variable's, or is too long. It is not repeated."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise SpecError(f"the value of {what} has half of a surrogate pair; give text in UTF-8") from None
    if "\0" in value:
        raise SpecError(f"the value of {what} has a NUL character, which no environment variable can have")
    if not value:
        raise SpecError(f"the value of {what} is empty; give a value")
    if size > VALUE_BYTES:
        raise SpecError(f"the value of {what} has {size} bytes, and {VALUE_BYTES} are allowed; put it into a file")
