"""What a writer who was killed has left is deleted by the next one, and what somebody writes is not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hostler.model.errors import FilesError
from hostler.stores import hashing


def killed(target: Path) -> None:
    """A process is killed while it has half of a file."""
    child = os.fork()
    if child == 0:
        try:
            with hashing.appearing(target) as file:
                file.write(b"ga")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)  # an error must not end as another run of all tests
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("other", ["games", "others"])
def test_what_is_left_of_a_dead_writer_goes_with_the_next_file(tmp_path: Path, other: str) -> None:
    killed(tmp_path / other)
    (left,) = names(tmp_path)
    assert left.startswith(f".{other}.appearing.")
    with hashing.appearing(tmp_path / "games") as file:
        file.write(b"games")
    assert names(tmp_path) == ["games"]


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    with hashing.appearing(tmp_path / "one") as one:
        with hashing.appearing(tmp_path / "two") as two:
            two.write(b"two")
        one.write(b"one")
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"one", b"two"]


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    """Stages of this machine publish into the same folders."""
    strangers = [".games.appearing.tmp", ".games.somewhere.123.tmp", "games.appearing.0123456789abcdef.tmp"]
    for name in strangers:
        (tmp_path / name).write_bytes(b"ga")
    with hashing.appearing(tmp_path / "zzz") as file:
        file.write(b"games")
    assert names(tmp_path) == sorted([*strangers, "zzz"])


def test_one_that_was_swept_before_it_had_its_lock_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, tries = hashing._lock, []

    def late(file: object, how: int) -> bool:
        tries.append(how)
        if len(tries) == 1:
            hashing._sweep(tmp_path)
        return lock(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr(hashing, "_lock", late)
    with hashing.appearing(tmp_path / "games") as file:
        file.write(b"games")
    assert (tmp_path / "games").read_bytes() == b"games"
    assert names(tmp_path) == ["games"]


def test_nothing_is_left_where_there_was_an_error(tmp_path: Path) -> None:
    (tmp_path / "games").mkdir()  # nothing can be renamed over it
    with pytest.raises(FilesError, match="games cannot be written"), hashing.appearing(tmp_path / "games") as file:
        file.write(b"games")
    assert names(tmp_path) == ["games"]
