"""Notes at submission: what will not run, as far as the controller and the files here tell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hostler.model.errors import UsageError

NOTES_MOST = 20
SHOWN = 100
"""Characters of a name that a note repeats."""
COMMANDS = {"script": "argv", "sweep": "worker"}
"""The field of a payload that holds its command, by kind."""
INTERPRETER = r"(?:python[\d.]*|pypy[\d.]*|bash|sh|dash|zsh|node|perl|Rscript|julia|ruby)"
PLACEHOLDER = r"(?<![{$])\{([A-Za-z_]\w*)\}(?!\})"
PLAIN_WORD = r"[^\s'\"`();]*"
"""A word that is no program text: braces in one that is, as in an f-string of Python, are its own."""
SUFFIXES = (".py", ".sh", ".bash", ".js", ".mjs", ".pl", ".R", ".r", ".jl", ".rb")
"""How the names of scripts end: the same as in `agent.procs`, which looks on the node."""


def file_notes(specs: Sequence[Mapping[str, Any]], *, strict: bool, here: bool) -> list[str]:
    """A note for each program or script that is missing here, and for placeholders of single jobs; with `strict` raises
    `UsageError` for the first.

    `here`: the controller, and so a node perhaps, is on this machine.
    """
    payloads = [spec["payload"] for spec in specs if spec["payload"]["kind"] in COMMANDS]
    # The first two words of a command are looked at; the jobs of a group have mostly the same.
    looked_at = dict.fromkeys((tuple(each[COMMANDS[each["kind"]]][:2]), each.get("cwd")) for each in payloads)
    whys = (_missing(argv, cwd, here=here) for argv, cwd in looked_at)
    found = list(dict.fromkeys(why for why in (*whys, *map(_unfilled, specs)) if why is not None))
    if strict and found:
        raise UsageError(f"{found[0]}. Nothing was submitted, as notes are refused (strict)")
    return found[:NOTES_MOST]


def note_texts(notes: Sequence[Mapping[str, Any]], with_earlier_files: Sequence[str]) -> list[str]:
    """Which submitted jobs no device can take, and which keep the files they had first (`calls.Submitted`)."""
    made = []
    for note in notes:
        several = note["count"] > 1
        jobs = f"{note['job']} and {note['count'] - 1} more" if several else note["job"]
        fits = "cannot start now" if note["fits"] else "fit on no device" if several else "fits on no device"
        made.append(f"{jobs} {fits}: {note['why']}")
    if with_earlier_files:
        first, more = with_earlier_files[0], len(with_earlier_files) - 1
        jobs = f"{first} and {more} more" if more else first
        keep = "keep" if more else "keeps"
        made.append(f"{jobs} had other files when first submitted and {keep} them; another key is a new job")
    return made


def _missing(argv: Sequence[str], cwd: str | None, *, here: bool) -> str | None:
    """What of a script's command is not in its folder, or, of its program, not in the PATH here."""
    return next(_faults(argv, None if cwd is None else Path(cwd), here=here), None)


def _faults(argv: Sequence[str], folder: Path | None, *, here: bool) -> Iterator[str]:
    program = argv[0]
    if "/" in program and not os.path.isabs(program):
        yield from _fault_in(folder, program, "program")
    elif here and "/" not in program and program != "{python}" and not _is_in_path(program):
        yield f"there is no program {program[:SHOWN]!r} in the PATH here; {_remedy(program, folder)}"
    is_script = re.fullmatch(INTERPRETER, program.rpartition("/")[2]) and len(argv) > 1 and argv[1].endswith(SUFFIXES)
    if is_script and not argv[1].startswith("-") and not os.path.isabs(argv[1]):
        yield from _fault_in(folder, argv[1], "file")


def _unfilled(spec: Mapping[str, Any]) -> str | None:
    """That a job which is of no group has placeholders, which stay as they are."""
    payload = spec["payload"]
    if payload["kind"] != "script" or spec.get("parameters"):
        return None
    argv = [word for word in payload["argv"] if word != "{python}"]
    words = [*argv, *payload.get("env", {}).values(), *payload.get("outputs", ()), spec.get("name") or ""]
    plain = (word for word in words if isinstance(word, str) and re.fullmatch(PLAIN_WORD, word))
    names = dict.fromkeys(name for word in plain for name in re.findall(PLACEHOLDER, word))
    if not names:
        return None
    which = ", ".join(f"{{{name[:SHOWN]}}}" for name in list(names)[:NOTES_MOST])
    them, are = ("it a value", "is sent as it is") if len(names) == 1 else ("them values", "are sent as they are")
    return f"{which} {are}: this is a single job. A grid would give {them} (--grid {next(iter(names))[:SHOWN]}=1,2)"


def _is_in_path(program: str) -> bool:
    from shutil import which

    return which(program) is not None


def _remedy(program: str, folder: Path | None) -> str:
    if " " in program:
        return f"give each word by itself: {' '.join(program.split())[:SHOWN]} are {len(program.split())} words"
    if folder is not None and _exists(folder / program):
        return f"it is a file of the folder: run it by its interpreter, or as ./{program[:SHOWN]}"
    return "correct the command unless a node has it"


def _fault_in(folder: Path | None, path: str, what: str) -> Iterator[str]:
    if folder is None:
        yield f"there is no {what} {path[:SHOWN]!r} in the empty folder in which the job starts: no files are sent"
    elif not _exists(folder / path):
        yield f"there is no {what} {path[:SHOWN]!r} in {folder}; correct the command or the folder (cwd)"
    elif what == "program" and not os.access(folder / path, os.X_OK):
        yield f"{path!r} in {folder} cannot be executed; `chmod +x {path}` makes it a program"


def _exists(path: Path) -> bool:
    """Whether there is such a file, as far as may be seen: that a folder cannot be read is told when it is sent."""
    try:
        return path.exists()
    except OSError:
        return True
