"""Called by record.sh with the folder of the compiled recorders: asks the real runtimes and writes the JSON files.

Each recorder reads lines ``SEED SKIP COUNT KIND [ARGUMENT ...]`` and writes one line of outputs for each.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parents[1] / "tests" / "workloads" / "sieve" / "vectors"
DRAWS = 12
EDGES = [0, 1, 2, 3, 12345, 2**30, 2**31 - 1, 2**31, 2**31 + 1, 3141592653, 2**32 - 2, 2**32 - 1]
BEYOND = [2**32, 2**32 + 1, 2**40 + 77, 0x5DEECE66D, 2**48 - 1]
SKIPS = [0, 1, 225, 300, 623, 1250]

Output = dict[str, Any]

# File in this folder -> generator and kind of output; the seeds are in answers.json.
RECORDED: dict[str, tuple[str, Output]] = {
    "php.json": ("php-mt_rand", {"kind": "range", "min": 1, "max": 1000}),
    "php-exact.json": ("php-mt_rand", {"kind": "exact"}),
    "java.json": ("java-random", {"kind": "bound", "bound": 1000}),
    "python.json": ("python-random", {"kind": "randrange", "stop": 1000}),
    "python-random.json": ("python-random", {"kind": "random"}),
    "xorshift32.json": ("xorshift32", {"kind": "mod", "modulus": 1000}),
}
SCRIPTS = {
    "php-mt_rand": "record.php",
    "java-random": "Record.java",
    "python-random": "record_python.py",
    "xorshift32": "record.c",
}


def main(build: Path) -> None:
    """Write the draws of every data file and the vectors of every generator."""
    answers = json.loads((HERE / "answers.json").read_text())["seeds"]
    runtimes = {name: _command(name, build) for name in SCRIPTS}
    for file, (name, output) in RECORDED.items():
        content = _head(name, runtimes) | {"output": output}
        content["draws"] = _record(runtimes[name], [(answers[file], 0, output)])[0]
        _write(HERE / file, content)
    for name in SCRIPTS:
        jobs = [(seed, 0, output) for output in _outputs(name) for seed in _seeds(name)]
        jobs += [(3141592653, skip, output) for output in _outputs(name) for skip in SKIPS]
        lines = zip(jobs, _record(runtimes[name], jobs), strict=True)
        vectors = [
            {"seed": seed, "skip": skip, "output": output, "draws": draws} for (seed, skip, output), draws in lines
        ]
        _write(VECTORS / f"{name}.json", _head(name, runtimes) | {"vectors": vectors})


def _command(name: str, build: Path) -> list[str]:
    return {
        "php-mt_rand": ["php", str(HERE / "record.php")],
        "java-random": ["java", "-cp", str(build), "Record"],
        "python-random": [sys.executable, str(HERE / "record_python.py")],
        "xorshift32": [str(build / "record")],
    }[name]


def _head(name: str, runtimes: dict[str, list[str]]) -> dict[str, Any]:
    version = subprocess.run([*runtimes[name], "--version"], check=True, capture_output=True, text=True).stdout.strip()
    provenance = {"runtime": version, "script": SCRIPTS[name], "command": "examples/draws/record.sh"}
    return {"schema": 1, "generator": name, "provenance": provenance}


def _record(command: list[str], jobs: list[tuple[int, int, Output]]) -> list[list[int | float]]:
    lines = [" ".join(map(str, [seed, skip, DRAWS, *output.values()])) for seed, skip, output in jobs]
    done = subprocess.run(command, input="\n".join(lines) + "\n", check=True, capture_output=True, text=True)
    return [json.loads(f"[{line.replace(' ', ',')}]") for line in done.stdout.splitlines()]


def _seeds(name: str) -> list[int]:
    if name == "java-random":
        return [*EDGES, *BEYOND]
    return [*EDGES, *BEYOND, 2**64 - 1] if name == "python-random" else EDGES


def _outputs(name: str) -> list[Output]:
    sizes = [2, 8, 57, 1000, 1024, 2**30, 2**30 + 1]
    if name == "php-mt_rand":
        ranges = [(1, size) for size in [*sizes, 2**31 + 1, 3 * 2**30, 2**32]] + [(-50, 49), (5, 5)]
        return [{"kind": "exact"}, *({"kind": "range", "min": low, "max": high} for low, high in ranges)]
    if name == "java-random":
        return [{"kind": "int"}, *({"kind": "bound", "bound": size} for size in [1, *sizes, 2**31 - 1])]
    if name == "python-random":
        return [{"kind": "random"}, *({"kind": "randrange", "stop": size} for size in [1, *sizes, 2**32 - 1])]
    return [{"kind": "exact"}, *({"kind": "mod", "modulus": size} for size in [1, *sizes, 2**32 - 1])]


def _write(path: Path, content: dict[str, Any]) -> None:
    lines = [f"{json.dumps(key)}: {_lines(value)}" for key, value in content.items()]
    path.write_text("{\n  " + ",\n  ".join(lines) + "\n}\n")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n    " + ",\n    ".join(json.dumps(item) for item in value) + "\n  ]"
    return json.dumps(value)


main(Path(sys.argv[1]))
