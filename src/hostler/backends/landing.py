"""Files that come out of a socket are taken by a process of their own (`receiver.py`), beside the controller."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hostler.backends import receiver
from hostler.backends.arriving import Disk, Wanted, verified
from hostler.backends.channel import words
from hostler.model.errors import FilesError
from hostler.snapshots.reserve import RESERVE

LAST_WORDS = 300


class Receiver:
    """Takes files out of `source`, from which nobody else reads meanwhile. Raises `OSError` where it cannot start."""

    def __init__(self, source: socket.socket) -> None:
        words = ["-I", "-S", str(Path(receiver.__file__)), str(source.fileno()), str(os.getpid())]
        self._process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(source.fileno(),),
            start_new_session=True,  # what interrupts the controller is none of its business
        )

    def land(self, files: Sequence[Wanted], disk: Disk, moved: Callable[[], None], where: str) -> list[str]:
        """Take files that were asked for, in this order; their hashes. Waits.

        Raises as `Courier.get`, and `ConnectionError`. Nothing is written any more when it returns, however it does.
        """
        hashes = list[str]()
        for told in self._told(files) if files else ():
            moved()
            if "large" in told:
                disk.begin(files[told["large"]].partial)
                # Others may fill the disk meanwhile, and a file may grow.
                RESERVE.expect(os.path.dirname(files[told["large"]].partial), 0)
            elif "landed" in told:
                for size, found, said in told["landed"]:
                    wanted = files[len(hashes)]
                    disk.sync(wanted.partial, size=size)
                    hashes.append(verified(wanted, found, said, where))
            elif "moved" not in told:
                raise _fault(told, files[len(hashes)], where)
            if len(hashes) == len(files):
                break
        return hashes

    def close(self) -> None:
        """End it, at once."""
        process = self._process
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what it was not told any more
                pipe.close()

    def _told(self, files: Sequence[Wanted]) -> Iterator[Mapping[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"files": [(each.partial, each.target, each.most) for each in files]}
        with suppress(BrokenPipeError):  # what it has to say of that is read now
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        while line := self._process.stdout.readline():
            yield json.loads(line)
        raise ConnectionError(f"the process that takes its files has ended: {self._last_words()}")

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        words = self._process.stderr.read().decode(errors="replace").strip()[-LAST_WORDS:]
        return words or f"status {self._process.wait()}"


def _fault(told: Mapping[str, Any], wanted: Wanted, where: str) -> Exception:
    if "error" in told:
        return FilesError(f"{wanted.path} of {where} cannot be fetched: {words(told['error'])}")
    if "broken" in told:
        return ConnectionError(told["broken"])
    return OSError(told["errno"], told["strerror"], told["path"])
