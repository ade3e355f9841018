"""Secrets of jobs: set, listed by name, removed. No command prints a value."""

from __future__ import annotations

import sys
import time
from getpass import getpass
from pathlib import Path
from typing import Annotated

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import Column, clean, duration, say, say_json, table
from hostler.model.errors import UsageError
from hostler.model.secrets import VALUE_BYTES, expect_value

SecretArgument = Annotated[str, Argument(metavar="NAME", help="Its name: letters, digits, dots, dashes, underscores.")]
COLUMNS = (Column("NAME"), Column("SET", right=True), Column("KEPT IN"))


def set_secret(
    name: SecretArgument,
    file: Annotated[
        Path | None, Option("--file", metavar="FILE", help="File with the value; by default standard input.")
    ] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Store a value under a name, for `hostler submit --secret NAME`; the value it had is gone.

    The value comes from standard input or a file, without the line break at its end; at a terminal it is asked for and
    not shown. It is kept on the controller's machine, in the keyring where one works and otherwise in a file that only
    its owner can read, and sent to a node with each attempt that needs it.

    Example:
      hostler secret set WANDB_API_KEY
      hostler secret set hf --file ~/.cache/huggingface/token
    """
    value = _value(name, file)
    expect_value(f"secret {name}", value)
    made = client(state_dir).set_secret(name, value)
    if as_json:
        say_json(made)
        return
    print(f"{clean(name)} is set; use it with `hostler submit --secret {clean(name)}`")


def list_secrets(as_json: Json = False, state_dir: StateDir = None) -> None:
    """List secrets by name; SET is how long ago. Values cannot be read back.

    Example:
      hostler secret list
    """
    found = client(state_dir).secrets()
    if as_json:
        say_json(found)
        return
    now = time.time()
    rows = [(clean(each["name"]), duration(max(now - each["set_at"], 0.0)), each["kept_in"]) for each in found]
    say(table(COLUMNS, rows) if rows else ["no secrets have been set"])


def remove(name: SecretArgument, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Forget a secret. Attempts that run keep what they were given; later ones that name it fail.

    With --json the secrets that are left are printed.

    Example:
      hostler secret remove WANDB_API_KEY
    """
    left = client(state_dir).remove_secret(name)
    if as_json:
        say_json(left)
        return
    print(f"{clean(name)} is removed")


def _value(name: str, file: Path | None) -> str:
    if file is None and sys.stdin.isatty():
        return getpass(f"value of {name}: ")
    try:
        if file is None:
            data = sys.stdin.buffer.read(VALUE_BYTES + 3)
        else:
            with file.open("rb") as source:
                data = source.read(VALUE_BYTES + 3)
        text = data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"--file {str(file)!r} cannot be read: {error.strerror}. Correct the path") from error
    except UnicodeDecodeError:
        raise UsageError(f"the value of secret {name} is not UTF-8; give text, or encode it (`base64`)") from None
    return text.removesuffix("\n").removesuffix("\r")
