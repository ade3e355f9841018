"""Files of a git repository instead of a folder: `hostler submit --git URL@REV`."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hostler.model.errors import UsageError

OF_A_REPOSITORY = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
})  # fmt: skip
_PLACE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*|[^/:@]*@[^/:@]*:|")
"""Where a repository is: a scheme with a host, which may have a user, or `user@host:`."""


def parse(word: str) -> tuple[str, str]:
    """URL and revision of `URL@REV`; without a revision, `HEAD`. Raises `UsageError`.

    The revision is behind the first `@` of the path: it may have more. The path of a folder here may, too.
    """
    place = _PLACE.match(word)
    begin = 0 if place is None else place.end()
    signs = [at for at in range(begin, len(word)) if word[at] == "@"]
    here = [at for at in (*signs, len(word)) if not begin and at and Path(word[:at]).expanduser().exists()]
    at = here[-1] if here else (signs or [len(word)])[0]
    url, revision = word[:at], word[at + 1 :] if at < len(word) else "HEAD"
    if not url or not revision or url.startswith("-") or revision.startswith("-"):
        raise UsageError(f"--git {word!r} is not an address; write URL@REV, as https://example.org/project.git@v1.2")
    return url, revision


@contextmanager
def checkout(word: str) -> Iterator[Path]:
    """A temporary folder with the files of a revision. Raises `UsageError` where git cannot bring them."""
    url, revision = parse(word)
    there = Path(url).expanduser()
    if there.exists():  # git runs in another folder
        url = str(there.absolute())
    elif ":" not in url:
        raise UsageError(f"--git {word}: there is no folder {url}. Give the path or the address of a repository")
    with tempfile.TemporaryDirectory(prefix="hostler-git-") as folder:
        path = Path(folder)
        _git(word, path, "init", "--quiet")
        if _fails(path, "fetch", "--quiet", "--depth=1", "--", url, revision):
            # Some servers hand out no single commit by its hash.
            _git(word, path, "fetch", "--quiet", "--tags", "--", url, "+refs/heads/*:refs/remotes/origin/*")
            names = (revision, f"origin/{revision}")
            found = [
                name for name in names if not _fails(path, "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")
            ]
            if not found:
                raise UsageError(
                    f"--git {word}: the repository has no branch, tag or commit {revision!r}. `git ls-remote {url}` "
                    "lists branches and tags"
                )
            _git(word, path, "checkout", "--quiet", "--detach", found[0])
        else:
            _git(word, path, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        _git(word, path, "submodule", "--quiet", "update", "--init", "--recursive", "--depth=1")
        yield path


def _fails(folder: Path, *words: str) -> bool:
    return _run(folder, words).returncode != 0


def _git(word: str, folder: Path, *words: str) -> None:
    done = _run(folder, words)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        why = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1]).rstrip(".")
        raise UsageError(f"--git {word}: git {words[0]} failed: {why}. Check the address and the revision")


def _run(folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", *words],
            cwd=folder,
            env=_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError("--git needs the program git, which is not installed here") from error


def _environment() -> dict[str, str]:
    """Without the variables by which git in a hook, say, would take the caller's repository for this one."""
    return {name: value for name, value in os.environ.items() if name not in OF_A_REPOSITORY}
