"""Files to and from a node behind a real OpenSSH server: only what is missing, resumed, and checked."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.backends import carrier
from hostler.backends.arriving import Wanted
from hostler.backends.base import Store
from hostler.backends.carrier import OWN
from hostler.backends.courier import Courier, Missing, Outputs, Paced, Parcel
from hostler.backends.ssh import SshNode
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import FilesChanged, FilesError, LinkLost
from hostler.model.files import Fetch
from hostler.model.inputs import Ended, LinkUp
from hostler.snapshots.reserve import RESERVE
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.backends.ssh.test_node import Watch, network_to, node_on, order, server
from tests.snapshots.kept import kept

__all__ = ["server"]
pytestmark = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")

HOSTILE = ["plain.txt", "a b", "-rf", "$(touch x)", "new\nline", "ä", "'\"`", "deep/er/*?.bin", "\udcff.bin"]
"""Names that shells, options and encodings stumble over; the last one is no UTF-8."""


@asynccontextmanager
async def linked(server: Sshd, *options: str) -> AsyncIterator[tuple[SshNode, Watch]]:
    async with network_to(server) as network:
        watch = Watch(node_on(server, network))
        await watch.first(LinkUp)
        yield watch.node, watch
        await watch.leave()


def store_of(server: Sshd) -> Store:
    return Store(results=server.folder / "results", artifacts=server.folder / "artifacts")


def agent(server: Sshd) -> Path:
    return server.folder / "agent"


def project(folder: Path) -> Path:
    for name in HOSTILE:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name) * 1000)
    (folder / "empty").touch()
    return folder


def in_folder(name: str, folder: Path, *argv: str, files: tuple[str, ...] | None = None) -> AttemptOrder:
    return replace(order(name, *argv), cwd=str(folder), files=files)


def worker_in(folder: Path, *files: str) -> WorkerOrder:
    return WorkerOrder(
        id="w-j1-far-cpu0", queue="cpu0", argv=("true",), env={}, digest="", params={}, silence_s=30, start_s=30,
        cwd=str(folder), files=files or None,
    )  # fmt: skip


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_folder_goes_there_and_what_is_made_in_it_comes_back(server: Sshd, tmp_path: Path) -> None:
    mine = project(tmp_path / "project")
    (mine / "run").write_text(
        '#!/bin/sh\nmkdir out; for each in *; do [ "$each" = out ] || cp -r -- "$each" out/ || exit 1; done\n'
    )
    (mine / "run").chmod(0o755)
    async with linked(server) as (node, watch):
        supplied = await node.supply(in_folder("j1.1", mine, "./run"))
        assert supplied.cwd == f"{agent(server)}/trees/j1.1"
        assert content(Path(supplied.cwd)) == content(mine)
        await node.launch([supplied])
        assert (await watch.first(Ended)).exit_code == 0
        files = await node.fetch("j1.1", Fetch(outputs=("out",)), str(mine))
        results = server.folder / "results" / "j1.1"
        assert content(results / "out") == {**content(mine)}
        assert {each.path: each.sha256 for each in files} == {
            f"j1.1/out/{name}": hashlib.sha256(data).hexdigest() for name, data in content(mine).items()
        }
        await node.clear("j1.1")
        assert list((agent(server) / "trees").iterdir()) == []


async def test_only_what_changed_is_sent_again(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, sent = project(tmp_path / "project"), list[str]()
    send = Courier._send_file

    async def counted(self: Courier, missing: Missing, pace: Paced | None = None) -> None:
        sent.append(missing.parcel.source.name)
        await send(self, missing, pace)

    monkeypatch.setattr(Courier, "_send_file", counted)
    async with linked(server) as (node, _):
        await node.supply(in_folder("j1.1", mine, "true"))
        assert len(sent) == len(HOSTILE) + 1
        sent.clear()
        (mine / "a b").write_text("another one")
        again = await node.supply(in_folder("j1.2", mine, "true"))
        assert sent == ["a b"]
        assert content(Path(str(again.cwd))) == content(mine)


async def test_what_an_attempt_writes_reaches_no_other_one(server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("as it was")
    async with linked(server) as (node, watch):
        first = await node.supply(in_folder("j1.1", tmp_path, "sh", "-c", "echo changed >config", files=("config",)))
        await node.launch([first])
        await watch.first(Ended)
        second = await node.supply(in_folder("j1.2", tmp_path, "true", files=("config",)))
        assert content(Path(str(second.cwd))) == {"config": b"as it was"}


async def test_a_broken_transfer_goes_on_where_it_broke(server: Sshd, tmp_path: Path) -> None:
    """Both ways: half of the bytes are there already, and are not sent again."""
    data = os.urandom(3 << 20)
    digest = hashlib.sha256(data).hexdigest()
    (tmp_path / "big").write_bytes(data)
    async with linked(server) as (node, _):
        (agent(server) / "partial").mkdir()
        (agent(server) / "partial" / digest).write_bytes(data[: 1 << 20])
        supplied = await node.supply(in_folder("j1.1", tmp_path, "true", files=("big",)))
        assert content(Path(str(supplied.cwd))) == {"big": data}
        wanted = Wanted(
            path="trees/j1.1/big",
            sha256=digest,
            size=len(data),
            target=str(tmp_path / "back" / "big"),
            partial=str(tmp_path / "back" / "part"),
        )
        (tmp_path / "back").mkdir()
        (tmp_path / "back" / "part").write_bytes(data[: 2 << 20])
        courier = await node._courier()
        await courier.get([wanted])
        courier.close()
        assert content(tmp_path / "back") == {"big": data}


async def test_a_damaged_half_is_thrown_away(server: Sshd, tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    digest = hashlib.sha256(data).hexdigest()
    (tmp_path / "big").write_bytes(data)
    async with linked(server) as (node, _):
        (agent(server) / "partial").mkdir()
        (agent(server) / "partial" / digest).write_bytes(b"x" * 1000)
        with pytest.raises(FilesError, match="changed on the way"):
            await node.supply(in_folder("j1.1", tmp_path, "true", files=("big",)))
        supplied = await node.supply(in_folder("j1.1", tmp_path, "true", files=("big",)))
        assert content(Path(str(supplied.cwd))) == {"big": data}
        wanted = Wanted(
            path="trees/j1.1/big",
            sha256=digest,
            size=len(data),
            target=str(tmp_path / "back" / "big"),
            partial=str(tmp_path / "back" / "part"),
        )
        (tmp_path / "back").mkdir()
        (tmp_path / "back" / "part").write_bytes(b"x" * 1000)
        courier = await node._courier()
        with pytest.raises(FilesError, match="its hash is another one"):
            await courier.get([wanted])
        assert list((tmp_path / "back").iterdir()) == []


async def test_what_was_damaged_on_its_way_may_be_fetched_again(server: Sshd) -> None:
    """Half of it lies here, and is not what it was: that says nothing against the attempt."""
    async with linked(server) as (node, watch):
        await node.launch([order("j1.1", "sh", "-c", "printf 'what it left' >out.txt")])
        await watch.first(Ended)
        incoming = server.folder / "incoming" / "j1.1"
        incoming.mkdir(parents=True)
        name = hashlib.sha256(b"attempts/j1.1/out.txt").hexdigest()[:32]
        (incoming / name).write_bytes(b"else")
        with pytest.raises(FilesChanged):
            await node.fetch("j1.1", Fetch(outputs=("out.txt",)), None)
        await node.fetch("j1.1", Fetch(outputs=("out.txt",)), None)
        assert (server.folder / "results" / "j1.1" / "out.txt").read_text() == "what it left"


async def test_connections_for_files_end_with_the_one_they_belong_to(server: Sshd) -> None:
    async with linked(server) as (node, watch):
        courier = await node._courier()
        await courier.keep([])
        node._open_channel().close()
        await watch.broken()
        again = Watch(node)
        await again.first(LinkUp)
        with pytest.raises(LinkLost):
            await courier.keep([])


async def test_a_file_that_changes_while_it_is_sent_is_not_taken_for_the_old_one(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").write_bytes(b"old " * 1000)
    send = Courier.send

    async def late(self: Courier, missing: list[Missing]) -> None:
        (tmp_path / "code").write_bytes(b"new " * 1000)
        await send(self, missing)

    monkeypatch.setattr(Courier, "send", late)
    async with linked(server) as (node, _):
        with pytest.raises(FilesError, match="changed"):
            await node.supply(in_folder("j1.1", tmp_path, "true", files=("code",)))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("../../escape", "no path below"),
        pytest.param("/etc/passwd", "no path below", marks=pytest.mark.long),
        pytest.param("a/../../b", "no path below", marks=pytest.mark.long),
    ],
)
async def test_a_node_cannot_have_files_put_elsewhere(
    server: Sshd, told: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lying(self: Courier, attempt: str, patterns: list[str]) -> Outputs:
        return Outputs("attempts/j1.1", [(told, 1)], (), 0)

    monkeypatch.setattr(Courier, "outputs", lying)
    async with linked(server) as (node, _):
        with pytest.raises(FilesError, match=words):
            await node.fetch("j1.1", Fetch(outputs=("*",)), None)


async def test_nothing_outside_of_the_agents_folder_is_handed_out(server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    async with linked(server) as (node, watch):
        await node.launch([order("j1.1", "ln", "-s", str(tmp_path / "secret"), "link")])
        await watch.first(Ended)
        with pytest.raises(FilesError, match="left no file"):
            await node.fetch("j1.1", Fetch(outputs=("link",)), None)
        for path in ("attempts/j1.1/link", "../secret", "/etc/passwd"):
            courier = await node._courier()
            with pytest.raises((FilesError, LinkLost)):
                await courier.get(
                    [Wanted(path=path, sha256="0" * 64, size=1, target=f"{tmp_path}/got", partial=f"{tmp_path}/part")]
                )


async def test_what_was_asked_for_and_is_not_there_is_said(server: Sshd, tmp_path: Path) -> None:
    async with linked(server) as (node, watch):
        await node.launch([order("j1.1", "true")])
        await watch.first(Ended)
        with pytest.raises(FilesError, match=r"left no file that `outputs: \*.csv` means"):
            await node.fetch("j1.1", Fetch(outputs=("*.csv",)), None)
        with pytest.raises(FilesError, match="not among the artifacts"):
            await node.fetch("j1.1", Fetch(artifacts=("ab" * 32,)), None)
        with pytest.raises(FilesError, match="is no folder"):
            await node.supply(in_folder("j2.1", tmp_path / "nowhere", "true"))


async def test_artifacts_go_there_and_come_back(server: Sshd) -> None:
    mine = server.folder / "artifacts" / "objects"
    digests = [hashlib.sha256(data).hexdigest() for data in (b"model", b"segment")]
    (mine / digests[0][:2]).mkdir(parents=True)
    (mine / digests[0][:2] / f"{digests[0]}.safetensors").write_bytes(b"model")
    async with linked(server) as (node, _):
        asked = replace(order("j1.1", "true"), inputs={"player": f"gumbel-64@{digests[0]}", "other": "ff" * 32})
        supplied = await node.supply(asked)
        theirs = Path(supplied.env["HOSTLER_ARTIFACTS"]) / "objects"
        assert content(theirs) == {f"{digests[0][:2]}/{digests[0]}.safetensors": b"model"}
        (theirs / digests[1][:2]).mkdir(exist_ok=True)
        (theirs / digests[1][:2] / f"{digests[1]}.segment.npz").write_bytes(b"segment")
        (found,) = await node.fetch("j1.1", Fetch(artifacts=(digests[1],)), None)
        assert (server.folder / "artifacts" / found.path).read_bytes() == b"segment"
        (theirs / digests[1][:2] / f"{digests[1]}.segment.npz").write_bytes(b"damaged")
        (server.folder / "artifacts" / found.path).unlink()
        with pytest.raises(FilesError, match="its hash is another one"):
            await node.fetch("j1.1", Fetch(artifacts=(digests[1],)), None)


async def test_hostlers_own_programs_go_along(server: Sshd) -> None:
    """Without `hostler` on the node: an isolated Python that knows nothing but what was sent."""
    argv = ("python3", "-c", "import importlib, sys; print(importlib.import_module(sys.argv[1]).__file__)", OWN)
    async with linked(server) as (node, watch):
        supplied = await node.supply(order("j1.1", *argv))
        assert "PYTHONPATH" in supplied.env
        await node.launch([supplied])
        assert (await watch.first(Ended)).exit_code == 0
        said = (await node.read_log("j1.1", "out", 0, 1000)).data.decode()
        assert said.startswith(f"{agent(server)}/trees/shared-")
        assert "PYTHONPATH" not in (await node.supply(order("j2.1", "true"))).env


async def test_a_worker_whose_folder_is_not_there_is_refused(server: Sshd, tmp_path: Path) -> None:
    worker = worker_in(tmp_path / "nowhere")
    async with linked(server) as (node, _):
        (refused,) = await node.lend(worker, [ChunkOrder(id="j1.1", start=0, stop=1)])
        assert (refused.worker, "is no folder" in refused.error) == ("w-j1-far-cpu0", True)


async def test_what_is_left_of_others_is_tidied_up(server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "code").touch()
    async with linked(server) as (node, _):
        for name in ("j1.1", "j2.1"):
            await node.supply(in_folder(name, tmp_path, "true", files=("code",)))
        long_ago, trees, blobs = time.time() - 100 * 86400, agent(server) / "trees", agent(server) / "blobs"
        for name in ("shared-old", "shared-new"):
            (trees / name).mkdir()
        (blob,) = (path for path in blobs.rglob("*") if path.is_file())
        for path in (trees / "shared-old", blob):
            os.utime(path, (long_ago, long_ago))
        await node.keep(["j2.1"], [])
        assert sorted(path.name for path in trees.iterdir()) == ["j2.1", "shared-new"]
        assert not blob.exists()
        assert Path(str((await node.supply(in_folder("j3.1", tmp_path, "true", files=("code",)))).cwd)).is_dir()  # noqa: ASYNC240


async def test_files_take_another_way_where_sockets_are_not_forwarded(tmp_path: Path) -> None:
    (tmp_path / "code").write_text("code")
    with sshd.running(tmp_path / "strict", "AllowStreamLocalForwarding no") as server:
        async with linked(server) as (node, _):
            supplied = await node.supply(in_folder("j1.1", tmp_path, "true", files=("code",)))
            assert content(Path(str(supplied.cwd))) == {"code": b"code"}


async def test_a_full_disk_is_said_and_leaves_the_connection_of_use(server: Sshd, tmp_path: Path) -> None:
    """A file system of a mebibyte takes the place of where files arrive."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    (tmp_path / "big").write_bytes(os.urandom(2 << 20))
    (tmp_path / "small").write_text("small")
    small = agent(server) / "partial"
    async with linked(server) as (node, _):
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=False).returncode != 0:  # noqa: ASYNC221
            pytest.skip("no file system can be mounted here")
        try:
            with pytest.raises(FilesError, match="No space left"):
                await node.supply(in_folder("j1.1", tmp_path, "true", files=("big",)))
            assert list(small.iterdir()) == []
        finally:
            subprocess.run(["umount", small], check=True)  # noqa: ASYNC221
        await node.supply(in_folder("j1.2", tmp_path, "true", files=("small",)))


@pytest.mark.long
async def test_attempts_that_start_together_do_not_stand_in_each_others_way(server: Sshd, tmp_path: Path) -> None:
    """The same new files, the same new program, the same new model, for all of them at once."""
    for at in range(20):
        (tmp_path / f"{at}.bin").write_bytes(os.urandom(200_000))
    model = os.urandom(3 << 20)
    name = hashlib.sha256(model).hexdigest()
    place = server.folder / "artifacts" / "objects" / name[:2] / f"{name}.safetensors"
    place.parent.mkdir(parents=True)
    place.write_bytes(model)
    orders = [
        replace(in_folder(f"j{at}.1", tmp_path, "python3", "-c", OWN, files=("*.bin",)), inputs={"model": name})
        for at in range(5)
    ]
    async with linked(server) as (node, _):
        supplied = await asyncio.gather(*(node.supply(each) for each in orders))
        for each in supplied:
            assert len(content(Path(str(each.cwd)))) == 20
        (library,) = {each.env["PYTHONPATH"] for each in supplied}
        assert await asyncio.to_thread(Path(library).joinpath("hostler", "workloads").is_dir)


@pytest.mark.long
async def test_two_connections_may_bring_the_same_file(server: Sshd, tmp_path: Path) -> None:
    """As after a reconnect, while the old connection is not known to be dead."""
    (tmp_path / "big").write_bytes(os.urandom(8 << 20))
    async with linked(server) as (node, _):
        digest = hashlib.sha256((tmp_path / "big").read_bytes()).hexdigest()
        parcel = Parcel(source=tmp_path / "big", path=f"blobs/{digest[:2]}/{digest}", size=8 << 20, sha256=digest)
        couriers = [await node._courier() for _ in range(4)]
        await asyncio.gather(*(courier.put([parcel]) for courier in couriers))
        for courier in couriers:
            courier.close()
        blob = agent(server) / "blobs" / digest[:2] / digest
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == digest
        assert list((agent(server) / "partial").iterdir()) == []


async def test_one_artifact_may_be_fetched_by_several_at_once(server: Sshd) -> None:
    data = os.urandom(8 << 20)
    name = hashlib.sha256(data).hexdigest()
    async with linked(server) as (node, _):
        theirs = agent(server) / "artifacts" / "objects" / name[:2]
        theirs.mkdir(parents=True)
        (theirs / f"{name}.segment.npz").write_bytes(data)
        found = await asyncio.gather(*(node.fetch(f"j{at}.1", Fetch(artifacts=(name,)), None) for at in range(3)))
        assert len(set(found)) == 1
        assert (server.folder / "artifacts" / found[0][0].path).read_bytes() == data
        assert list((server.folder / "incoming").iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "artifacts/objects/{other}/{other_sha}.pt",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("artifacts/x", "../{sha}", "/etc/{sha}")),
    ],
)
async def test_a_node_cannot_put_one_artifact_in_the_place_of_another(
    server: Sshd, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha, other = "ab" * 32, "cd" * 32
    told = path.format(sha=sha, other=other[:2], other_sha=other)

    async def lying(self: Courier, names: list[str]) -> dict[str, tuple[str, int]]:
        return {sha: (told, 1)}

    monkeypatch.setattr(Courier, "find", lying)
    async with linked(server) as (node, _):
        with pytest.raises(FilesError, match="no place for it"):
            await node.fetch("j1.1", Fetch(artifacts=(sha,)), None)


async def test_names_alike_in_any_way_stay_apart(server: Sshd) -> None:
    """These two have the same CRC-32; and one is called as something that is on its way might be."""
    names = ("plumless", "buckeroo", ".4ddb0c25.partial")
    async with linked(server) as (node, watch):
        await node.launch([order("j1.1", "sh", "-c", "for each in $0 $@; do echo $each > $each; done", *names)])
        await watch.first(Ended)
        await node.fetch("j1.1", Fetch(outputs=("*",)), None)
        results = server.folder / "results" / "j1.1"
        assert {name: (results / name).read_text() for name in names} == {name: f"{name}\n" for name in names}


async def test_what_has_come_already_needs_no_room_again(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a large file that broke off would be in its own way for ever."""
    data, store = os.urandom(3 << 20), store_of(server)
    room = shutil.disk_usage(tmp_path)._replace(free=RESERVE.bytes + (2 << 20))
    async with linked(server) as (node, watch):
        await node.launch([order("j1.1", "sh", "-c", "sleep 0")])
        await watch.first(Ended)
        (agent(server) / "attempts" / "j1.1" / "big").write_bytes(data)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
        with pytest.raises(OSError, match="no room"):
            await node.fetch("j1.1", Fetch(outputs=("big",)), None)
        incoming = store.incoming("j1.1")
        incoming.mkdir(parents=True)
        wanted = carrier._wanted("attempts/j1.1/big", len(data), str(tmp_path), "big", incoming)
        (incoming / Path(wanted.partial).name).write_bytes(data[: 2 << 20])
        await node.fetch("j1.1", Fetch(outputs=("big",)), None)
        assert (store.results / "j1.1" / "big").read_bytes() == data


@pytest.mark.parametrize("ending", ["given up", pytest.param("cleared", marks=pytest.mark.long)])
async def test_what_came_of_files_that_nobody_waits_for_is_deleted(
    server: Sshd, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    incoming = store_of(server).incoming("j1.1")
    incoming.mkdir(parents=True)
    (incoming / "part").touch()
    async with linked(server) as (node, watch):
        if ending == "cleared":
            await node.clear("j1.1")
        else:
            await node.launch([order("j1.1", "true")])
            await watch.first(Ended)
            with pytest.raises(FilesError):
                await node.fetch("j1.1", Fetch(outputs=("nothing",)), None)
        assert not incoming.exists()


async def test_a_worker_whose_files_come_and_go_starts_all_the_same(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What editors keep for a moment is gone when it is to be sent."""
    (tmp_path / "code").write_text("code")
    (tmp_path / "code.swp").write_text("for a moment")
    send = Courier.send

    async def late(self: Courier, missing: list[Missing]) -> None:
        (tmp_path / "code.swp").unlink(missing_ok=True)
        await send(self, missing)

    monkeypatch.setattr(Courier, "send", late)
    worker = worker_in(tmp_path, "code*")
    async with linked(server) as (node, _):
        assert list(await node.lend(worker, [ChunkOrder(id="j1.1", start=0, stop=1)])) == []
        (tree,) = (agent(server) / "trees").glob("shared-*")
        assert content(tree) == {"code": b"code"}


async def test_a_worker_that_cannot_be_brought_there_is_refused_whatever_it_is(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lying(self: Courier, parcels: list[Parcel]) -> list[Missing]:
        raise KeyError("missing")

    (tmp_path / "code").touch()
    monkeypatch.setattr(Courier, "missing", lying)
    worker = worker_in(tmp_path, "code")
    async with linked(server) as (node, _):
        (refused,) = await node.lend(worker, [ChunkOrder(id="j1.1", start=0, stop=1)])
        assert "KeyError" in refused.error


async def test_nothing_is_sent_any_more_for_what_is_cancelled(server: Sshd, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(os.urandom(1 << 20))
    async with linked(server) as (node, _):
        courier = await node._courier()
        full = asyncio.Event()

        async def stuck(data: bytes) -> None:
            full.set()
            await asyncio.Event().wait()

        courier._write = stuck  # type: ignore[method-assign]
        parcel = Parcel(source=tmp_path / "big", path="blobs/aa/" + "a" * 64, size=1 << 20, sha256="a" * 64)
        before = asyncio.all_tasks()
        sending = asyncio.create_task(courier.send([Missing(parcel=parcel, offset=0)]))
        await full.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before


def worker_from(snapshot: str, device: str = "cpu0") -> WorkerOrder:
    return replace(
        worker_in(Path()), id=f"w-j1-far-{device}", queue=device, cwd=None, files=None, snapshot=snapshot, sweep="j1"
    )


async def test_workers_of_a_sweep_share_one_folder_with_its_snapshot(server: Sshd, tmp_path: Path) -> None:
    mine = project(tmp_path / "project")
    digest, chunk = kept(store_of(server).snapshots, mine), ChunkOrder(id="j1.1", start=0, stop=1)
    files = content(mine)
    (mine / "new").touch()
    tree = agent(server) / "trees" / "j1"
    async with linked(server) as (node, _):
        assert list(await node.lend(worker_from(digest), [chunk])) == []
        assert content(tree) == files
        (tree / "cache").touch()
        assert list(await node.lend(worker_from(digest, "cpu1"), [replace(chunk, id="j1.2")])) == []
        await node.keep([], ["j1"])
        assert content(tree) == {**files, "cache": b""}, "the second worker found the folder as the first had left it"
        await node.clear("j1")
        assert list((agent(server) / "trees").iterdir()) == []
        await node.close_worker("w-j1-far-cpu0")
        assert list(await node.lend(worker_from(digest), [replace(chunk, id="j1.3")])) == []
        assert content(tree) == files, "a sweep that is retried has its folder again"


async def test_worker_whose_snapshot_is_gone_is_refused(server: Sshd) -> None:
    async with linked(server) as (node, _):
        (refused,) = await node.lend(worker_from("ab" * 32), [ChunkOrder(id="j1.1", start=0, stop=1)])
        assert (refused.worker, "is not kept any more" in refused.error) == ("w-j1-far-cpu0", True)
