"""The environment variables of submitted jobs, from options and files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostler.model.errors import UsageError

EXPORT = r"export[ \t]+"
"""What stands before a variable in files that shells read too."""
COMMENT = r"(?:[ \t]+#.*)?"
"""What may stand behind the closing quote of a value."""
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "$": "$", "\\": "\\", "`": "`"}
"""Within double quotes, behind a backslash."""
QUOTED = "put the whole value in single quotes to keep it as it is, or give it with --env"
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
    """The variables of a file as dotenv files have them: `NAME=VALUE` or `NAME` lines, `#` comments.

    Quotes around a value are removed; within double ones, `\\n`, `\\t`, `\\"`, `\\$` and `\\\\` are escapes. `export`
    before a name, as in files that shells read, is allowed.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--env-file {path} cannot be read: {why}") from error
    return dict(
        _line(f"--env-file {path}, line {number}:", line.strip())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    )


def _line(where: str, line: str) -> tuple[str, str]:
    """Name and value of a line of a file. Raises `UsageError` where programs read the value differently."""
    name, value = _assignment(where, re.sub(rf"^{EXPORT}", "", line))
    if "=" not in line:
        return name, value
    value = value.strip()
    single, double = re.fullmatch(rf"'([^']*)'{COMMENT}", value), re.fullmatch(rf'"((?:[^"\\]|\\.)*)"{COMMENT}', value)
    if single is not None:
        return name, single[1]
    if double is None:
        value = re.sub(r"(^|[ \t]+)#.*", "", value)
        if re.search("[\"'`]", value):
            raise UsageError(f"{where} {name} has a quote within its value or an open one; {QUOTED}")
    else:
        value = double[1]
    if re.search(r"(?<!\\)\$[A-Za-z_{(]", value):
        raise UsageError(f"{where} {name} has a $ before a name, and variables are not substituted; {QUOTED}")
    return name, value if double is None else re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[0]), value)


def _assignment(where: str, word: str) -> tuple[str, str]:
    """Name and value; without a value, the one that the variable has here."""
    name, sign, value = word.partition("=")
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
