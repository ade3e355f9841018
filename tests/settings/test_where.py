"""The state directory by default."""

from pathlib import Path

import pytest

from hostler.settings.where import state_dir


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOSTLER_STATE_DIR": "/a/b", "XDG_STATE_HOME": "/x"}, "/a/b"),
        ({"HOSTLER_STATE_DIR": "", "XDG_STATE_HOME": "/x"}, "/x/hostler"),
        ({"HOME": "/home/x"}, "/home/x/.local/state/hostler"),
    ],
)
def test_comes_from_the_environment(environ: dict[str, str], expected: str) -> None:
    assert state_dir(environ) == Path(expected)


def test_relative_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert state_dir({"HOSTLER_STATE_DIR": "mine"}) == tmp_path / "mine"
    assert state_dir({"XDG_STATE_HOME": "ignored"}).is_absolute()
