"""Settings: tried, chosen, kept, and forgotten when they cannot be read."""

import json
from pathlib import Path

import pytest

from hostler.workloads.sieve.opencl.tuning import ENOUGH_S, FILE, Kept, Setting, Tuned, folder, settings, tuned

ONE, TWO = Tuned(64, 8, 1e6), Tuned(128, 1, 2e9)


def test_the_fastest_setting_is_chosen() -> None:
    calls: list[int] = []

    def timed(setting: Setting, count: int) -> float:
        calls.append(count)
        return count * 1e-6 / (2 if setting == Setting(128, 8) else 1)

    best = tuned(settings(True, 1024), timed)
    assert best.setting == Setting(128, 8)
    assert best.rate == pytest.approx(2e6)
    assert max(calls) * 1e-6 >= ENOUGH_S


def test_no_group_is_larger_than_the_device_takes() -> None:
    assert {setting.local for setting in settings(True, 100)} == {64, 100}
    assert {setting.local for setting in settings(False, 1)} == {1}


def test_a_device_too_fast_to_be_measured_ends_as_well() -> None:
    assert tuned(settings(True, 256), lambda setting, count: 0.0).rate > 0


def test_measurements_are_kept_beside_each_other(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "deep" / "folder")
    assert kept.get("one") is None
    kept.put("one", ONE)
    kept.put("two", TWO)
    assert (kept.get("one"), kept.get("two"), kept.get("three")) == (ONE, TWO, None)
    assert [path.name for path in kept.folder.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"schema": 2, "tuned": {}}',
        b'{"schema": 1, "tuned": []}',
        b'{"schema": 1, "tuned": {"one": 5}}',
        b'{"schema": 1, "tuned": {"one": {"local": 64}}}',
        b'{"schema": 1, "tuned": {"one": {"local": 0, "each": 8, "rate": 1}}}',
        b'{"schema": 1, "tuned": {"one": {"local": "a", "each": 8, "rate": 1}}}',
        b'{"schema": 1, "tuned": {"one": {"local": 1, "each": 8, "rate": Infinity}}}',
    ],
)
def test_a_file_that_says_nothing_is_measured_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    kept = Kept(tmp_path)
    assert kept.get("one") is None
    kept.put("one", ONE)
    assert kept.get("one") == ONE
    json.loads((tmp_path / FILE).read_text())


def test_a_folder_that_takes_no_files_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    Kept(tmp_path / "file" / "folder").put("one", ONE)
    assert "HOSTLER_SIEVE_CACHE" in capsys.readouterr().err


def test_where_measurements_are_kept() -> None:
    assert folder({"HOSTLER_SIEVE_CACHE": "/a"}) == Path("/a")
    assert folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/hostler")
    assert folder({"HOME": "/c"}) == Path("/c/.cache/hostler")
