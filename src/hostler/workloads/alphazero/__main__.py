"""``python -m hostler.workloads.alphazero``: the stages, and a look into their files."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import struct
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from hostler.workloads.alphazero.artifacts import MODEL
from hostler.workloads.alphazero.stage import Work, run_stage

Arrays: TypeAlias = dict[str, tuple[str, tuple[int, ...]]]

STAGES = {
    "selfplay": "play games and record them in segments",
    "export": "choose good games of segments and make a dataset",
    "training": "train a model with a dataset",
    "evaluation": "play matches between players",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one stage, look into a file, or play; answers the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["play"]:
        from hostler.workloads.alphazero import play

        return play.main(given[1:])
    options = _parser().parse_args(given)
    if options.command == "inspect":
        try:
            return _inspect(options.file)
        except (OSError, ValueError, KeyError, struct.error, zipfile.BadZipFile) as error:
            print(f"{options.file} is no segment, dataset or model: {error}", file=sys.stderr)
            return 1
    # A stage is imported when it runs: self-play without a network needs no torch.
    module = importlib.import_module(f"hostler.workloads.alphazero.{options.command}")
    work: Work = module.run
    return run_stage(options.command, work, os.environ)


def _inspect(file: Path) -> int:
    """Print what a file says of itself, unchecked: `inspect` is for files that the stages refuse, too."""
    header, arrays = _safetensors(file) if file.name.endswith(MODEL) else _npz(file)
    print(json.dumps(header, indent=2))
    for name, (dtype, shape) in arrays.items():
        print(f"{name:24} {dtype:8} {' x '.join(map(str, shape)) or 'scalar'}")
    return 0


def _npz(file: Path) -> tuple[Any, Arrays]:
    import numpy as np

    with np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    return header, {name: (str(array.dtype), array.shape) for name, array in arrays.items()}


def _safetensors(file: Path) -> tuple[Any, Arrays]:
    with file.open("rb") as content:
        # The format: the length of a JSON header as a little-endian 64-bit number, the header, the data.
        (length,) = struct.unpack("<Q", content.read(8))
        header = json.loads(content.read(min(length, file.stat().st_size)))
    manifest = json.loads(header.pop("__metadata__")["hostler"])
    return manifest, {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in header.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hostler.workloads.alphazero",
        description="The stages of the self-improvement loop. Each reads $HOSTLER_INPUTS and leaves $HOSTLER_RESULT; "
        "docs/reference/learning.md lays down what is in them.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for stage, text in STAGES.items():
        commands.add_parser(stage, help=text, description=f"{text.capitalize()}.")
    commands.add_parser("play", help="play against a model on the terminal", add_help=False)
    looking = commands.add_parser("inspect", help="print the header and the arrays of a segment, dataset or model")
    looking.add_argument("file", type=Path, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
