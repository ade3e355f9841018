"""The agent of nodes that Hostler cannot put it on by itself: as a file, or on a machine that has Hostler."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from hostler.cli.common import Json, expanded
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import say, say_json
from hostler.model.errors import UsageError


def build(
    out: Annotated[Path, Argument(metavar="OUT", help="The file to write, as agent.pyz.")],
    as_json: Json = False,
) -> None:
    """Write the agent as one file, which any Python from 3.8 on runs.

    Example:
      hostler node agent agent.pyz
    """
    digest = _built(out)
    if as_json:
        say_json({"path": str(out), "sha256": digest})
    else:
        say([f"{out} written, its SHA-256 is {digest}"])


def connect(
    folder: Annotated[Path, Option("--dir", metavar="DIR", help="Folder for the agent and what it runs.")],
    to: Annotated[str, Option("--to", metavar="HOST:PORT", help="Where the controller listens for calls.")],
    node: Annotated[str, Option("--node", metavar="NAME", help="The name of this machine in the fleet file.")],
    fingerprint: Annotated[str, Option("--fingerprint", metavar="SHA256", help="Of the controller's certificate.")],
    token_file: Annotated[
        str | None, Option("--token-file", metavar="FILE", help="`-` is standard input; by default DIR/token.")
    ] = None,
    detach: Annotated[bool, Option("--detach", help="Go on in the background; logs to DIR/dial.log.")] = False,
) -> None:
    """Call a controller that cannot connect to this machine, and serve it, for ever.

    The same as `python3 agent.pyz dial`, on a machine that has Hostler. `hostler node invite`, where the controller
    is, shows what to give. Exit status: 3 another one has DIR, 5 refused, 6 who answers is not the controller.

    Example:
      hostler node connect --dir ~/.hostler/rig-1 --to hub:8767 --node rig-1 --fingerprint 5f2c...
    """
    folder = expanded(folder).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    program = folder / "agent.pyz"
    _built(program)
    given = ["--dir", str(folder), "--to", to, "--node", node, "--fingerprint", fingerprint]
    more = [*([] if token_file is None else ["--token-file", token_file]), *(["--detach"] if detach else [])]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(program), "dial", *given, *more])  # noqa: S606


def _built(out: Path) -> str:
    from hostler.agent.build import build_zipapp

    try:
        return build_zipapp(out)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from error
