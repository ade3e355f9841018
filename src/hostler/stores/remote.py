"""A store behind rclone: any remote that its configuration names, from SFTP to the drives of the large clouds.

rclone is a program beside us, asked with argument vectors; what is read and written goes through pipes, so that every
byte is hashed here.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, cast

from hostler.model.errors import FilesError, LinkLost, LinkRefused, UsageError
from hostler.stores import hashing
from hostler.stores.base import LABEL, LABEL_MAX, QUARANTINE, Damaged, Listed, Missing, ObjectName, Pace

PROGRAM = "rclone"
ALWAYS = (
    "--ask-password=false",
    "--retries",
    "2",
    "--low-level-retries",
    "4",
    "--contimeout",
    "30s",
    "--timeout",
    "60s",
)
NO_FOLDER, NO_FILE = 3, 4
"""Exit statuses of rclone: a directory, or a file, is not there."""
TOLD = 300
"""Characters of its last line that are repeated."""


class RemoteStore:
    """Objects below `root`, as rclone writes it: `remote:path`. `config` is its own file, which has the secrets."""

    def __init__(self, root: str, *, config: Path | None = None, program: str = PROGRAM) -> None:
        if ":" not in root or root.startswith(("-", ":")):
            raise UsageError(
                f"{root!r} is no remote of rclone; write it as NAME:PATH, with NAME from `rclone listremotes`"
            )
        self._root = root if root.endswith((":", "/")) else f"{root}/"
        self._program = program
        self._where = f"in {self._root}"
        self._environment = dict(os.environ)
        if config is not None:
            self._environment["RCLONE_CONFIG"] = str(config)

    def put(self, name: ObjectName, source: Path, pace: Pace) -> None:
        """As `Store.put`: under another name first, read back from there, then renamed."""
        if self._holds(name, pace):
            return
        temporary = f"incoming/{name.sha256}{name.suffix}"
        with hashing.opened(source) as file, hashing.arriving(self._where):
            size = os.fstat(file.fileno()).st_size
            with self._running("rcat", self._at(temporary), "--size", str(size), stdin=subprocess.PIPE) as process:
                self._send(process, name, source, file, pace)
        with hashing.arriving(self._where):
            self._check_arrived(temporary, name, pace)
            self._run("moveto", self._at(temporary), self._at(name.path))

    def get(self, name: ObjectName, target: Path, pace: Pace) -> None:
        """As `Store.get`."""
        with hashing.appearing(target) as out:
            for piece in hashing.checked(name, self._content(name.path), pace, self._where):
                out.write(piece)

    def check(self, name: ObjectName, pace: Pace) -> int:
        """As `Store.check`."""
        return hashing.verified(name, self._content(name.path), pace, self._where)

    def listed(self) -> Iterator[Listed]:
        """As `Store.listed`."""
        try:
            with self._running("lsjson", "-R", "--files-only", "--no-modtime", self._at("objects")) as process:
                yield from _read_listing(cast(IO[bytes], process.stdout))
        except Missing:
            return  # nothing was ever put there

    def delete(self, name: ObjectName) -> None:
        """As `Store.delete`."""
        if self._has(name.path):
            self._run("deletefile", self._at(name.path))

    def set_aside(self, name: ObjectName) -> None:
        """As `Store.set_aside`."""
        if self._has(name.path):
            self._run("moveto", self._at(name.path), self._at(f"{QUARANTINE}/{name.sha256}{name.suffix}"))

    def free_bytes(self) -> int | None:
        """As far as the remote can tell."""
        try:
            told = json.loads(self._run("about", "--json", self._root))
        except (LinkRefused, ValueError):
            return None  # most remotes cannot
        free = told.get("free")
        return int(free) if isinstance(free, int) else None

    def read_label(self) -> str | None:
        """As `Store.read_label`. That its folder is not there yet is no trouble: rclone makes it."""
        try:
            return self._run("cat", self._at(LABEL), "--count", str(LABEL_MAX)).decode(errors="replace") or None
        except Missing:
            return None

    def write_label(self, text: str) -> None:
        """As `Store.write_label`."""
        with self._running("rcat", self._at(LABEL), stdin=subprocess.PIPE) as process, suppress(BrokenPipeError):
            cast(IO[bytes], process.stdin).write(text.encode())

    def _at(self, path: str) -> str:
        return f"{self._root}{path}"

    def _check_arrived(self, temporary: str, name: ObjectName, pace: Pace) -> None:
        try:
            hashing.verified(name, self._content(temporary), pace, self._where)
        except Damaged as error:
            self._run("deletefile", self._at(temporary))
            raise FilesError(f"what was put there is not what is read, and was deleted again: {error}") from error

    def _holds(self, name: ObjectName, pace: Pace) -> bool:
        try:
            self.check(name, pace)
        except (Missing, Damaged):
            return False
        return True

    def _has(self, path: str) -> bool:
        """What deletes and moves say of files that are not there is another thing for each kind of remote."""
        try:
            told = json.loads(self._run("lsjson", "--stat", "--no-modtime", self._at(path)))
        except Missing:
            return False
        return isinstance(told, dict) and not told.get("IsDir", True)

    def _content(self, path: str) -> Iterator[bytes]:
        with self._running("cat", self._at(path)) as process:
            yield from hashing.pieces(cast(BinaryIO, process.stdout))

    def _send(
        self, process: subprocess.Popen[bytes], name: ObjectName, source: Path, file: BinaryIO, pace: Pace
    ) -> None:
        """Hand it the file. Where it does not take all of it, its exit status says why."""
        pipe = cast(IO[bytes], process.stdin)
        with suppress(BrokenPipeError):
            for piece in hashing.own(name, source, file, pace):
                pipe.write(piece)

    def _run(self, *words: str) -> bytes:
        with self._running(*words) as process:
            return cast(IO[bytes], process.stdout).read()

    @contextmanager
    def _running(self, *words: str, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
        """A run of rclone, judged by its exit status at the end of the block; one that is left early is killed."""
        with tempfile.TemporaryFile() as said:
            process = self._begin(words, stdin, said)
            try:
                yield process
                _close(process)
                status = process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
            finally:
                _close(process)
            if status:
                said.seek(0)
                self._complain(status, words, said.read().decode(errors="replace"))

    def _begin(self, words: Sequence[str], stdin: int, said: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [self._program, words[0], *ALWAYS, *words[1:]]
        try:
            return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=said, env=self._environment)
        except OSError as error:
            raise LinkRefused(
                f"{self._program} cannot be started ({error.strerror}): install rclone on this machine"
            ) from error

    def _complain(self, status: int, words: Sequence[str], said: str) -> None:
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "")[:TOLD]
        if status in (NO_FOLDER, NO_FILE) or "object not found" in said or "directory not found" in said:
            raise Missing(f"{words[-1]} is not there: {last}")
        if "didn't find section in config file" in said or "unknown command" in said or "doesn't support" in said:
            raise LinkRefused(f"the store {self._where} cannot be used: {last}; see to the configuration of rclone")
        raise LinkLost(f"rclone {words[0]} {self._where} ended with status {status}: {last}")


def _close(process: subprocess.Popen[bytes]) -> None:
    """Its ends of the pipes; what it did not take it will speak of itself."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _read_listing(lines: IO[bytes]) -> Iterator[Listed]:
    """What `rclone lsjson` prints: a list, an entry a line, so that it need not be held whole."""
    for line in lines:
        text = line.strip().rstrip(b",")
        if text in (b"[", b"]", b""):
            continue
        entry = json.loads(text)
        name = ObjectName.at(f"objects/{entry['Path']}")
        if name is not None:
            yield Listed(name, int(entry["Size"]))
