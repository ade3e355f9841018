"""Files to and from a node, by the words that are spoken: what cannot be done is said, and ends nothing else."""

from __future__ import annotations

import builtins
import errno
import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent import contents, files
from hostler.agent.files import Files
from hostler.agent.removal import remove
from hostler.backends import carrier
from hostler.model.artifacts import SUFFIXES

from .harness import PATIENCE_S, SOURCE, Json

LARGE = os.urandom(700_000)
ABC = hashlib.sha256(b"abc").hexdigest()
REST = {"op": "find", "sha256": []}
FOUND: Json = {"found": {}}


def said(root: Path, *requests: Json | bytes) -> bytes:
    """All that is answered to these requests."""
    output = io.BytesIO()
    Files(str(root), io.BytesIO(spoken(*requests)), output).serve()
    return output.getvalue()


def answers(root: Path, *requests: Json | bytes) -> list[Json]:
    return [json.loads(each) for each in said(root, *requests).splitlines()]


def spoken(*requests: Json | bytes) -> bytes:
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in requests)


class Failing(io.FileIO):
    """A file that cannot be read behind its first bytes, as on a disk with a bad block."""

    good = 0

    def read(self, size: int | None = -1) -> Any:
        if self.tell() + (size or 0) > self.good:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(size)


@pytest.fixture
def bad_block(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Failing]]:
    """Files that are called `bad` are of that kind."""
    read = os.read

    def is_bad(descriptor: int) -> bool:
        return contents.called(descriptor).endswith("/bad")

    def opened(descriptor: int, *others: Any, **more: Any) -> Any:
        return Failing(descriptor, closefd=False) if is_bad(descriptor) else builtins.open(descriptor, *others, **more)

    def read_at_once(descriptor: int, size: int) -> bytes:
        if is_bad(descriptor):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(descriptor, size)

    monkeypatch.setattr(contents, "open", opened, raising=False)
    monkeypatch.setattr(os, "read", read_at_once)
    return Failing


def test_artifacts_of_every_kind_are_found_by_their_hashes(tmp_path: Path) -> None:
    assert set(files.ENDINGS) == set(SUFFIXES.values())  # the agent cannot import it: it stands alone
    kept = {}
    for ending in files.ENDINGS:
        digest = hashlib.sha256(ending.encode()).hexdigest()
        path = tmp_path / f"artifacts/objects/{digest[:2]}/{digest}{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ending)
        kept[digest] = [str(path.relative_to(tmp_path)), len(ending)]

    assert answers(tmp_path, {"op": "find", "sha256": [*kept, "f" * 64]}) == [{"found": kept}]


def test_a_file_that_cannot_be_read_to_its_end_ends_the_connection(
    tmp_path: Path, bad_block: type[Failing], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line would be taken for bytes of the file, and what is missing of it be waited for."""
    (tmp_path / "bad").write_bytes(LARGE)
    monkeypatch.setattr(bad_block, "good", 1 << 18)
    monkeypatch.setattr(contents, "COPY_BYTES", 1 << 17)
    output = io.BytesIO()
    request = spoken({"op": "get", "files": [["bad", 0]]}, REST)
    with pytest.raises(BrokenPipeError, match="Input/output error"):
        Files(str(tmp_path), io.BytesIO(request), output).serve()
    head, _, data = output.getvalue().partition(b"\n")
    assert json.loads(head) == {"size": len(LARGE), "offset": 0}
    assert data == LARGE[: 1 << 18]


def test_a_small_file_that_cannot_be_read_is_told_of_and_the_next_one_comes(
    tmp_path: Path, bad_block: type[Failing]
) -> None:
    (tmp_path / "bad").write_bytes(b"no")
    (tmp_path / "good").write_bytes(b"yes\n")
    request: Json = {"op": "get", "files": [["bad", 0], ["nowhere", 0], ["good", 0]]}
    failed, missing, head, data, rest = said(tmp_path, request, REST).splitlines()
    assert "Input/output error" in json.loads(failed)["error"]
    assert "No such file" in json.loads(missing)["error"]
    assert json.loads(head) == {"size": 4, "offset": 0, "sha256": hashlib.sha256(b"yes\n").hexdigest()}
    assert (data, json.loads(rest)) == (b"yes", FOUND)


def test_a_line_that_cannot_be_written_ends_the_connection(tmp_path: Path) -> None:
    class Gone(io.BytesIO):
        def write(self, _data: Any) -> int:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    (tmp_path / "good").write_bytes(b"yes\n")
    with pytest.raises(OSError, match="timed out"):
        Files(str(tmp_path), io.BytesIO(spoken({"op": "get", "files": [["good", 0]]})), Gone()).serve()


@pytest.mark.usefixtures("bad_block")
def test_the_head_of_a_resumed_file_comes_before_what_lies_before_is_read(tmp_path: Path) -> None:
    """Reading that takes minutes, and who waits for a word gives up meanwhile."""
    (tmp_path / "bad").write_bytes(LARGE)
    flushed: list[bytes] = []

    class Output(io.BytesIO):
        def flush(self) -> None:
            flushed.append(self.getvalue())

    request = spoken({"op": "get", "files": [["bad", 500_000]]})
    with pytest.raises(BrokenPipeError):
        Files(str(tmp_path), io.BytesIO(request), Output()).serve()
    assert json.loads(flushed[0]) == {"size": len(LARGE), "offset": 500_000}


def test_a_resumed_file_is_hashed_whole(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(LARGE)
    head, _, rest = said(tmp_path, {"op": "get", "files": [["good", 500_000]]}).partition(b"\n")
    assert json.loads(head) == {"size": len(LARGE), "offset": 500_000}
    assert rest[:200_000] == LARGE[500_000:]
    assert json.loads(rest[200_000:]) == {"sha256": hashlib.sha256(LARGE).hexdigest()}


def outputs(attempt: str, *patterns: str) -> Json:
    return {"op": "outputs", "attempt": attempt, "patterns": patterns}


def test_outputs_are_told_of_in_order(tmp_path: Path) -> None:
    names = ["a", "a b", "a.d/x", "b/c/d", "b/c.txt", "b0", "é"]
    for name in names:
        path = tmp_path / "trees" / "j1.1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "trees" / "j1.1" / "link").symlink_to("a")
    [answer] = answers(tmp_path, outputs("j1.1", "**"))
    in_order = ["a", "a b", "a.d/x", "b/c/d", "b/c.txt", "b0", "é"]
    files = [[name, len(name.encode())] for name in in_order]
    assert answer == {"folder": "trees/j1.1", "files": files, "links": ["link"], "links_count": 1}


def test_outputs_below_many_folders_come(tmp_path: Path, deep: Callable[[Path, int, str], None]) -> None:
    deep(tmp_path / "trees" / "j1.1", 1500, "d")
    name = "d/" * 1500 + "file"
    got = answers(tmp_path, outputs("j1.1", "**"), {"op": "get", "files": [["trees/j1.1/" + name, 0]]}, REST)
    assert got[0] == {"folder": "trees/j1.1", "files": [[name, 0]], "links": [], "links_count": 0}
    assert (got[1]["size"], got[2]) == (0, FOUND)


def test_outputs_below_folders_whose_path_is_too_long_are_an_error(
    tmp_path: Path, deep: Callable[[Path, int, str], None]
) -> None:
    deep(tmp_path / "trees" / "j1.1", 40, "d" * 200)
    told, rest = answers(tmp_path, outputs("j1.1", "**"), REST)
    assert "name too long" in told["error"]
    assert rest == FOUND
    assert answers(tmp_path, {"op": "clear", "tree": "j1.1"}) == [{"ok": True}]
    assert os.listdir(tmp_path / "trees") == []


def test_a_name_that_the_system_cannot_hold_is_an_error_and_ends_nothing(tmp_path: Path) -> None:
    name, data = "\ud800", b"7\n"
    digest = hashlib.sha256(data).hexdigest()
    blob = f"blobs/{digest[:2]}/{digest}"
    put = {"op": "put", "sha256": digest, "size": len(data), "offset": 0}
    listed = [["good", digest, False], [name, digest, False]]
    got = answers(
        tmp_path,
        {**put, "path": blob},
        data,
        {**put, "path": f"artifacts/objects/{digest[:2]}/{digest}{name}"},
        data,
        {"op": "missing", "files": {digest: blob + name}},
        {"op": "lay", "tree": "j1.1", "files": listed, "shared": False},
        {"op": "get", "files": [[name, 0], [blob, 0]]},
    )
    assert got[0] == {"ok": True}
    assert ["surrogates not allowed" in each["error"] for each in got[1:5]] == [True] * 4
    assert got[5]["sha256"] == digest
    assert os.listdir(tmp_path / "trees") == []


def test_shared_folder_with_none_of_its_files_is_laid_out_again(tmp_path: Path) -> None:
    """A Python that is still ending makes the folder of its caches again after the deletion."""
    digest = hashlib.sha256(b"print(1)").hexdigest()
    put = {"op": "put", "sha256": digest, "path": f"blobs/{digest[:2]}/{digest}", "size": 8, "offset": 0}
    lay = {"op": "lay", "tree": "j1", "files": [["search.py", digest, False]], "shared": True}
    answers(tmp_path, put, b"print(1)", lay, {"op": "clear", "tree": "j1"})
    cache = tmp_path / "trees/j1/__pycache__"
    cache.mkdir(parents=True)
    answers(tmp_path, lay)
    assert (tmp_path / "trees/j1/search.py").read_text() == "print(1)"
    assert not cache.exists()
    cache.mkdir()
    answers(tmp_path, lay)
    assert cache.exists(), "a folder in use stays as it is"


def test_a_put_that_cannot_be_understood_ends_the_connection_before_its_bytes(tmp_path: Path) -> None:
    put = {"op": "put", "sha256": "0" * 64, "path": "journal.jsonl", "size": 1000, "offset": 0}
    [told] = answers(tmp_path, put, b"too few bytes")
    assert "is no place for" in told["error"]
    [told] = answers(tmp_path, {**put, "size": "many"}, REST)
    assert "size must be an integer" in told["error"]


@pytest.mark.parametrize("number", [10**20, -(10**20), 1 << 63, 10**4000])
@pytest.mark.parametrize(
    ("op", "field"),
    [
        ({"op": "put", "sha256": ABC, "path": f"blobs/{ABC[:2]}/{ABC}", "size": 3, "offset": 0}, "offset"),
        ({"op": "put", "sha256": ABC, "path": f"blobs/{ABC[:2]}/{ABC}", "size": 3, "offset": 0}, "size"),
        ({"op": "stock", "after": "", "limit": 10}, "limit"),
        ({"op": "drop", "names": [], "unused_s": 0}, "unused_s"),
    ],
)
def test_number_too_large_for_the_system_is_refused(tmp_path: Path, op: Json, field: str, number: int) -> None:
    (told,) = answers(tmp_path, {**op, field: number}, b"abc")
    assert f"{field} must be" in told["error"]
    assert len(told["error"]) < 300


def test_offset_too_large_for_the_system_is_refused(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/x").write_bytes(LARGE)
    (told,) = answers(tmp_path, {"op": "get", "files": [["blobs/x", 10**20]]})
    assert "offset must be" in told["error"]


def test_what_cannot_be_deleted_keeps_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk would be full one day of what lies behind one folder that is another's."""

    def refused(folder: str) -> None:
        if folder.endswith("j2.1"):
            raise PermissionError(errno.EPERM, "not allowed", folder)
        remove(folder)

    monkeypatch.setattr(files, "remove", refused)
    for name in ("trees/j1.1/a", "trees/j2.1/a", "trees/j3.1/a", "trees/j4.1/a", "blobs/aa/old", "partial/old"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    [told] = answers(tmp_path, {"op": "keep", "trees": ["j4.1"]})
    assert "not allowed" in told["error"]
    left = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert left == ["trees/j2.1/a", "trees/j4.1/a"]


def test_tree_that_is_being_laid_out_is_kept_as_the_tree_that_it_becomes(tmp_path: Path) -> None:
    """Another connection writes into it meanwhile, under the name with its process in it."""
    made = ("j1.1.10224.new", "sweep.7.new", "j2.1.10224.new", "j3.1.new", "j1.1.x.new", "j1.10224.new")
    for name in made:
        (tmp_path / "trees" / name).mkdir(parents=True)
    assert answers(tmp_path, {"op": "keep", "trees": ["j1.1", "sweep", "j3.1.new"]}) == [{"ok": True}]
    assert {path.name for path in (tmp_path / "trees").iterdir()} == {"j1.1.10224.new", "sweep.7.new", "j3.1.new"}


def test_too_many_outputs_are_an_error_that_comes_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their line would be longer than the controller reads, and it would ask for ever."""
    (tmp_path / "trees" / "j1.1").mkdir(parents=True)
    (tmp_path / "trees" / "j1.1" / "a").touch()
    monkeypatch.setattr(files, "walk", lambda _, links: itertools.repeat("a"))
    told = {"error": "it left more than 20000 files; pack them into one"}
    assert answers(tmp_path, outputs("j1.1", "**"), REST) == [told, FOUND]
    monkeypatch.setattr(files, "walk", lambda _, links: itertools.chain(["b"] * 100_000, ["a"] * carrier.OUTPUTS_MAX))
    [answer] = answers(tmp_path, outputs("j1.1", "a"))
    assert len(answer["files"]) == 20_000


def test_an_answer_that_nobody_would_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trees" / "j1.1").mkdir(parents=True)
    (tmp_path / "trees" / "j1.1" / "a").touch()
    monkeypatch.setattr(files, "_LONGEST_ANSWER", 75)
    told, rest = answers(tmp_path, outputs("j1.1", "**"), REST)
    assert (told["folder"], rest) == ("trees/j1.1", FOUND)
    (tmp_path / "trees" / "j1.1" / "another").touch()
    told, rest = answers(tmp_path, outputs("j1.1", "**"), REST)
    assert "pack the files into one" in told["error"]
    assert rest == FOUND


def test_a_partial_file_that_somebody_has_just_published_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by four connections that brought the same file: it lost its name between two looks at it."""
    path, stat, gone = str(tmp_path / "partial"), os.stat, [True]

    def published(asked: Any, *others: Any, **more: Any) -> Any:
        if asked == path and gone and gone.pop():
            os.unlink(path)
        return stat(asked, *others, **more)

    monkeypatch.setattr(os, "stat", published)
    with files._locked(path) as output:
        assert os.path.samestat(os.fstat(output.fileno()), stat(path))


OPENING: Json = {"type": "files", "protocol": 1, "epoch": 7}


def served(root: Path, *requests: Json | bytes) -> tuple[int, list[Json]]:
    """The exit status of a process that serves a folder that nobody's agent has, and what it says."""
    command = [sys.executable, "-S", "-m", "hostler.agent.files", "serve", str(root)]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, input=spoken(*requests), env=env, capture_output=True, timeout=PATIENCE_S)
    return done.returncode, [json.loads(each) for each in done.stdout.splitlines()]


def test_a_folder_without_an_agent_is_served(tmp_path: Path) -> None:
    data = b"a blob\n"
    digest = hashlib.sha256(data).hexdigest()
    blob = f"blobs/{digest[:2]}/{digest}"
    (tmp_path / "attempts" / "j1.1").mkdir(parents=True)
    (tmp_path / "attempts" / "j1.1" / "a.csv").write_text("1")
    status, said = served(
        tmp_path,
        OPENING,
        {"op": "put", "path": blob, "sha256": digest, "size": len(data), "offset": 0},
        data,
        {"op": "lay", "tree": "j2.1", "files": [["b", digest, False]], "shared": False},
        outputs("j1.1", "*.csv"),
        outputs("j2.1", "*"),
    )
    assert status == 0
    assert said == [
        {"type": "hello", "protocol": 1},
        {"ok": True},
        {"path": f"{tmp_path}/trees/j2.1"},
        {"folder": "attempts/j1.1", "files": [["a.csv", 1]], "links": [], "links_count": 0},
        {"folder": "trees/j2.1", "files": [["b", len(data)]], "links": [], "links_count": 0},
    ]


def test_who_does_not_open_as_expected_is_refused(tmp_path: Path) -> None:
    for root, opening in ((tmp_path, {**OPENING, "protocol": 2}), (tmp_path, b"hello\n"), (tmp_path / "no", OPENING)):
        status, [said] = served(root, opening, REST)
        assert (status, said["type"]) == (1, "refused")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EIO])
def test_a_file_system_without_locks_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def flock(_fd: int, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    data = b"7"
    digest = hashlib.sha256(data).hexdigest()
    put = {"op": "put", "path": f"blobs/{digest[:2]}/{digest}", "sha256": digest, "size": 1, "offset": 0}
    [said] = answers(tmp_path, put, data)
    assert said == ({"ok": True} if number != errno.EIO else {"error": os.strerror(number)})


def test_a_pipe_is_no_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    failed, linked = answers(tmp_path, {"op": "get", "files": [["pipe", 0], ["link", 0]]})
    assert "no regular file" in failed["error"]
    assert "no regular file" in linked["error"]
