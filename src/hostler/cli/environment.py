"""The environment variables of submitted jobs, from options and files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostler.model.errors import UsageError

EXPORT = r"export[ \t]+"
"""What stands before a variable in files that shells read too."""
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
NAME_OF_SECRET = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"  # noqa: S105 - the form of a name


def variables(words: Sequence[str] | None, files: Sequence[Path] | None) -> dict[str, str]:
    """Variables from files, and from `NAME=VALUE` and `NAME` words, which count for more."""
    found: dict[str, str] = {}
    for path in files or ():
        found |= _of_file(path)
    named: set[str] = set()
    for word in words or ():
        name, value = _assignment("--env", word)
        if name in named:
            raise UsageError(f"--env gives {name!r} twice; once is enough")
        named.add(name)
        found[name] = value
    return found


def _of_file(path: Path) -> dict[str, str]:
    """The variables of a file as `docker run --env-file` reads it: `NAME=VALUE` or `NAME` lines, `#` comments.

    `export` before a name, as in files that shells read, says nothing here.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--env-file {path} cannot be read: {why}") from error
    return dict(
        _assignment(f"--env-file {path}, line {number}:", line.lstrip(), in_file=True)
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    )


def _assignment(where: str, word: str, *, in_file: bool = False) -> tuple[str, str]:
    """Name and value; without a value, the one that the variable has here."""
    name, sign, value = word.partition("=")
    name = re.sub(EXPORT, "", name) if in_file else name
    if not re.fullmatch(NAME, name):
        raise UsageError(f"{where} {word!r} is not a variable; write NAME=VALUE, or NAME for the value it has here")
    if sign:
        return name, value
    if name not in os.environ:
        raise UsageError(f"{where} {name} is not set here; write {name}=VALUE")
    return name, os.environ[name]


def with_secrets(env: Mapping[str, str], words: Sequence[str] | None) -> dict[str, object]:
    """The variables, and those of `NAME` and `NAME=SECRET` words, whose values are secrets."""
    found: dict[str, object] = dict(env)
    for word in words or ():
        name, sign, secret = word.partition("=")
        if not re.fullmatch(NAME, name) or not re.fullmatch(NAME_OF_SECRET, secret if sign else name):
            raise UsageError(
                f"--secret {name + sign!a} is not a variable with the name of a secret; write NAME, or NAME=SECRET "
                "where the secret has another name. Values are given to `hostler secret set` alone"
            )
        if name in found:
            raise UsageError(
                f"{name} is given twice, by --secret and by --secret, --env or --env-file; keep one of them"
            )
        found[name] = {"secret": secret if sign else name}
    return found
