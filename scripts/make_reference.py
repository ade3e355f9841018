#!/usr/bin/env python3
"""Write what docs/reference says of the interfaces: openapi.json from the HTTP application, cli.md from the commands,
metrics.md from what is exported to Prometheus; and in src/hostler/client, from the same document, shapes.py for type
checkers and answer_forms.py and event_forms.py for the check of answers.

`scripts/make_reference.py` writes the files; with `--check` it writes nothing and exits 1 if one of them is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from answer_forms import forms_modules

from hostler.cli.commands import COMMANDS, PANELS, Command, imported
from hostler.cli.help import command_help, group_help, program_help, summary
from hostler.cli.parameters import signature
from hostler.web.app import make_app
from hostler.web.desk import Desk
from hostler.web.door import Door
from hostler.web.metrics import described

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
CLIENT = ROOT / "src" / "hostler" / "client"
SHAPES = CLIENT / "shapes.py"
WIDTH = 100
LINE = 120

INTRO = r"""# Command line

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
| 2 | asked for what cannot be: wrong usage, a wrong value, no such job, or a job in a state that forbids it |
| 3 | no controller is running for the state directory |
| 124 | `wait --timeout`: a job has not ended by then |
| 130 | interrupted |
| 141 | the reader of the output has left, as in `hostler jobs \| head -1`; nothing is printed |

`wait`, `submit --wait`, `submit --follow` and `logs -f` end with the exit status of the job: 0 if it is done, that of
its last process if it failed by it (128 + N if signal N ended it), otherwise 1.
Of several jobs, or of a job group, it is 1 if one is not done.
`cancel` and `retry` try each name and end with the status of the first error.
A job is named by its id, its key, or its own name if no other job in the controller's memory has it.

`eval "$(hostler --show-completion bash)"` in ~/.bashrc makes the shell complete commands, options, and names
of jobs, groups, sweeps, nodes and devices; so do zsh, fish, tcsh and PowerShell.
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
| `kind`, `standing` of artifacts | `games`, `dataset`, `model`, `evaluation`; what they are worth now |
| `place` | where copies of artifacts lie: `controller`, or a store of the fleet file |
| `outcome` of attempts | `done`, `cancelled`, `yielded` to other work, `called_back`, or the class of the failure |
| `training` | a job with `work_as: rl`, as `j12` |
| `outcome` of calls | `answered`, `garbage`, `limited`, `failed`, `denied`, `timeout`, `refused`, `broken`, `other` |
| `outcome` of chunks | `done`, `taken` from a slow device, `returned` in good order, `failed` |

Jobs and artifacts are never named: there are too many of them. `hostler explain` and the API know them. But trainings
by reinforcement that have devices are, the 64 oldest of them: few, and long. Their series are read off what they tell
([rl.md](rl.md)), every quarter of a minute; what was told more than 15 minutes ago is not told as how they are now.
Their counts are those of a training's whole life: one that goes on from a checkpoint may count a little again.

| metric | type | labels | meaning |
|---|---|---|---|
"""


SHAPES_INTRO = '''"""What the HTTP interface answers and takes, for type checkers; names of bodies end in `Input`.

Made by `scripts/make_reference.py` from docs/reference/openapi.json; do not edit.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

'''
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
UNFOLDED = ("Entry",)
"""Shapes with fields that may be one of so many others that whoever reads them looks at `kind` first."""


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` compare them; the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    made = texts()
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.name} is out of date; run scripts/make_reference.py" if arguments else f"{path.name} written")
        if not arguments:
            path.write_text(made[path], encoding="utf-8")
    return 1 if arguments and stale else 0


def texts() -> dict[Path, str]:
    """The files and what is in them."""
    # The document says what the application would answer; nobody is asked.
    document = make_app(cast(Desk, None), Door(token="", key=b"", now=lambda: 0.0)).openapi()
    return {
        REFERENCE / "openapi.json": json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        REFERENCE / "cli.md": cli_page(),
        REFERENCE / "metrics.md": metrics_page(),
        SHAPES: shapes_module(document),
        **{CLIENT / name: text for name, text in forms_modules(document).items()},
    }


def shapes_module(document: Mapping[str, Any]) -> str:
    """The schemas of the document that answers and bodies need, as a module of types."""
    schemas = document["components"]["schemas"]
    made = (_shape(name, schemas[name]) for name in sorted(_reachable(document)))
    # Aliases are looked up when the module is read, fields of dicts are not.
    text = "\n\n".join(sorted(made, key=lambda each: each.startswith("class ")))
    return SHAPES_INTRO + text


def metrics_page() -> str:
    """The page of all metrics."""
    rows = (
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.meaning} |\n"
        for each in described()
    )
    return METRICS + "".join(rows)


def cli_page() -> str:
    """The page of all commands."""
    return INTRO + "".join(f"\n## {path}\n\n```text\n{text}\n```\n" for path, text in _helps())


def _reachable(document: Mapping[str, Any]) -> set[str]:
    """Names of the schemas that operations speak of, and of those that these do."""
    found: set[str] = set()
    new = _named(document["paths"])
    while new:
        found |= new
        new = {
            each
            for name in new
            if name not in UNFOLDED
            for each in _named(document["components"]["schemas"][name])
            if each not in found
        }
    return found


def _named(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_named, value.values()))
    return set[str]().union(*map(_named, value)) if isinstance(value, list) else set()


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    """A schema as a class or an alias."""
    own = name.replace("-", "")
    if "properties" not in schema and schema.get("type") != "object":
        return _line(f"{own}: TypeAlias = ", _type(schema))
    required = schema.get("required", ())
    fields = [
        _line(f"{field}: ", _type(each) if field in required else f"NotRequired[{_type(each)}]", "    ")
        for field, each in _fields(name, schema).items()
    ]
    words = schema.get("description", "").partition("\n")[0]
    return f"class {own}(TypedDict):\n" + (f'    """{words}"""\n\n' if words else "") + "".join(fields)


def _fields(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = schema.get("properties", {})
    return {field: {} if name in UNFOLDED and "oneOf" in each else each for field, each in fields.items()}


def _line(begin: str, text: str, indent: str = "") -> str:
    """A line that says a type; a long choice has a line for each word."""
    line = f"{indent}{begin}{text}\n"
    if len(line) <= LINE:
        return line
    head, _, rest = text.partition("Literal[")
    words, _, tail = rest.partition("]")
    inner = "".join(f"{indent}    {each},\n" for each in words.split(", "))
    return f"{indent}{begin}{head}Literal[\n{inner}{indent}]{tail}\n"


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a value of this schema; `Any` where nothing is said."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2]).replace("-", "")
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return f"Literal[{', '.join(json.dumps(each) for each in values)}]"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(dict.fromkeys(_type(each) for each in schema[several]))
    return _plain_type(schema)


def _plain_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        parts = {_type(each) for each in schema.get("prefixItems", ())} or {_type(schema.get("items", {}))}
        return f"list[{' | '.join(sorted(parts))}]"
    if kind == "object":
        each = schema.get("additionalProperties", {})
        return f"dict[str, {_type(each) if isinstance(each, dict) else 'Any'}]"
    return PLAIN.get(str(kind), "Any")


def _helps() -> Iterator[tuple[str, str]]:
    """The help of the program, of each group, and of each command."""
    panels = {title: {name: each.about for name, each in panel.items()} for title, panel in PANELS.items()}
    yield "hostler", "\n".join(program_help(panels, WIDTH))
    for name, each in COMMANDS.items():
        if isinstance(each, Command):
            yield _help(name, each.function)
            continue
        abouts = {word: summary(imported(function).__doc__ or "") for word, function in each.commands.items()}
        yield f"hostler {name}", "\n".join(group_help(name, each.doc, abouts, WIDTH))
        for word, function in each.commands.items():
            yield _help(f"{name} {word}", function)


def _help(path: str, function: str) -> tuple[str, str]:
    carried_out_by = imported(function)
    lines = command_help(path, signature(carried_out_by), carried_out_by.__doc__ or "", WIDTH)
    return f"hostler {path}", "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
