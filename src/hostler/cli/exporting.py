"""Everything about a training config as one file."""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from hostler.cli.common import ConfigName, Json, OwnStateDir as Directory, directory
from hostler.cli.declarations import Option
from hostler.cli.show import clean, plural, quantity, say_json

SHOWN = 20


class Kind(StrEnum):
    """What an artifact is: `hostler.model.artifacts.ArtifactKind`, which takes longer to load than all help."""

    GAMES = "games"
    DATASET = "dataset"
    MODEL = "model"
    EVALUATION = "evaluation"


def export(
    config: ConfigName,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="The file, or its folder; by default CONFIG-TIME.tar.gz."),
    ] = None,
    without: Annotated[
        list[Kind] | None,
        Option(help="Leave artifacts of this kind out; may be given several times."),
    ] = None,
    as_json: Json = False,
    state_dir: Directory = None,
) -> int:
    """Export everything about a training config: its history, models, datasets and games, as a tarball.

    It is read from the state directory and from the stores of its fleet file, beside a running controller or without
    one. Exit status 1 where artifacts are missing that should be in it; it is written all the same.

    Example:
      hostler model export hex8_2p -o hex8.tar.gz --without games --without evaluation
    """
    from hostler.model.artifacts import ArtifactKind
    from hostler.runtime.exporting import export as write
    from hostler.runtime.statedir import StateDir

    name = f"{config}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz"
    target = Path(name) if output is None else output / name if output.is_dir() else output
    kinds = frozenset(map(ArtifactKind, without or ()))
    done = write(StateDir(directory(state_dir)), config, target, kinds, os.environ, _complain)
    if as_json:
        own = {"bytes": done.bytes, "artifacts": done.artifacts, "left_out": done.left_out}
        say_json({"path": str(done.path), **own, "missing": list(done.missing)})
        return int(bool(done.missing))
    held = f"{plural(done.artifacts, 'artifact')} of {quantity(done.artifact_bytes)}B"
    left = f", {done.left_out} left out" if done.left_out else ""
    print(f"{clean(str(done.path))}: {quantity(done.bytes)}B, {held}{left}")
    for line in done.missing[:SHOWN]:
        _complain(f"not in it: {line}")
    if len(done.missing) > SHOWN:
        _complain(f"and {len(done.missing) - SHOWN} more, which its manifest.json names")
    return int(bool(done.missing))


def _complain(what: str) -> None:
    print(f"hostler: {clean(what)}", file=sys.stderr)
