"""What owners write: jobs files and fleet files, to what the controller makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hostler.model import inputs
from hostler.model.codec import adapter
from hostler.model.errors import HostlerError, SettingsError
from hostler.model.work import JobSpec, Resources
from hostler.runtime.dialin import switchboard
from hostler.runtime.nodes import reaching
from hostler.runtime.pump import refused
from hostler.settings import (
    alert_origins,
    config_specs,
    load,
    replication_rules,
    rules,
    specs,
    store_specs,
    telling,
)
from hostler.settings.jobsfile import load_jobs
from hostler.settings.reading import read_file
from tests.fuzz.extremes import JSON, YAML
from tests.fuzz.fleet_file import EXAMPLES, _check_fault, _check_numbers

from .bodies import PREFIX, _forget, expect_answer
from .changes import Case, Document, document
from .town import Broken, Town

TEXTS = (*JSON, *YAML)
REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
JOBS: Mapping[str, Any] = {
    "jobs": {
        "jobs": [
            {"name": "a", "argv": ["true"], "env": {"A": "b"}, "priority": 1, "retry": {"max_attempts": {"exit": 1}}},
            {"name": "b", "run": ["true"], "after": ["a"], "walltime_s": 5, "expected_s": {"*": 5}, "outputs": ["*"]},
        ]
    },
    "old jobs": [{"job_id": "a", "script": "x.py", "args": ["a"], "timeout": 5}],
}
FLEETS: Mapping[str, Any] = {
    "fleet": {
        "name": "f", "api": {"port": 0}, "limits": {"memory_gb": 1}, "journal": {"snapshot_every": 1000},
        "nodes": [{"name": "n", "gpus": "none", "cpu_slots": 1}], "jobs": [{"name": "a", "argv": ["true"]}],
        "scheduling": {}, "retention": {}, "replication": {}, "alerts": {},
    },
    "machines": {
        "nodes": [
            {"name": "n", "backend": "ssh", "host": "h", "user": "u", "price_per_h": 1.5,
             "gpus": {"only": [0]}, "labels": {"a": "b"}, "provider": "p", "env": {"A": "b"}},
            {"name": "v", "backend": "virtual", "gpus": [{"model": "H100", "vram_gb": 80}]},
            {"name": "d", "backend": "dialin", "cpu_slots": 2},
            {"name": "s", "backend": "slurm", "host": "login", "partition": "p",
             "slurm": {"shared_root": "/shared"}},
        ],
        "dialin": {"listen": "127.0.0.1:0"}, "stores": [{"name": "shelf", "kind": "directory", "path": "shelf"}],
    },
}  # fmt: skip
EXAMPLES_USED = ("laptop", "rigs", "slurm", "kuberay", "ray", "rl", "keyrooms-fleet", "audit", "multi-provider")


@cache
def _schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((REFERENCE / f"{name}.schema.json").read_text())
    return found


def jobs_documents() -> list[Document]:
    """Jobs files, with the places that their schema knows."""
    return [document(name, value, _schema("jobs")) for name, value in JOBS.items()]


def fleet_documents() -> list[Document]:
    """Fleet files, with the places that their schema knows, and the examples."""
    made = [document(name, value, _schema("fleet")) for name, value in FLEETS.items()]
    return made + [document(f"example {name}", read_file(EXAMPLES / f"{name}.yaml").value) for name in EXAMPLES_USED]


async def give_jobs(town: Town, case: Case) -> None:
    """Submit a changed jobs file as the command line does; it is refused with the place of each fault, or taken."""
    path = _written(town, case)
    try:
        made = load_jobs(path)
    except SettingsError as error:
        _check_fault(str(error), path)
        return
    # Under keys of their own: the same key for another job is a conflict.
    town.given += 1
    named = {each.key: f"{town.given} {each.key}" for each in made if each.key is not None}
    here = [
        replace(
            each,
            key=None if each.key is None else named[each.key][:100],
            after=tuple(named.get(name, name) for name in each.after),
            resources=replace(each.resources, nodes=("nowhere",)),
        )
        for each in made
    ]
    status, answer = await town.ask("POST", f"{PREFIX}/jobs", adapter(list[JobSpec]).dump_json(here))
    expect_answer(status, answer)
    await town.settle()
    await _forget(town)


async def give_fleet(town: Town, case: Case) -> None:
    """Have a controller take a changed fleet file as `hostler up` does; or it names the place of each fault."""
    path = _written(town, case)
    try:
        loaded = load(path, {})
        made = specs(loaded)
        configs = config_specs(loaded, until_idle=False)
        made_rules = rules(loaded)
        telling(loaded, {})
        for each in (replication_rules, store_specs, alert_origins):
            each(loaded)  # type: ignore[operator]
    except SettingsError as error:
        _check_fault(str(error), path)
        return
    _check_numbers(loaded.fleet.model_dump(mode="python"))
    try:
        async with reaching(loaded, town.directory, switchboard(loaded, town.directory), town.controller._clock):
            pass
    except HostlerError as error:
        if not str(error):
            raise Broken("the machines of a fleet file are refused without a reason") from error
        return
    town.given += 1
    nowhere = [
        replace(each, key=f"{town.given}", after=(), resources=Resources(nodes=("nowhere",))) for each in made[:1]
    ]
    for wish in (
        inputs.Configure(rules=made_rules),
        inputs.Submit(specs=tuple(nowhere)),
        inputs.Declare(configs=configs),
    ):
        refusal = refused(await town.controller.tell(wish))
        if refusal is not None and not str(refusal):
            raise Broken(f"{type(wish).__name__} is refused without a reason")
    await town.settle()
    await town.controller.tell(inputs.Declare(configs=()))
    await _forget(town)


def _written(town: Town, case: Case) -> Path:
    path = town.directory.path.parent / f"{case.document.split()[0]}.yaml"
    path.write_bytes(case.text.encode(errors="surrogatepass"))
    return path
