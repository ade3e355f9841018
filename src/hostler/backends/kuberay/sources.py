"""From a fleet file to manifests: reads the files it names, renders, and checks by the first two layers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hostler.backends.kuberay import rules
from hostler.backends.kuberay.findings import refuse
from hostler.backends.kuberay.objects import Manifest
from hostler.backends.kuberay.rendering import rendered
from hostler.model.errors import SettingsError, SpecError
from hostler.settings import Loaded
from hostler.settings.kuberay import Kuberay

FILES_BYTES_MAX = 1_000_000
"""A ConfigMap holds 1 MiB, names included."""
DATA_KEY = re.compile(r"[-._A-Za-z0-9]{1,253}\Z")


@dataclass(frozen=True, slots=True)
class Rendered:
    """What there has to be in the cluster."""

    asked: Kuberay
    manifests: tuple[Manifest, ...]
    """In the order they are to be made; the RayJob or RayCluster is the last."""

    @property
    def main(self) -> Manifest:
        """The RayJob or RayCluster."""
        return self.manifests[-1]


def render(loaded: Loaded) -> Rendered:
    """What a fleet file asks for. Raises `SettingsError` where it asks for nothing or a file cannot be read, and
    `SpecError` where KubeRay or Kueue would refuse it."""
    asked = loaded.fleet.kuberay
    if asked is None:
        raise SettingsError(f"{loaded.path}: has no `kuberay:` section; see docs/guides/kuberay.md")
    files = _files(loaded, asked)
    board = asked.dashboard
    fleet = None if board is None or board.fleet is None else _read(loaded, "kuberay.dashboard.fleet", board.fleet)
    manifests = _strictly(asked, files, fleet)
    refuse(rules.faults(manifests))
    return Rendered(asked, manifests)


def _strictly(asked: Kuberay, files: dict[str, str], fleet: str | None) -> tuple[Manifest, ...]:
    try:
        return tuple(each.manifest() for each in rendered(asked, files, fleet))
    except ValidationError as error:
        told = (f"{error.title}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise SpecError("\n".join(told)) from error


def _files(loaded: Loaded, asked: Kuberay) -> dict[str, str]:
    found = {}
    for at, name in enumerate(asked.files):
        key = Path(name).name
        if DATA_KEY.match(key) is None:
            raise SettingsError(
                f"{loaded.tree.at(('kuberay', 'files', at))}: {key!r} has signs that Kubernetes takes in no name of a "
                "file; letters, digits, dots, dashes and underscores do"
            )
        found[key] = _read(loaded, f"kuberay.files[{at}]", name)
    size = sum(len(key) + len(text.encode()) for key, text in found.items())
    if size > FILES_BYTES_MAX:
        raise SettingsError(
            f"{loaded.tree.at(('kuberay', 'files'))}: kuberay.files: {size} bytes, and a ConfigMap holds "
            f"{FILES_BYTES_MAX}; put what is large into the image, or onto one of `volumes`"
        )
    return found


def _read(loaded: Loaded, setting: str, name: str) -> str:
    path = loaded.base_dir / Path(name).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{setting}: {path} cannot be read as text: {error}") from error
