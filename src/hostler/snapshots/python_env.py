"""The file of a folder that states the Python environment of its scripts: found, checked, and known by a digest."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from hostler.model.errors import FilesError

NO_ENVIRONMENT = "none"
"""As the file that is asked for: none is wanted (`hostler.model.work.NO_ENVIRONMENT`)."""
ORDER = ("uv.lock", "pyproject.toml", "requirements.txt", "environment.yml", "environment.yaml")
"""Names that are looked for in the folder, the first that is there counts."""
TEXT = (".txt", ".in")
CONDA = (".yml", ".yaml")
INCLUDES = ("-r", "--requirement", "-c", "--constraint")
LOCAL = re.compile(r"[./~]|[A-Za-z]:\\|file:", re.IGNORECASE)
"""How a requirement begins that is a path of the client's machine."""
ARCHIVES = (".whl", ".tar.gz", ".zip")
NO_PATHS = (
    "only dependencies are installed on nodes, and the files of the project are there anyway: state the packages by "
    "name, or submit with --python-env none"
)


class FoundFile(NamedTuple):
    """A file that states an environment: its path in the folder, and the digest of what it states."""

    file: str
    sha256: str


def found_in(folder: Path, paths: Collection[str], asked: str | None) -> FoundFile | None:
    """The file that states the environment: the one that is asked for, or the first of `ORDER` that states one.

    `paths` are the files of the snapshot. `None` where there is none, or none is wanted. Raises `FilesError` where a
    file cannot be what is built elsewhere.
    """
    if asked == NO_ENVIRONMENT:
        return None
    if asked is not None:
        return _named(folder, paths, asked)
    for name in ORDER:
        if name in paths and _states(folder, paths, name):
            return FoundFile(name, _digest(folder, paths, name))
    return None


def _named(folder: Path, paths: Collection[str], asked: str) -> FoundFile:
    path = str(PurePosixPath(asked))
    name = path.rpartition("/")[2]
    if path.startswith("/") or ".." in path.split("/"):
        raise FilesError(f"--python-env {asked} leads out of {folder}; name a file below it")
    if path not in paths:
        raise FilesError(f"--python-env {asked} is not among the files of {folder} that are sent; correct the name")
    if name not in ORDER and not name.endswith((*TEXT, *CONDA)):
        raise FilesError(
            f"--python-env {asked} states no environment; name a uv.lock, pyproject.toml, requirements file (*.txt) or "
            "environment.yml"
        )
    if not _states(folder, paths, path):
        raise FilesError(f"--python-env {asked} has no dependencies under [project]; state them there")
    return FoundFile(path, _digest(folder, paths, path))


def _states(folder: Path, paths: Collection[str], path: str) -> bool:
    """Whether a file states an environment: a pyproject.toml may hold settings of tools only."""
    name = path.rpartition("/")[2]
    if name == "uv.lock":
        return f"{path.removesuffix(name)}pyproject.toml" in paths
    return name != "pyproject.toml" or bool(_dependencies(folder, path))


def _dependencies(folder: Path, path: str) -> list[str]:
    try:
        project: Any = tomllib.loads(_text(folder, path)).get("project")
    except tomllib.TOMLDecodeError as error:
        raise FilesError(f"{path} cannot be read: {error}. Correct it, or submit with --python-env none") from error
    found = project.get("dependencies") if isinstance(project, dict) else None
    listed = [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
    for each in listed:
        _expect_package(path, each)
    return listed


def _digest(folder: Path, paths: Collection[str], path: str) -> str:
    """The digest of a file and of what it includes. Raises `FilesError` where that cannot be built elsewhere."""
    digest = hashlib.sha256()
    waiting, known = [path], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in known:
            continue
        known.add(name)
        text = _text(folder, name)
        digest.update(f"{len(text)} {name}\n{text}".encode())
        if path.endswith(TEXT):
            waiting += _included(name, text, paths)
        beside = str(PurePosixPath(name).with_name("pyproject.toml"))
        if name == path and PurePosixPath(name).name == "uv.lock" and beside in paths:
            waiting.append(beside)  # it says which groups of dependencies are installed
    return digest.hexdigest()


def _included(path: str, text: str, paths: Collection[str]) -> Iterator[str]:
    """The files that a requirements file includes."""
    for line in _lines(text):
        word, _, value = line.replace("=", " ", 1).partition(" ") if line.startswith("--") else line.partition(" ")
        if line.startswith(("-r", "-c")) and len(word) > 2:
            word, value = line[:2], line[2:]
        if word in ("-e", "--editable") or line.startswith("-e"):
            raise FilesError(f"{path} installs a folder ({line}); {NO_PATHS}")
        if word in INCLUDES:
            yield from _included_file(path, value.strip(), paths)
        elif not line.startswith("-"):
            _expect_package(path, line)


def _included_file(path: str, value: str, paths: Collection[str]) -> Iterator[str]:
    if "://" in value:
        return
    parts: list[str] = []
    for part in (*PurePosixPath(path).parent.parts, *PurePosixPath(value).parts):
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    name = "/".join(parts)
    if name not in paths:
        raise FilesError(f"{path} includes {value}, which is not among the files that are sent; correct the path")
    yield name


def _expect_package(path: str, line: str) -> None:
    """Raise `FilesError` where a requirement is a path."""
    what = line.partition(";")[0].strip()
    source = what.partition(" @ ")[2].strip() or what
    is_archive = "://" not in source and source.lower().endswith(ARCHIVES)
    if LOCAL.match(source) or is_archive:
        raise FilesError(f"{path} names a path of this machine ({line}); {NO_PATHS}")


def _lines(text: str) -> Iterator[str]:
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        bare = re.sub(r"(^|\s)#.*$", "", line).strip()
        if bare:
            yield bare


def _text(folder: Path, path: str) -> str:
    try:
        return (folder / path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FilesError(f"{path} cannot be read: {why}") from error
