"""The script that a command names: found in its words, behind the options of its interpreter, and in its file."""

from __future__ import annotations

import os
import re
from typing import Iterator, List, NamedTuple, Optional

INTERPRETER = re.compile(r"(?:python[\d.]*|pypy[\d.]*|bash|sh|dash|zsh|node|perl|Rscript|julia|ruby)")
SHELLS = ("bash", "sh", "dash", "zsh")
SUFFIXES = (".py", ".sh", ".bash", ".js", ".mjs", ".pl", ".R", ".r", ".jl", ".rb")
"""How the names of scripts end. Without such an end, a word behind `node` may be the name of a module."""
_FIRST_LINE = 4096


class _Options(NamedTuple):
    """Options that may stand before the script. An option that is none of them ends the search."""

    flags: str
    """Letters of options without a value, which may be written together."""
    valued: str
    """Letters of options with a value: the rest of their word, or the next word."""
    words: str = r"(?!)"
    """Whole words that are options without a value."""
    valued_words: str = r"(?!)"
    """Whole words whose value is the next word."""


_NODE_FLAGS = r"--[a-z-]+=.*|--(?:no-warnings|enable-source-maps|expose-gc|trace-warnings)"
_SHELL_FLAGS = r"--(?:login|norc|noprofile|posix|restricted|verbose|noediting)"
_R_FLAGS = r"--(?:verbose|vanilla|no-[a-z-]+|slave|quiet|default-packages=.*)"
_JULIA_FLAGS = r"--[a-z-]+=.*|--project|-O\d|-g\d"
_PYTHON = _Options("bBdEiIOPqRsStuvx", "WX", valued_words=r"--check-hash-based-pycs")
_SHELL = _Options("abefhklmnprtuvxBCEHPTI", "oO", _SHELL_FLAGS, r"--(?:rcfile|init-file)")
_OPTIONS = {
    "node": _Options("", "r", _NODE_FLAGS, r"--(?:require|import|loader)"),
    "perl": _Options("cfnpstTuUWwX", "IMm", r"-[MmI].+"),
    "ruby": _Options("Wvwnps", "Ir", r"--(?:yjit|jit|disable|enable)[\w=,-]*"),
    "Rscript": _Options("", "", _R_FLAGS),
    "julia": _Options("qiO", "tpLJHC", _JULIA_FLAGS, r"--(?:threads|procs|load|sysimage)"),
}


def script_of(argv: List[str]) -> Optional[str]:
    """The script that a known interpreter is given; None where the command is another, or has its program in a word."""
    name = argv[0].rpartition("/")[2] if argv else ""
    if INTERPRETER.fullmatch(name) is None:
        return None
    is_shell = name in SHELLS
    options = _SHELL if is_shell else _OPTIONS.get(name, _PYTHON)
    words = iter(argv[1:])
    for word in words:
        if word == "--" or (is_shell and word == "-"):
            script = next(words, None)
            break
        if word[:1] not in ("-", "+" if is_shell else "-") or len(word) < 2:
            script = None if word in ("", "-") else word
            break
        values = _values(word, options)
        if values is None:
            return None
        for _ in range(values):
            next(words, None)
    else:
        return None
    if script is None or "\0" in script:
        return None
    return None if name == "node" and not script.endswith(SUFFIXES) else script


def is_searched(argv: List[str], script: str) -> bool:
    """Whether the interpreter looks for such a script in the PATH, too, if it is not in the working directory."""
    return "/" not in script and argv[0].rpartition("/")[2] in SHELLS


def takes_folders(argv: List[str]) -> bool:
    """Whether the interpreter runs a folder as it runs a file."""
    return argv[0].rpartition("/")[2].startswith(("python", "pypy", "node"))


def wanted_by(path: str) -> Iterator[str]:
    """The programs that the first line of a script names: a path, and the program that env(1) is to find in the PATH.

    Nothing for a file of another kind, or one that cannot be read.
    """
    try:
        with open(path, "rb") as source:
            line = source.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if not words:
        return
    yield words[0]
    if words[0].rpartition("/")[2] == "env":
        rest = words[2:] if words[1:2] == ["-S"] else words[1:]
        if rest and not rest[0].startswith("-") and "=" not in rest[0]:
            yield rest[0]


def _values(word: str, options: _Options) -> Optional[int]:
    """How many of the words behind an option are its values; None where a script behind it is not sure."""
    if re.fullmatch(options.words, word):
        return 0
    if re.fullmatch(options.valued_words, word):
        return 1
    if word.startswith("--"):
        return None
    for at, letter in enumerate(word[1:], 1):
        if letter in options.valued:
            # A shell takes the value from the next word even if letters follow.
            return 1 if at == len(word) - 1 or options is _SHELL else 0
        if letter not in options.flags:
            return None
    return 0
