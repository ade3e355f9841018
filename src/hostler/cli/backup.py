"""Backups of what a controller knows: making one, proving it, going on from it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from hostler.cli.common import Json, OwnStateDir as Directory, directory
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import clean, paragraph, plural, quantity, say, say_json

if TYPE_CHECKING:
    from hostler.runtime.restoring import Checked


SHOWN = 20
DIGITS = 12
"""Of a SHA-256."""

File = Annotated[Path, Argument(metavar="FILE", help="A backup.")]


def create(
    target: Annotated[
        Path, Argument(metavar="PATH", help="A folder, or the name of a file that is not there yet.")
    ] = Path(),
    as_json: Json = False,
    state_dir: Directory = None,
) -> None:
    """Back up the journal and the index of artifacts into one file, beside a running controller or without one.

    It has what nodes and people know the controller by, so its owner alone may read it. Artifacts are not in it:
    these have their copies.

    Example:
      hostler backup create /mnt/backups
    """
    from hostler.runtime.backing import create as make
    from hostler.runtime.statedir import StateDir

    with ended_by_signals():
        made = make(StateDir(directory(state_dir)), target, time.time())
    if as_json:
        say_json({"path": str(made.path), "bytes": made.bytes, "sha256": made.sha256, **_about(made.manifest)})
        return
    print(f"{clean(str(made.path))}: {quantity(made.bytes)}B")
    say(paragraph(_what(made.manifest)))
    warning = "It holds secrets (tokens, keys): nobody but its owner may read it (mode 0600)."
    say(paragraph(f"{warning} Keep it so where you copy it"))


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let the signals that end a program end it as an exception does: nothing temporary is left."""

    def end(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def verify(file: File, as_json: Json = False, state_dir: Directory = None) -> None:
    """Prove that a backup is whole: its hashes, its journal to the end, its invariants, its index.

    Exit status 1 where it is not. Tells as well which artifacts its index names that no place holds which can be
    reached: the stores of its fleet file, and the state directory.

    Example:
      hostler backup verify /mnt/backups/hostler-20260801T040000Z.backup
    """
    from hostler.runtime.restoring import verify as check
    from hostler.runtime.statedir import StateDir

    checked = check(file, StateDir(directory(state_dir)), os.environ)
    if as_json:
        say_json({"path": str(file), **_about(checked.manifest), **_missing(checked)})
        return
    print(f"{clean(str(file))} is whole")
    say(paragraph(_what(checked.manifest)))
    _say_missing(checked)


def restore(
    file: File,
    fetch: Annotated[
        bool,
        Option(help="Bring artifacts into the state directory that lay in the old one, from other stores."),
    ] = True,
    as_json: Json = False,
    state_dir: Directory = None,
) -> None:
    """Go on from a backup in a state directory that has nothing of a controller; then `hostler up`.

    What happened since the backup is forgotten: what nodes run of it is ended there, and done anew. The folders
    `artifacts`, `results` and `logs` of the old state directory may be moved into the new one before.

    Example:
      mv ~/.local/state/hostler ~/.local/state/hostler.old
      hostler backup restore /mnt/backups/hostler-20260801T040000Z.backup
    """
    from hostler.runtime.restoring import restore as go_on
    from hostler.runtime.statedir import StateDir

    place = StateDir(directory(state_dir))
    done = go_on(file, place, os.environ, time.time(), _complain, fetch=fetch)
    if as_json:
        own = {"epoch": done.epoch, "next_job": done.next_job, "fetched": done.fetched}
        say_json({"path": str(place.path), **_about(done.checked.manifest), **own, **_missing(done.checked)})
        return
    print(f"{clean(str(place.path))} goes on")
    say(paragraph(f"from {_what(done.checked.manifest)}"))
    say(paragraph(f"the next job is j{done.next_job}, the next controller has an epoch beyond {done.epoch}"))
    if done.fetched:
        print(f"{plural(done.fetched, 'artifact')} came from other stores")
    _say_missing(done.checked)
    print("now:")
    print(f"  {_up(place.path, done.checked.manifest)}")


def _what(manifest: Mapping[str, Any]) -> str:
    journal = manifest["journal"]
    made, newest = _moment(manifest["made_at"]), journal["at"]
    at = "" if newest is None else f" of {_moment(newest)}"
    return (
        f"the journal up to entry {journal['seq']}{at}, "
        f"{plural(manifest['artifacts'], 'artifact')} in its index, made {made} by Hostler {clean(manifest['hostler'])}"
    )


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds")


def _up(state: Path, manifest: Mapping[str, Any]) -> str:
    """The command that goes on, as a shell takes it: on one line, however long it is."""
    fleet = [manifest["fleet"]] if manifest["fleet"] else []
    return clean(shlex.join(["hostler", "up", "--state-dir", str(state), *fleet]))


def _about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name not in ("members", "rows")}


def _missing(checked: Checked) -> dict[str, Any]:
    missing = [{"sha256": each.name.sha256, "kind": each.kind, "config": each.config} for each in checked.nowhere]
    return {"nowhere": missing, "silent": checked.silent}


def _say_missing(checked: Checked) -> None:
    for place, why in checked.silent.items():
        say(paragraph(f"not asked for artifacts: {place}: {why}", rest="  "))
    if not checked.nowhere:
        print("every artifact of its index is in a place that was asked")
        return
    print(f"{plural(len(checked.nowhere), 'artifact')} of its index in no place that was asked:")
    for each in checked.nowhere[:SHOWN]:
        say(paragraph(f"{each.name.sha256[:DIGITS]} {each.kind} {each.config or '-'}", "  ", "    "))
    if len(checked.nowhere) > SHOWN:
        print(f"  and {len(checked.nowhere) - SHOWN} more (--json has them all)")


def _complain(what: str) -> None:
    print(f"hostler: {clean(what)}", file=sys.stderr)
