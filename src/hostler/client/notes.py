"""Notes at submission: what will not run, as far as the controller and the files here tell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hostler.agent import scripts
from hostler.model.errors import UsageError

NOTES_MOST = 20
SHOWN = 100
"""Characters of a name that a note repeats."""
COMMANDS = {"script": "argv", "sweep": "worker"}
"""The field of a payload that holds its command, by kind."""
PYTHON = "{python}"
"""The first word that stands for the Python of the node."""
PLACEHOLDER = r"(?<![{$])\{([A-Za-z_]\w*)\}(?!\})"
PLAIN_WORD = r"[^\s'\"`();]*"
"""A word that is no program text: braces in one that is, as in an f-string of Python, are its own."""


def file_notes(specs: Sequence[Mapping[str, Any]], *, strict: bool, here: bool) -> list[str]:
    """A note for each folder, program or script that is missing here, and for placeholders of single jobs.

    With `strict` raises `UsageError` for the first. `here`: the controller, and so a node perhaps, is on this machine.
    """
    payloads = [spec["payload"] for spec in specs if spec["payload"]["kind"] in COMMANDS]
    # The jobs of a group have mostly the same program and script.
    looked_at = dict.fromkeys(_named(each) for each in payloads)
    whys = (_missing(each, here=here) for each in looked_at)
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


class _Named(NamedTuple):
    """The files that a job needs from the start, by the names that its command has for them."""

    program: str
    script: str | None
    cwd: str | None
    in_place: bool


def _named(payload: Mapping[str, Any]) -> _Named:
    argv = [str(word) for word in payload[COMMANDS[payload["kind"]]]]
    program = "python" if argv[0] == PYTHON else argv[0]
    script = scripts.script_of([program, *argv[1:]])
    return _Named(argv[0], script, payload.get("cwd"), bool(payload.get("in_place")))


def _missing(named: _Named, *, here: bool) -> str | None:
    """What a command names that is not in its folder, or not on this machine."""
    return next(_faults(named, None if named.cwd is None else Path(named.cwd), here=here), None)


def _faults(named: _Named, folder: Path | None, *, here: bool) -> Iterator[str]:
    program = named.program
    if folder is not None and named.in_place and here:
        yield from _fault_of_folder(folder)
    if "/" in program and not os.path.isabs(program):
        yield from _fault_in(folder, program, "program")
    elif here and "/" in program and not _exists(Path(program)):
        yield f"there is no program {program[:SHOWN]!r} on this machine; correct the command unless a node has it"
    elif here and "/" not in program and program != PYTHON and not _is_in_path(program):
        yield f"there is no program {program[:SHOWN]!r} in the PATH here; {_remedy(program, folder)}"
    if here and "/" in program:
        yield from _fault_of_first_line((folder or Path()) / program, program)
    if named.script is not None:
        yield from _fault_of_script(named.script, program, folder, here=here)


def _fault_of_folder(folder: Path) -> Iterator[str]:
    if not _exists(folder):
        yield f"there is no folder {str(folder)[:SHOWN]!r} to run in place in; correct it (cwd)"
    elif not folder.is_dir():
        yield f"{str(folder)[:SHOWN]!r} is a file, and the job is to run in place in it; correct the folder (cwd)"
    elif not os.access(folder, os.X_OK):
        yield f"the folder {str(folder)[:SHOWN]!r} may not be entered; correct its mode, or the folder (cwd)"


def _fault_of_first_line(path: Path, program: str) -> Iterator[str]:
    for wanted in scripts.wanted_by(str(path)):
        is_there = _exists(path.parent / wanted) if "/" in wanted else _is_in_path(wanted)
        if not is_there:
            yield f"the first line of {program[:SHOWN]!r} names {wanted[:SHOWN]!r}, which is not on this machine"


def _fault_of_script(script: str, program: str, folder: Path | None, *, here: bool) -> Iterator[str]:
    if os.path.isabs(script):
        if here and not _exists(Path(script)):
            yield f"there is no file {script[:SHOWN]!r} on this machine; correct the command unless a node has it"
        return
    faults = list(_fault_in(folder, script, "file"))
    if faults and scripts.is_searched([program], script):
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep) if here else ()
        is_elsewhere = any(os.path.isfile(os.path.join(each, script)) for each in folders)
        if is_elsewhere or not (here or script.endswith(scripts.SUFFIXES)):
            return
    yield from faults
    if folder is not None and (folder / script).is_dir() and not scripts.takes_folders([program]):
        yield f"{script[:SHOWN]!r} in {folder} is a folder, and {program[:SHOWN]} runs files"


def _unfilled(spec: Mapping[str, Any]) -> str | None:
    """That a job which is of no group has placeholders, which stay as they are."""
    payload = spec["payload"]
    if payload["kind"] != "script" or spec.get("parameters"):
        return None
    argv = [word for word in payload["argv"] if word != PYTHON]
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
    elif what == "file" and not os.access(folder / path, os.R_OK):
        yield f"{path!r} in {folder} cannot be read; correct its mode"


def _exists(path: Path) -> bool:
    """Whether there is such a file, as far as may be seen: that a folder cannot be read is told when it is sent."""
    try:
        return path.exists()
    except OSError:
        return True
