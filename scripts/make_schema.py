#!/usr/bin/env python3
"""Write what docs/reference says of settings: the JSON Schemas and settings.md, made from hostler.settings' models.

`scripts/make_schema.py` writes the files; with `--check` it writes nothing and exits 1 if one of them is out of date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hostler.model import codec
from hostler.model.alerts import AlertMessage
from hostler.model.faults import ADVICE
from hostler.model.schemas import Schema, branches
from hostler.settings.environment import ALIASES, SET_BY_HOSTLER, variables
from hostler.settings.jobs import Jobs
from hostler.settings.models import Fleet
from hostler.settings.schema import DIALECT, schema_of, settings_of

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"

INTRO = """# Settings

Made by `scripts/make_schema.py` from the models in `src/hostler/settings` (`models.py` and what it imports); do not
edit.

A fleet file is YAML (or JSON), read strictly: unknown keys, keys written twice, wrong types, anchors and tags are
errors, each told with its file, line and column. `no`, `on` and `12:30` are texts, as in YAML 1.2. Paths start from the
folder of the file they are written in. `hostler check FILE` prints every setting with its value and where it comes
from. `# yaml-language-server: $schema=fleet.schema.json` (with the path to it) in the first line makes editors check
it, too. Whole numbers that may be big may be written as `'2**32 - 1'`, `0x1_0000` or `4_294_967_296`.

A value on the command line wins over a variable, which wins over the file, which wins over the default.

`[]` in a name stands for each item of a list; settings that must be given have no default.

## Nodes of a class

What goes for several nodes is written once, as a class; `hostler check` shows for each node what it got from there.

```yaml
classes:
  rocm-rig:
    backend: ssh
    user: miner
    setup: ['export PATH=/opt/rocm/bin:$PATH']
    stagger_s: 3
    rocm: {gfx: 10.3.0, home: /opt/rocm, sdma: false, alloc_conf: 'garbage_collection_threshold:0.8'}
    env: {HIP_FORCE_DEV_KERNARG: '1'}

nodes:
  - {name: rig-1, class: rocm-rig}
  - {name: rig-2, class: rocm-rig, stagger_s: 0, env: {TMPDIR: /data/tmp}}
```

`rocm` stands for the variables it is described with below; they lie under `env`, which wins.

## All settings
"""

ADVICE_INTRO = """
## Keys of other systems

Jobs files of `scripts_coordinator.py` are understood: `job_id`, `script`, `args`, `timeout`, `analysis_type: script`.
These keys are refused, because Hostler would have to ignore them:
"""

ALIASES_INTRO = """
## Variables of other systems

These stand for settings of ours; percentages are told as such (`60`). Setting one by both names is an error. Others
that begin with `RINGRIFT_` set nothing and are let be.

| variable | setting | unit |
|---|---|---|
"""

PROCESS_INTRO = """
## Variables that set nothing

Hostler gives these to the processes it starts; when they are there as `hostler` is called, they are let be:
"""


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with `--check` compare them; the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    made = {REFERENCE / name: text for name, text in texts().items()}
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.name} is out of date; run scripts/make_schema.py" if arguments else f"{path.name} written")
        if not arguments:
            path.write_text(made[path], encoding="utf-8")
    return 1 if arguments and stale else 0


def texts() -> dict[str, str]:
    """The files by name."""
    jobs = schema_of(Jobs)
    # A jobs file may also be the bare list.
    either = {"$defs": jobs["$defs"], "anyOf": [jobs["properties"]["jobs"], _without(jobs, "$defs", "$schema")]}
    return {
        "alert.schema.json": _json({"$schema": DIALECT, **codec.adapter(AlertMessage).json_schema()}),
        "fleet.schema.json": _json(schema_of(Fleet)),
        "jobs.schema.json": _json({"$schema": DIALECT, **either}),
        "settings.md": settings_page(),
    }


def settings_page() -> str:
    """The page of all settings: name, type, default, meaning."""
    advice = "".join(f"- `{key}`: {text}.\n" for key, text in ADVICE.items())
    given = ", ".join(f"`{name}`" for name in sorted(SET_BY_HOSTLER))
    tables = (*_table(Fleet), *_variables(), ALIASES_INTRO, *_aliases())
    return "".join((INTRO, *tables, ADVICE_INTRO, "\n", advice, PROCESS_INTRO, "\n", given, ".\n"))


def _table(model: type[BaseModel]) -> Iterator[str]:
    schema = schema_of(model)
    yield "\n| setting | type | default | meaning |\n|---|---|---|---|\n"
    for path, node in settings_of(schema, items=True):
        default = f"`{json.dumps(node['default'])}`" if node.get("default") is not None else ""
        meaning = " ".join(node.get("description", "").split())
        yield f"| `{'.'.join(path)}` | {_cell(_type(schema, node))} | {_cell(default)} | {_cell(meaning)} |\n"


def _variables() -> Iterator[str]:
    yield "\n## Environment variables\n\nTexts are taken as they are, anything else is read as YAML.\n\n"
    yield "| variable | setting |\n|---|---|\n"
    for name, path in variables(Fleet).items():
        yield f"| `{name}` | `{'.'.join(map(str, path))}` |\n"


def _aliases() -> Iterator[str]:
    for name, alias in ALIASES.items():
        setting = ".".join(alias.path)
        unit = "%" if alias.percent else {"gb": "GiB", "s": "s"}.get(setting.rpartition("_")[2], "")
        yield f"| `{name}` | `{setting}` | {unit} |\n"


def _type(schema: Schema, node: Schema) -> str:
    kinds = (_kind(schema, branch) for branch in branches(schema, node))
    every = list(dict.fromkeys(kind for kind in kinds if kind))
    return (", or " if any(" or " in kind for kind in every) else " or ").join(every)


def _kind(schema: Schema, branch: Schema) -> str:
    """A type in words; empty for null, which is what stands where nothing is written."""
    if "const" in branch or "enum" in branch:
        return ", ".join(f"`{value}`" for value in branch.get("enum", [branch.get("const")]))
    if branch.get("type") == "array":
        return _array(schema, branch)
    names = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean", "object": "mapping"}
    bounds = "".join(f" {sign} {_bound(branch[key])}" for key, sign in _BOUNDS.items() if key in branch)
    return names.get(branch.get("type", ""), "") + bounds


def _bound(value: float) -> str:
    """A bound as people know it: those of the machine's integers are powers of two."""
    size = abs(int(value))
    if size < 1 << 31 or size & (size - 1):
        return str(value)
    return f"{'-' if value < 0 else ''}2^{size.bit_length() - 1}"


def _array(schema: Schema, branch: Schema) -> str:
    if "prefixItems" in branch:
        return f"[{', '.join(_type(schema, item) for item in branch['prefixItems'])}]"
    return f"list of {_type(schema, branch['items']).replace(' or ', 's or ')}s"


_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _without(schema: Schema, *keys: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keys}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
