"""The examples load, their schemas agree, and the reference is up to date."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.model.work import JobSpec, ScriptPayload, SweepPayload
from hostler.settings import load, load_jobs, node_spec, specs
from hostler.settings.reading import read_file
from hostler.workloads.gameboy.order import read_order

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
HEADER = "# yaml-language-server: $schema="


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sieve as an installed program, however old the installed metadata is."""
    info = tmp_path / "sieve_again-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sieve-again\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[hostler.programs]\n"
        "sieve = hostler.workloads.sieve.program:PROGRAM\n"
        "sieve-analysis = hostler.workloads.sieve.jobs:ANALYSIS\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_the_laptop_sweeps_two_generators_and_runs_the_pipeline() -> None:
    made = specs(load(EXAMPLES / "laptop.yaml", {}))
    sweeps = [spec.payload for spec in made if isinstance(spec.payload, SweepPayload)]
    assert [(sweep.params["generator"], sweep.stop - sweep.start) for sweep in sweeps] == [
        ("php-mt_rand", 1 << 32),
        ("java-random", 1 << 32),
    ]
    assert made[2:] == load_jobs(EXAMPLES / "jobs.yaml")


@pytest.mark.usefixtures("installed")
def test_the_audit_asks_every_candidate_of_every_recording() -> None:
    (sweep,) = [spec.payload for spec in specs(load(EXAMPLES / "audit.yaml", {}))]
    assert isinstance(sweep, SweepPayload)
    assert (sweep.start, sweep.stop) == (0, len(sweep.params["data"]) * len(sweep.params["candidates"]))


@pytest.mark.usefixtures("installed")
def test_the_rigs_are_of_their_classes_and_their_work_brings_its_files() -> None:
    loaded = load(EXAMPLES / "rigs.yaml", {})
    rigs = {node.name: node_spec(node) for node in loaded.fleet.nodes}
    assert rigs["rig-2"].env["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0"
    assert (rigs["rig-1"].limits.scripts, rigs["box-7"].ephemeral, rigs["box-7"].lease_s) == (2, True, 1800.0)
    (script,) = [spec.payload for spec in specs(loaded) if isinstance(spec.payload, ScriptPayload)]
    assert (script.files, script.outputs) == (("about.py",), ("about.json",))
    left = Path(str(script.cwd)) / "about.py"
    assert left.exists()


@pytest.mark.long
def test_the_pipeline_finds_what_was_planted(tmp_path: Path) -> None:
    """The scripts, run in order with the files that Hostler would give them; the flaky one fails just once."""
    results: dict[str, Any] = {}
    for spec in load_jobs(EXAMPLES / "jobs.yaml"):
        attempts = [
            _run(spec, number, results, tmp_path) for number in ((1, 2) if spec.name == "calibration" else (1,))
        ]
        assert attempts == ([1, 0] if spec.name == "calibration" else [0]), spec.name
    assert results["verify"] == {"slope": True, "period": True, "faults": True}


def _run(spec: JobSpec, number: int, results: dict[str, Any], tmp_path: Path) -> int:
    assert isinstance(spec.payload, ScriptPayload)
    inputs, result = tmp_path / "inputs.json", tmp_path / "result.json"
    inputs.write_text(json.dumps({name: results[name] for name in spec.after}))
    files = {"HOSTLER_INPUTS": str(inputs), "HOSTLER_RESULT": str(result), "HOSTLER_ATTEMPT": f"j1.{number}"}
    words = [sys.executable if word == "{python}" else word for word in spec.payload.argv]
    environ = {**os.environ, **files, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, cwd=spec.payload.cwd, env=environ, capture_output=True, timeout=300, check=False)
    if done.returncode == 0:
        results[spec.name] = json.loads(result.read_text())
    return done.returncode


def is_order(path: Path) -> bool:
    """Whether it is the order of a training, which a plan names and a workload reads (docs/reference/gameboy.md)."""
    return "\nschema: 1\n" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", [path for path in sorted(EXAMPLES.glob("*.yaml")) if is_order(path)], ids=lambda path: path.name
)
def test_an_order_among_the_examples_can_be_read(path: Path) -> None:
    found = read_order(path, {})
    assert found.game.name == "key rooms"
    assert found.run.steps >= 1_000_000


@pytest.mark.parametrize(
    "path", [path for path in sorted(EXAMPLES.glob("*.yaml")) if not is_order(path)], ids=lambda path: path.name
)
def test_an_example_satisfies_the_schema_it_names(path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema_rs", reason="jsonschema_rs is not installed")
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(HEADER)
    schema = json.loads((path.parent / first.removeprefix(HEADER)).read_text(encoding="utf-8"))
    checker = jsonschema.validator_for(schema)
    assert [error.message for error in checker.iter_errors(read_file(path).value)] == []
    assert not checker.is_valid({"jobs": [{"name": "a", "agrv": ["x"]}]})


def test_the_reference_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_schema.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


COMMENTED = sorted(path for path in EXAMPLES.rglob("*") if path.suffix in (".yaml", ".yml", ".sh", ".md"))
PROMISES = re.compile(
    r"(later|next|coming|future) (release|version)|not (yet )?(supported|implemented)|until then|\bTODO\b"
)
NAMED = re.compile(r"(?<![\w/.-])((?:examples|docs|src|scripts|tests)/[\w./-]*\w)")


@pytest.mark.parametrize("path", COMMENTED, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_an_example_promises_nothing_and_names_what_is_there(path: Path) -> None:
    text = " ".join(line.strip().removeprefix("#").strip() for line in path.read_text().splitlines())
    found = PROMISES.search(text)
    assert found is None, f"it says {found and found[0]!r}, which ages"
    missing = [name for name in NAMED.findall(text) if not any((at / name).exists() for at in (ROOT, path.parent))]
    assert not missing, f"it names {missing}, which are not there"


def test_the_nodes_of_the_virtual_example_say_so() -> None:
    nodes = load(EXAMPLES / "multi-provider.yaml", {}).fleet.nodes
    assert {node.backend for node in nodes if node.name != "coordinator"} == {"virtual"}
