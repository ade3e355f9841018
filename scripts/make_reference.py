#!/usr/bin/env python3
"""Write what docs/reference says of the interfaces: openapi.json from the HTTP application, cli.md from the commands,
metrics.md from what is exported to Prometheus.

`scripts/make_reference.py` writes the files; with `--check` it writes nothing and exits 1 if one of them is stale.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import typer

from hostler.cli.main import app
from hostler.web.app import make_app
from hostler.web.desk import Desk
from hostler.web.door import Door
from hostler.web.metrics import described

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
WIDTH = 100

INTRO = """# Command line

Made by `scripts/make_reference.py` from `src/hostler/cli`; do not edit. What follows is what `--help` prints.

Commands talk to the running controller over HTTP on this machine. They find it, and its token, in the state directory:
`--state-dir`, or `$HOSTLER_STATE_DIR`, or `hostler` in `$XDG_STATE_HOME` or `~/.local/state`. Or else it is on another
machine: `$HOSTLER_URL` says where (`https://fleet.example.org:8765`), `$HOSTLER_TOKEN` is the token, and `$HOSTLER_CA`
names a file with what vouches for its certificate, where this machine does not know it. `--state-dir` wins over
`$HOSTLER_URL`, and that over `$HOSTLER_STATE_DIR`.

`--json` prints everything as one JSON document (`events`: one a line), field by field the schemas of
[openapi.json](openapi.json). Tables are for people: they fit the terminal, and what is not known is `?`.

| exit status | meaning |
|---|---|
| 0 | done |
| 1 | failed; the message says what and what to do |
| 2 | asked for what cannot be: wrong usage, a wrong value, no such job |
| 3 | no controller is running for the state directory |
| 130 | interrupted |

`hostler --install-completion` makes the shell complete commands, options, and ids of jobs.
"""

METRICS = """# Metrics

Made by `scripts/make_reference.py` from `src/hostler/web/series.py`; do not edit.

`GET /metrics` answers in Prometheus' text format, or in OpenMetrics where `Accept` asks for it; it wants a token as
every path does. Everything is read off the controller's state at each scrape. What is unknown has no series, it is
never 0; what has left the fleet has none any more. Counters go on over a restart of the controller, unless their
meaning says otherwise. [examples/monitoring](../../examples/monitoring/README.md) has a configuration, alerts and a
dashboard.

| label | is |
|---|---|
| `node`, `device`, `kind` | a node; a device, as `node/cuda0`; what it is made of: `cpu`, `cuda`, `rocm`, `mps` |
| `provider` | who rents a node out; empty where nobody said |
| `tier` | `1`, `2` or `3`, or `cpu` for slots of nodes without a tier |
| `work`, `config` | a kind of work; a training config |
| `outcome` of attempts | `done`, `cancelled`, `yielded` to other work, `called_back`, or the class of the failure |
| `outcome` of chunks | `done`, `taken` from a slow device, `returned` in good order, `failed` |

Jobs are never named: there are too many of them. `hostler explain` and the API know them.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` compare them; the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    made = {REFERENCE / name: text for name, text in texts().items()}
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.name} is out of date; run scripts/make_reference.py" if arguments else f"{path.name} written")
        if not arguments:
            path.write_text(made[path], encoding="utf-8")
    return 1 if arguments and stale else 0


def texts() -> dict[str, str]:
    """The files by name."""
    # The document says what the application would answer; nobody is asked.
    document = make_app(cast(Desk, None), Door(token="", key=b"", now=lambda: 0.0)).openapi()
    return {
        "openapi.json": json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        "cli.md": cli_page(),
        "metrics.md": metrics_page(),
    }


def metrics_page() -> str:
    """The page of all metrics."""
    rows = (
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.meaning} |\n"
        for each in described()
    )
    return METRICS + "".join(rows)


def cli_page() -> str:
    """The page of all commands."""
    # Help is as wide as the terminal says; here it must not depend on one.
    os.environ.update(COLUMNS=str(WIDTH), TERM="dumb")
    helps = _helps(typer.main.get_command(app), None)
    return INTRO + "".join(f"\n## {path}\n\n```text\n{text}\n```\n" for path, text in helps)


def _helps(command: Any, parent: Any) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it."""
    name = "hostler" if parent is None else command.name
    with command.context_class(
        command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    ) as context:
        yield context.command_path, command.get_help(context).replace("\b", "").rstrip()
        for below in getattr(command, "commands", {}).values():
            yield from _helps(below, context)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
