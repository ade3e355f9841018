"""A store in a folder of a node: its agent reads and writes there, over a connection for files beside the others.

The hash of what lies there is taken on the node, of what is read back from its disk.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from hostler.backends.base import Asks
from hostler.model.errors import FilesChanged, FilesError, LinkLost
from hostler.stores import hashing
from hostler.stores.base import Damaged, Listed, Missing, ObjectName, Pace, at_once

PIECE = 4 << 20
SIDE_BY_SIDE = 2
"""Connections: one that reads what lies there must not stand in the way of what comes."""
Open: TypeAlias = Callable[[str], Awaitable[Asks]]
Answer = TypeVar("Answer")


class ShelfStore:
    """Objects below `root` of a node. Made where the event loop runs that `dial` belongs to, used from threads."""

    def __init__(self, dial: Open, root: str, where: str) -> None:
        self._dial = dial
        self._root = root
        self._where = f"{where}, in {root}"
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)
        self._idle: list[Asks] = []

    def put(self, name: ObjectName, source: Path, pace: Pace) -> None:
        """As `Store.put`; what was sent before a connection broke is not sent again."""
        try:
            self.check(name, pace)
        except Damaged:
            self.delete(name)
        except Missing:
            pass
        else:
            return
        with hashing.opened(source) as file:
            size = os.fstat(file.fileno()).st_size
        try:
            self._do(lambda shelf: shelf.bring(source, name.path, size, name.sha256, pace))
        except FilesChanged as error:
            _expect_right(name, source)
            raise FilesError(f"what came {self._where} is not what was sent: {error}") from error
        self._read_back(name, pace)

    def get(self, name: ObjectName, target: Path, pace: Pace) -> None:
        """As `Store.get`."""
        with hashing.appearing(target) as out:
            for piece in hashing.checked(name, self._content(name), pace, self._where):
                out.write(piece)

    def check(self, name: ObjectName, pace: Pace) -> int:
        """As `Store.check`, on the node."""
        answer = self._ask(op="check", path=name.path)
        if not answer["found"]:
            raise self._missing(name)
        size = int(answer["size"])
        pace(size)
        if answer["sha256"] != name.sha256:
            raise Damaged(f"{name.path} {self._where} is damaged: its {size} bytes have the SHA-256 {answer['sha256']}")
        return size

    def listed(self) -> Iterator[Listed]:
        """As `Store.listed`."""
        for shelf in range(256):
            for path, size in self._ask(op="listed", shelf=f"{shelf:02x}")["files"]:
                name = ObjectName.at(str(path))
                if name is not None:
                    yield Listed(name, int(size))

    def delete(self, name: ObjectName) -> None:
        """As `Store.delete`."""
        self._ask(op="remove", path=name.path)

    def set_aside(self, name: ObjectName) -> None:
        """As `Store.set_aside`."""
        self._ask(op="aside", path=name.path)

    def free_bytes(self) -> int | None:
        """What is free there."""
        return int(self._ask(op="room")["free"])

    def read_label(self) -> str | None:
        """As `Store.read_label`."""
        text = self._ask(op="label")["text"]
        return None if text is None else str(text)

    def write_label(self, text: str) -> None:
        """As `Store.write_label`."""
        self._ask(op="label", text=text)

    def _read_back(self, name: ObjectName, pace: Pace) -> None:
        try:
            with hashing.arriving(self._where):
                self.check(name, pace)
        except Damaged as error:
            self.delete(name)
            raise FilesError(f"what was put there is not what is read, and was deleted again: {error}") from error

    def _content(self, name: ObjectName) -> Iterator[bytes]:
        offset = 0
        while True:
            at = offset
            answer, piece = self._do(
                lambda shelf: shelf.piece({"op": "read", "path": name.path, "offset": at, "limit": PIECE})  # noqa: B023
            )
            if not answer["found"]:
                raise self._missing(name)
            if not piece:
                return
            offset += len(piece)
            yield piece

    def _missing(self, name: ObjectName) -> Missing:
        return Missing(f"{name.path} is not there {self._where}")

    def _ask(self, **request: object) -> dict[str, Any]:
        return self._do(lambda shelf: shelf.ask(request))

    def _do(self, work: Callable[[Asks], Awaitable[Answer]]) -> Answer:
        """Have it done where the connections live, and wait for it here."""
        if self._loop.is_closed():
            raise LinkLost(f"the store {self._where} cannot be reached: the controller ends")
        try:
            return asyncio.run_coroutine_threadsafe(self._with(work), self._loop).result()
        except CancelledError as error:
            raise LinkLost(f"the store {self._where} cannot be reached: the controller ends") from error

    async def _with(self, work: Callable[[Asks], Awaitable[Answer]]) -> Answer:
        async with self._room:
            shelf = self._idle.pop() if self._idle else await self._dial(self._root)
            try:
                answer = await work(shelf)
            except FilesError:
                self._keep(shelf)
                raise
            except BaseException:
                shelf.close()  # nobody knows what is on its way still
                raise
            self._keep(shelf)
            return answer

    def _keep(self, shelf: Asks) -> None:
        if not shelf.broken:
            self._idle.append(shelf)


def _expect_right(name: ObjectName, source: Path) -> None:
    """Raise `FilesChanged` where it is the file here that is not what it is said to be."""
    with hashing.opened(source) as file:
        for _ in hashing.own(name, source, file, at_once):
            pass
