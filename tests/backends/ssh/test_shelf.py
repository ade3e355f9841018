"""A folder of a node behind a real OpenSSH server as a store: the same contract as any, and what only a node can do."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.model.errors import FilesChanged, FilesError, LinkLost, LinkRefused
from hostler.model.inputs import LinkUp
from hostler.runtime.shelf import ShelfStore
from hostler.stores.base import LABEL, Damaged, Listed, Missing, at_once
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.backends.ssh.test_node import Watch, network_to, node_on, server
from tests.stores.conftest import named

__all__ = ["server"]
pytestmark = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")

CONTENT = b"thirty games" * 1_000_000
NAME = named(CONTENT)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "vault"
    path.mkdir()
    return path


def changed(path: Path) -> Path:
    path.write_bytes(b"another")
    return path


@asynccontextmanager
async def shelf(server: Sshd, root: Path) -> AsyncIterator[ShelfStore]:
    async with network_to(server) as network:
        watch = Watch(node_on(server, network))
        await watch.first(LinkUp)
        yield ShelfStore(watch.node.shelf, str(root), "on far")
        await watch.leave()


async def test_it_keeps_the_contract_of_every_store(server: Sshd, root: Path, source: Path, tmp_path: Path) -> None:
    sent: list[int] = []
    path = root / NAME.path
    async with shelf(server, root) as store:
        with pytest.raises(Missing):
            await asyncio.to_thread(store.check, NAME, at_once)
        with pytest.raises(Missing):
            await asyncio.to_thread(store.get, NAME, tmp_path / "target", at_once)
        await asyncio.to_thread(store.put, NAME, source, sent.append)
        assert sum(sent) == 2 * len(CONTENT), "sent, and read back"
        assert path.read_bytes() == CONTENT
        assert await asyncio.to_thread(store.check, NAME, at_once) == len(CONTENT)
        assert await asyncio.to_thread(lambda: list(store.listed())) == [Listed(NAME, len(CONTENT))]
        await asyncio.to_thread(store.get, NAME, tmp_path / "deep" / "target", at_once)
        assert (tmp_path / "deep" / "target").read_bytes() == CONTENT
        assert (await asyncio.to_thread(store.free_bytes) or 0) > 0
        assert await asyncio.to_thread(store.read_label) is None
        await asyncio.to_thread(store.write_label, "mine")
        assert await asyncio.to_thread(store.read_label) == "mine"
        assert (root / LABEL).read_text() == "mine"
        await asyncio.to_thread(store.delete, NAME)
        await asyncio.to_thread(store.delete, NAME)
        assert not path.exists()


async def test_a_flipped_bit_there_is_found_there_and_mended_by_the_next_put(
    server: Sshd, root: Path, source: Path, tmp_path: Path
) -> None:
    path = root / NAME.path
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT[:1000] + b"x" + CONTENT[1001:])
    async with shelf(server, root) as store:
        with pytest.raises(Damaged, match=NAME.sha256):
            await asyncio.to_thread(store.check, NAME, at_once)
        with pytest.raises(Damaged):
            await asyncio.to_thread(store.get, NAME, tmp_path / "target", at_once)
        assert not (tmp_path / "target").exists()
        await asyncio.to_thread(store.put, NAME, source, at_once)
        assert path.read_bytes() == CONTENT
        path.write_bytes(b"wrong")
        await asyncio.to_thread(store.set_aside, NAME)
        assert (root / "quarantine" / f"{NAME.sha256}{NAME.suffix}").read_bytes() == b"wrong"
        assert not path.exists()


async def test_who_asks_for_another_file_than_it_says_puts_nothing(server: Sshd, root: Path, tmp_path: Path) -> None:
    another = changed(tmp_path / "another")
    async with shelf(server, root) as store:
        with pytest.raises(FilesChanged):
            await asyncio.to_thread(store.put, NAME, another, at_once)
    assert not (root / NAME.path).exists()


async def test_a_part_that_came_before_and_is_wrong_is_not_the_sources_fault(
    server: Sshd, root: Path, source: Path
) -> None:
    partial = root / "partial" / NAME.sha256
    partial.parent.mkdir()
    partial.write_bytes(b"not its beginning")
    async with shelf(server, root) as store:
        with pytest.raises(FilesError) as error:
            await asyncio.to_thread(store.put, NAME, source, at_once)
        assert not isinstance(error.value, FilesChanged)
        await asyncio.to_thread(store.put, NAME, source, at_once)
    assert (root / NAME.path).read_bytes() == CONTENT


async def test_nothing_outside_the_folder_is_reached(server: Sshd, root: Path, tmp_path: Path) -> None:
    """By no name, and by no link that somebody has put there."""
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    (root / NAME.path).parent.mkdir(parents=True)
    (root / NAME.path).symlink_to(secret)
    async with shelf(server, root) as store:
        for call in (lambda: store.check(NAME, at_once), lambda: store.delete(NAME)):
            with pytest.raises((FilesError, LinkLost)):
                await asyncio.to_thread(call)
        for path in ("../secret", "/etc/passwd", "objects/../../secret", f"objects/{NAME.sha256[:2]}/../../x"):
            request = {"op": "check", "path": path}
            with pytest.raises((FilesError, LinkLost)):
                await asyncio.to_thread(store._ask, **request)
        for request in ({"op": "lay", "tree": "t", "files": []}, {"op": "get", "files": [["objects", 0]]}):
            with pytest.raises((FilesError, LinkLost)):
                await asyncio.to_thread(store._ask, **request)
    assert secret.read_bytes() == CONTENT


async def test_a_folder_that_is_not_there_is_no_empty_store(server: Sshd, tmp_path: Path) -> None:
    async with shelf(server, tmp_path / "absent") as store:
        with pytest.raises(LinkRefused, match="make the folder, or mount"):
            await asyncio.to_thread(store.check, NAME, at_once)
    assert not (tmp_path / "absent").exists()


async def test_a_node_that_is_down_is_a_store_that_cannot_be_reached(server: Sshd, root: Path, source: Path) -> None:
    async with network_to(server) as network:
        node = node_on(server, network)
        store = ShelfStore(node.shelf, str(root), "on far")
        with pytest.raises(LinkLost):
            await asyncio.to_thread(store.check, NAME, at_once)
        watch = Watch(node)
        await watch.first(LinkUp)
        await asyncio.to_thread(store.put, NAME, source, at_once)
        server.kill()
        assert isinstance(await watch.broken(), LinkLost)
        with pytest.raises(LinkLost):
            await asyncio.to_thread(store.check, NAME, at_once)
        with sshd.running(server.folder, port=server.port):
            again = Watch(node)
            await again.first(LinkUp)
            await asyncio.to_thread(store.check, NAME, at_once)
            await again.leave()
    assert hashlib.sha256((root / NAME.path).read_bytes()).hexdigest() == NAME.sha256


async def test_many_at_once_share_two_connections(server: Sshd, root: Path, tmp_path: Path) -> None:
    async with shelf(server, root) as store:
        names = []
        for number in range(20):
            content = b"%d" % number * 1000
            (tmp_path / str(number)).write_bytes(content)
            names.append(named(content))
        await asyncio.gather(
            *(asyncio.to_thread(store.put, name, tmp_path / str(n), at_once) for n, name in enumerate(names))
        )
        assert {each.name for each in await asyncio.to_thread(lambda: list(store.listed()))} == set(names)
        assert 1 <= len(store._idle) <= 2
