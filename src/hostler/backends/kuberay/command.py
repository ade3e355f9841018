"""The command of a job, written so that what runs gets it word by word. Pure.

KubeRay puts the entrypoint of a RayJob into a script for bash, which calls `ray job submit -- ENTRYPOINT`
(`ray-operator/controllers/ray/common/job.go`, v1.0 to v1.7). Ray joins the words again and has a shell run that: since
2.56 with the quotes of a shell, before that in the way of Windows (`subprocess.list2cmdline`), so that `&`, `$` and `*`
came to life. With `HTTPMode` the operator asks Ray itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

QUOTES_FROM = (2, 56)
PIECES = re.compile(r'(?P<backslashes>\\+)(?P<doubled>(?="))?(?P<last>\Z)?|(?P<sign>.)', re.DOTALL)
PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-]\Z")
"""What no shell takes for something else."""


def entrypoint(words: Sequence[str], submission: str, ray_version: str) -> str:
    """What to write for a command; a version begins with two numbers."""
    major, minor = ray_version.split(".")[:2]
    if submission == "HTTPMode" or (int(major), int(minor)) >= QUOTES_FROM:
        return shlex.join(words)
    return shlex.join(map(_shielded, words))


def _shielded(word: str) -> str:
    """A word for the second shell, before Ray joins it to others: that puts words with a space or a tab into double
    quotes, a backslash before every double quote, and two for one that comes before such a quote."""
    spaced = " " in word or "\t" in word
    return "".join(_piece(found, spaced=spaced) for found in PIECES.finditer(word))


def _piece(found: re.Match[str], *, spaced: bool) -> str:
    slashes, sign = found["backslashes"], found["sign"]
    if slashes is not None:
        by_ray = found["doubled"] is not None or (spaced and found["last"] is not None)
        return slashes if by_ray else 2 * slashes
    if spaced:
        return f"\\{sign}" if sign in "$`" else sign
    if sign == "\n":
        return "'\n'"
    return sign if sign == '"' or PLAIN.match(sign) else f"\\{sign}"
