"""The build of the pages' scripts: what is not what it should be is refused, and what is there is left alone."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "make_static.py"


@pytest.fixture
def make_static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, at work in a folder of its own."""
    spec = importlib.util.spec_from_file_location("make_static", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_static", made)
    spec.loader.exec_module(made)
    monkeypatch.setattr(made, "ROOT", tmp_path)
    return made


def archive(**files: str) -> bytes:
    """What npm packs."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return whole.getvalue()


def package(make_static: ModuleType, of: bytes, **files: str) -> object:
    """A package whose integrity is that of `of`."""
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(of).digest()).decode()
    return make_static.Package("thing", "1.2.3", integrity, "static", files or {"a": "thing.js"})


def packs(made: ModuleType, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let npm bring these bytes, whatever is asked for."""
    code = "import sys, pathlib; pathlib.Path(sys.argv[-1], 'x.tgz').write_bytes(bytes.fromhex(sys.argv[1]))"
    monkeypatch.setattr(made, "npm", lambda: [sys.executable, "-c", code, data.hex()])


def test_what_was_meant_is_put_in_its_place(
    make_static: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = archive(a="let it = 1")
    wanted = package(make_static, data)
    packs(make_static, data, monkeypatch)
    make_static.fetch(wanted)
    assert (tmp_path / "static" / "thing.js").read_text() == "let it = 1"
    assert wanted.is_there  # type: ignore[attr-defined]
    (tmp_path / "static" / "thing.js").unlink()
    assert not wanted.is_there  # type: ignore[attr-defined]


def test_what_is_something_else_is_refused(
    make_static: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs(make_static, archive(a="let it = 2"), monkeypatch)
    with pytest.raises(make_static.Refused, match="is not what it was"):
        make_static.fetch(package(make_static, archive(a="let it = 1")))
    assert not (tmp_path / "static").exists()


def test_a_file_that_is_not_in_it_is_named(make_static: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive(a="x")
    packs(make_static, data, monkeypatch)
    with pytest.raises(make_static.Refused, match=r"no file dist/b\.js"):
        make_static.fetch(package(make_static, data, **{"dist/b.js": "b.js"}))


def test_npm_s_own_words_are_passed_on(make_static: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_static, "npm", lambda: [sys.executable, "-c", "import sys; sys.exit('no such host')"])
    with pytest.raises(make_static.Refused, match="no such host"):
        make_static.fetch(package(make_static, b""))


def test_the_manifest_names_no_addresses(make_static: ModuleType) -> None:
    assert "://" not in make_static.MANIFEST.read_text()
    assert all(each.integrity.startswith("sha512-") for each in make_static.packages())
