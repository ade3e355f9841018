"""Lists of machines on this computer: the files, and what they include."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from hostler.model.errors import SettingsError
from hostler.settings.importing import kinds
from hostler.settings.importing.kinds import Kind
from hostler.settings.importing.records import Listing
from hostler.settings.importing.ssh_config import Config, Include
from hostler.settings.reading import Origin, file_text

OF_THIS_MACHINE = Path("/etc/ssh/ssh_config")


def own_config() -> Path:
    """The user's configuration of SSH."""
    return Path("~/.ssh/config").expanduser()


def read(source: Path, kind: Kind | None = None) -> tuple[Kind, Listing]:
    """What a file is, and its machines. Raises `SettingsError`."""
    path = source.expanduser()
    if path.is_dir():
        raise SettingsError(
            f"{source}: is a folder; give one file of it, or what `ansible-inventory -i {source} --list` prints"
        )
    found, listing = read_text(file_text(path), str(source), kind, path)
    beside = [name for name in ("group_vars", "host_vars") if (path.parent / name).is_dir()]
    if found == "ansible" and beside:
        instead = f"what `ansible-inventory -i {source} --list` prints has them"
        note = f"{' and '.join(beside)} beside it are not read; {instead}"
        listing = replace(listing, notes=(*listing.notes, note))
    return found, listing


def read_text(text: str, source: str, kind: Kind | None = None, path: Path | None = None) -> tuple[Kind, Listing]:
    """As `read`, of a text that is there already."""
    folder = OF_THIS_MACHINE.parent if path is not None and _is_of_this_machine(path) else own_config().parent
    return kinds.listing(text, source, kind, _including(folder), _configured())


def extra_configs(source: Path) -> tuple[str, ...]:
    """What `ssh.config` of a fleet file has to say so that hosts of this configuration are found; empty: nothing."""
    path = source.expanduser()
    if any(usual.exists() and path.samefile(usual) for usual in (own_config(), OF_THIS_MACHINE)):
        return ()
    return (str(path.absolute()), "~/.ssh/config", str(OF_THIS_MACHINE))


def _is_of_this_machine(path: Path) -> bool:
    return path.absolute().is_relative_to(OF_THIS_MACHINE.parent)


def _including(folder: Path) -> Include:
    """Included files are looked for in `folder`, where no other one is said."""

    def include(pattern: str, origin: Origin) -> Iterator[tuple[str, str]]:
        if "\0" in pattern:
            raise SettingsError(f"{origin}: Include: a null byte is in no name of a file")
        for name in sorted(glob.glob(os.path.join(folder, os.path.expanduser(pattern)))):
            if os.path.isfile(name):
                yield name, file_text(Path(name))

    return include


def _configured() -> Callable[[str], bool]:
    """Whether the user's configuration of SSH tells of a host; it is read when it is first asked."""

    @cache
    def config() -> Config:
        path = own_config()
        text = file_text(path) if path.is_file() else ""
        return Config.read(text, str(path), _including(path.parent))

    return lambda name: config().knows(name)
