"""Vendored scripts and styles equal their manifest; `scripts/vendored.py` finds and refuses differences."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import json
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "vendored.py"
VENDOR = ROOT / "src" / "hostler" / "web" / "static" / "vendor"
FILES = {"dist/thing.min.js": "let it = 1", "LICENSE": "MIT"}
NAMES = {"thing.js": "dist/thing.min.js", "thing.LICENSE": "LICENSE"}

Publish: TypeAlias = Callable[[Mapping[str, str]], bytes]
"""Called with the files of a package by path: npm brings that archive from now on."""


@pytest.fixture
def vendored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, for the folders of this test."""
    spec = importlib.util.spec_from_file_location("vendored", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "vendored", loaded)
    spec.loader.exec_module(loaded)
    monkeypatch.setattr(loaded, "VENDOR", tmp_path / "vendor")
    monkeypatch.setattr(loaded, "BROWSER_MANIFEST", tmp_path / "vendor" / "vendor.json")
    monkeypatch.setattr(loaded, "BROWSER_FOLDER", tmp_path / "browser")
    return loaded


@pytest.fixture
def publish(vendored: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """An npm that brings one archive, whatever package is named."""

    def bring(files: Mapping[str, str]) -> bytes:
        packed = archive(files)
        (tmp_path / "published").write_bytes(packed)
        code = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[-1] + '/thing-1.2.3.tgz')"
        monkeypatch.setattr(vendored, "npm", lambda: [sys.executable, "-c", code, str(tmp_path / "published")])
        return packed

    return bring


@pytest.fixture
def folder(vendored: ModuleType, publish: Publish) -> Path:
    """A vendor folder that equals its published package."""
    made: Path = vendored.VENDOR
    made.mkdir()
    write_manifest(made, integrity_of(publish(FILES)))
    assert vendored.main(["update"]) == 0
    return made


def test_vendored_files_equal_their_manifest(vendored: ModuleType) -> None:
    assert list(vendored.local_faults(VENDOR)) == []


def test_vendored_packages_have_a_version_an_integrity_and_a_licence(vendored: ModuleType) -> None:
    packages = {package.name: package for package in vendored.read_manifest(VENDOR / "vendor.json")}
    assert set(packages) == {"htmx.org", "uplot"}
    for package in packages.values():
        assert package.integrity.startswith("sha512-")
        assert package.version.count(".") == 2
        (licence,) = (file.name for file in package.files if file.source == "LICENSE")
        assert "Permission" in (VENDOR / licence).read_text(encoding="utf-8")


def test_manifests_have_no_addresses() -> None:
    for path in (VENDOR / "vendor.json", ROOT / "tests" / "browser" / "vendor.json"):
        assert "://" not in path.read_text(encoding="utf-8")


def test_update_writes_the_files_and_their_digests(folder: Path) -> None:
    assert {path.name: path.read_text() for path in folder.iterdir() if path.suffix != ".json"} == {
        "thing.js": "let it = 1",
        "thing.LICENSE": "MIT",
    }
    (package,) = json.loads((folder / "vendor.json").read_text())["packages"]
    assert package["files"]["thing.js"] == {
        "source": "dist/thing.min.js",
        "sha256": hashlib.sha256(b"let it = 1").hexdigest(),
    }


def test_check_accepts_files_that_equal_the_package(
    vendored: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vendored.main(["check"]) == 0
    assert "thing 1.2.3: every file equals the published package" in capsys.readouterr().out


def test_changed_byte_of_a_vendored_file_is_found_without_network(vendored: ModuleType, folder: Path) -> None:
    (folder / "thing.js").write_text("let it = 7")
    (fault,) = vendored.local_faults(folder)
    assert fault.startswith("thing.js has SHA-256 ")


def test_missing_and_unlisted_files_are_found_without_network(vendored: ModuleType, folder: Path) -> None:
    (folder / "thing.LICENSE").unlink()
    (folder / "deeper").mkdir()
    (folder / "deeper" / "other.js").write_text("")
    assert list(vendored.local_faults(folder)) == [
        "thing.LICENSE is missing: vendor.json lists it",
        "deeper/other.js is not listed in vendor.json",
    ]


def test_check_finds_a_file_that_was_changed_with_its_manifest(
    vendored: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = hashlib.sha256((folder / "thing.js").read_bytes()).hexdigest()
    (folder / "thing.js").write_text("let it = 7")
    new = hashlib.sha256((folder / "thing.js").read_bytes()).hexdigest()
    manifest = folder / "vendor.json"
    manifest.write_text(manifest.read_text().replace(old, new))
    assert list(vendored.local_faults(folder)) == []
    assert vendored.main(["check"]) == 1
    assert "thing.js differs from the file that thing 1.2.3 publishes" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "update"])
def test_package_with_another_integrity_is_refused(
    vendored: ModuleType, folder: Path, publish: Publish, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = integrity_of(publish({**FILES, "dist/thing.min.js": "let it = 2"}))
    assert vendored.main([command]) == 1
    assert f"thing 1.2.3 refused: the downloaded archive has the integrity {found}" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_file_that_the_package_lacks_is_named(
    vendored: ModuleType, folder: Path, publish: Publish, capsys: pytest.CaptureFixture[str]
) -> None:
    write_manifest(folder, integrity_of(publish({"LICENSE": "MIT"})))
    assert vendored.main(["update"]) == 1
    assert "thing 1.2.3 has no file dist/thing.min.js" in capsys.readouterr().err
    assert (folder / "thing.js").read_text() == "let it = 1"


def test_browser_tools_are_fetched_once(vendored: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vendored.main(["browser"]) == 0
    fetched = vendored.BROWSER_FOLDER / "thing.js"
    assert fetched.read_text() == "let it = 1"
    monkeypatch.setattr(vendored, "npm", lambda: pytest.fail("npm was started again"))
    assert vendored.main(["browser"]) == 0
    fetched.write_text("let it = 7")
    with pytest.raises(pytest.fail.Exception):
        vendored.main(["browser"])


def test_errors_of_npm_are_shown(
    vendored: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vendored, "npm", lambda: [sys.executable, "-c", "import sys; sys.exit('no such host')"])
    assert vendored.main(["check"]) == 1
    assert "npm could not download thing@1.2.3: no such host" in capsys.readouterr().err


def test_missing_npm_is_reported_with_the_remedy(
    vendored: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(vendored.Refused, match=r"^npm is not installed\. Debian and Ubuntu: sudo apt-get install npm"):
        vendored.npm()


def test_unknown_command_prints_the_usage(vendored: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert (vendored.main([]), vendored.main(["static"])) == (2, 2)
    assert "scripts/vendored.py check" in capsys.readouterr().err


def archive(files: Mapping[str, str]) -> bytes:
    """The archive that npm publishes for these files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def integrity_of(packed: bytes) -> str:
    """The integrity that npm publishes for an archive."""
    return "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()


def write_manifest(folder: Path, integrity: str) -> None:
    """A manifest before its first `update`: one package, without digests."""
    files = {name: {"source": source, "sha256": ""} for name, source in NAMES.items()}
    row: dict[str, Any] = {
        "name": "thing",
        "version": "1.2.3",
        "license": "MIT",
        "integrity": integrity,
        "files": files,
    }
    (folder / "vendor.json").write_text(json.dumps({"packages": [row]}))
