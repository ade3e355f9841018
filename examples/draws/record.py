"""Called by record.sh with the folder of the compiled recorders: asks the real runtimes and writes the JSON files.

Each recorder reads lines ``SEED SKIP COUNT KIND [ARGUMENT ...]`` and writes one line of outputs for each. A kind such
as ``rand:range`` is an output of kind ``range`` that the runtime was asked for by another call.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parents[1] / "tests" / "workloads" / "sieve" / "vectors"
DRAWS = 12
FEW = 4
EDGES = [0, 1, 2, 3, 12345, 2**30, 2**31 - 1, 2**31, 2**31 + 1, 3141592653, 2**32 - 2, 2**32 - 1]
BEYOND = [2**32, 2**32 + 1, 2**40 + 77, 0x5DEECE66D, 2**48 - 1]
SKIPS = [0, 1, 225, 300, 623, 1250]
SIZES = [2, 8, 57, 1000, 1024, 2**30, 2**30 + 1]
SEED = 3141592653
SHORT = [0, 1, 12345, 2**31 - 1]
LARGE = [2**32 + 1, 2**64 - 1]

Output = dict[str, Any]
Seed = int | str
Job = tuple[Seed, int, Output]

# File in this folder -> generator and kind of output; the seeds are in answers.json.
RECORDED: dict[str, tuple[str, Output]] = {
    "php.json": ("php-mt_rand", {"kind": "range", "min": 1, "max": 1000}),
    "php-exact.json": ("php-mt_rand", {"kind": "exact"}),
    "java.json": ("java-random", {"kind": "bound", "bound": 1000}),
    "python.json": ("python-random", {"kind": "randrange", "stop": 1000}),
    "python-random.json": ("python-random", {"kind": "random"}),
    "xorshift32.json": ("xorshift32", {"kind": "mod", "modulus": 1000}),
}


@dataclass(frozen=True)
class Recorder:
    """A runtime as a recorder: the script, and the command that starts it (the generator's name is put behind it)."""

    script: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """What to record of a generator: every output from every seed, and the outputs after each skip from one seed.

    ``extra`` are outputs from a few of the seeds only.
    """

    recorder: str
    outputs: Sequence[Output]
    seeds: Sequence[Seed]
    skips: Sequence[int] = (0, 1, 40)
    extra: Sequence[Output] = ()
    skipped_seed: int = SEED

    def jobs(self) -> list[Job]:
        """All lines to ask the recorder for."""
        jobs: list[Job] = [(seed, 0, output) for output in self.outputs for seed in self.seeds]
        jobs += [(self.skipped_seed, skip, output) for output in self.outputs for skip in self.skips]
        jobs += [(seed, 0, output) for output in self.extra for seed in self.seeds[1::4]]
        jobs += [(self.skipped_seed, skip, output) for output in self.extra for skip in self.skips[1:3]]
        return jobs


def main(build: Path) -> None:
    """Write the draws of every data file and the vectors of every generator."""
    answers = json.loads((HERE / "answers.json").read_text())["seeds"]
    recorders, wanted = _recorders(build), _wanted()
    for file, (name, output) in RECORDED.items():
        recorder = recorders[wanted[name].recorder]
        content = _head(name, recorder) | {"output": output}
        content["draws"] = _record(recorder, name, [(answers[file], 0, output)])[0]
        _write(HERE / file, content)
    for name, asked in wanted.items():
        if asked.recorder not in recorders:
            print(f"record.py: {name} is left as it is: {asked.recorder} was not given")
            continue
        recorder, jobs = recorders[asked.recorder], asked.jobs()
        lines = zip(jobs, _record(recorder, name, jobs), strict=True)
        vectors = [_vector(seed, skip, output, draws) for (seed, skip, output), draws in lines]
        file_name = name.split(",")[0].replace(":", "-")
        _write(VECTORS / f"{file_name}.json", _head(name, recorder) | {"vectors": vectors})


def _recorders(build: Path) -> dict[str, Recorder]:
    exports = ("--add-modules", "jdk.random", "--add-exports", "jdk.random/jdk.random=ALL-UNNAMED")
    java = ("java", *exports, "-cp", str(build), "Record")
    commands = {
        "php": Recorder("record.php", ("php", str(HERE / "record.php"))),
        "java": Recorder("Record.java", java),
        "python": Recorder("record_python.py", (sys.executable, str(HERE / "record_python.py"))),
        "numpy": Recorder("record_numpy.py", (sys.executable, str(HERE / "record_numpy.py"))),
        "c": Recorder("record.c", (str(build / "record"),)),
        "glibc": Recorder("record_glibc.c", (str(build / "record_glibc"),)),
        "cpp": Recorder("record.cpp", (str(build / "record_cpp"),)),
        "ruby": Recorder("record.rb", ("ruby", str(HERE / "record.rb"))),
        "go": Recorder("record.go", (str(build / "record_go"),)),
        "mono": Recorder("record.cs", ("mono", str(build / "record.exe"))),
        "lua": Recorder("record.lua", ("lua5.4", str(HERE / "record.lua"))),
    }
    for version in ("NODE", "NODE11", "NODE24", "NODE26"):
        if node := os.environ.get(version):
            commands[version] = Recorder("record.js", (node, str(HERE / "record.js")))
    return commands


def _wanted() -> dict[str, Wanted]:
    return {**_runtimes(), **_bare()}


def _kind(kind: str, **arguments: int) -> Output:
    return {"kind": kind, **arguments}


def _each(kind: str, argument: str, values: Sequence[int]) -> list[Output]:
    return [_kind(kind, **{argument: value}) for value in values]


def _ranges(kind: str, *ends: tuple[int, int]) -> list[Output]:
    return [_kind(kind, min=low, max=high) for low, high in ends]


def _runtimes() -> dict[str, Wanted]:
    upwards = [(1, size) for size in SIZES]
    php = [_kind("exact"), *_ranges("range", *upwards, (1, 2**31 + 1), (1, 3 * 2**30), (1, 2**32), (-50, 49), (5, 5))]
    shuffles = _each("shuffle", "n", [2, 5, 52])
    also_php = [_kind("rand:exact"), *_ranges("rand:range", (1, 1000), (1, 64)), *_ranges("array_rand:range", (0, 51))]
    java = [_kind("int"), *_each("bound", "bound", [1, *SIZES, 2**31 - 1])]
    also_java = [_kind("long"), _kind("double"), _kind("float"), _kind("boolean"), *_each("bytes", "n", [1, 6, 8])]
    python = [_kind("random"), *_each("randrange", "stop", [1, *SIZES, 2**32 - 1])]
    also_python = [*_ranges("range", (1, 6), (-10, 10)), *_each("floor", "n", [10, 1000, 2**31 + 1])]
    also_python += [*_each("getrandbits", "k", [1, 31, 32, 33, 64, 100]), *_each("choice:randrange", "stop", [52])]
    below, bytes_ = _each("below", "n", [1, *SIZES, 2**32 - 1, 2**32]), _each("bytes", "n", [1, 4, 7])
    floors, ranges = _each("floor", "n", [10, 1000, 2**31 + 1]), _ranges("range", (1, 6), (-50, 50))
    legacy = [_kind("float"), *below, *ranges, *floors, *bytes_, *shuffles]
    modern = [_kind("exact"), _kind("float"), *below, *ranges, *floors, *_each("choice:below", "n", [52])]
    ruby = [_kind("float"), *below, *ranges, *floors, *bytes_, *shuffles, *_each("sample:below", "n", [52])]
    dotnet = [_kind("exact"), _kind("double"), *_each("below", "n", [1, *SIZES, 2**31 - 1]), *ranges]
    dotnet += [*_ranges("range", (-(2**30), 2**30 - 2)), *_each("mod", "modulus", [10, 1000]), *bytes_]
    go = [_kind("int63"), _kind("uint64"), _kind("int31"), _kind("uint32"), _kind("float64")]
    go += [*_each("intn", "n", [1, *SIZES, 2**31 - 1, 2**31, 3 * 2**40]), *_each("int63n", "n", [10, 64, 3 * 2**61])]
    go += [*_each("perm", "n", [2, 5, 52]), *shuffles]
    lua = [_kind("integer"), _kind("float"), *_each("below", "n", [1, *SIZES, 2**40 + 1]), *ranges, *floors]
    v8 = [_kind("float"), *_each("floor", "n", [2, 10, 1000])]
    texts = ["text:", "text:hello", "text:correct-horse-battery-staple", "text:Grüße"]
    return {
        "php-mt_rand": Wanted("php", php, EDGES, SKIPS, [*shuffles, *also_php]),
        "php5-mt_rand": Wanted("php", php[:1] + php[3:6] + php[8:12], EDGES[::2], SKIPS),
        "java-random": Wanted("java", java, [*EDGES, *BEYOND], SKIPS, [*also_java, *floors[:2], *shuffles]),
        "python-random": Wanted("python", python, [*EDGES, *BEYOND, 2**64 - 1], SKIPS, [*also_python, *shuffles]),
        "python-random-seeds": Wanted("python", python[:1], [*texts, -5, 2**100 + 1], [0]),
        "glibc-rand": _glibc("glibc-rand"),
        **{name: _glibc(name) for name in ("glibc-type0", "glibc-type1", "glibc-type2", "glibc-type4")},
        "ruby-random": Wanted("ruby", ruby, [*SHORT, -7, 2**32 + 5, 2**33 + 5, 2**64 - 1, 2**70], (0, 1, 650)),
        "numpy-randomstate": Wanted("numpy", [*legacy, *_each("permutation:shuffle", "n", [7])], SHORT, (0, 1, 650)),
        "numpy-pcg64": Wanted("numpy", modern, [*SHORT, *LARGE, 2**130 + 9]),
        "numpy-sfc64": Wanted("numpy", modern[:4] + modern[-6:], [*SHORT, *LARGE]),
        "v8-random": Wanted("NODE", v8, SHORT[1:], (60, 64, 130), skipped_seed=777),
        # From seed 555 half of the state becomes NaN when the first cache is used up.
        "v8-random-2015": Wanted("NODE11", v8, SHORT[1:], (60, 64, 130), skipped_seed=555),
        "v8-random-2025": Wanted("NODE24", v8, SHORT[1:], (60, 64, 130), skipped_seed=777),
        "v8-random-2026": Wanted("NODE26", v8, SHORT[1:], (60, 64, 130), skipped_seed=777),
        "dotnet-random": Wanted("mono", dotnet, [*SHORT, -5, -(2**31), 161803398], (0, 1, 60), skipped_seed=271828182),
        "go-rand": Wanted("go", go, [*SHORT, -1, 2**62 + 3, 89482311], (0, 1, 620)),
        "lua-random": Wanted("lua", lua, [*SHORT, -5, 2**62 + 3]),
    }


def _glibc(name: str) -> Wanted:
    outputs = [_kind("exact"), *_each("mod", "modulus", [2, 57, 1000]), *_each("floor", "n", [6, 1000])]
    return Wanted("glibc", outputs, EDGES, (0, 1, 70))


def _bare() -> dict[str, Wanted]:
    outputs = [_kind("exact"), *_each("mod", "modulus", [1, *SIZES, 2**32 - 1])]
    short = [outputs[0], outputs[5]]
    wide = [*SHORT, SEED, *LARGE, 0x0123456789ABCDEF]
    marsaglia = 123456789 | 362436069 << 32 | 521288629 << 64 | 88675123 << 96
    return {
        "xorshift32": Wanted("c", outputs, EDGES, SKIPS),
        "xorshift64": Wanted("c", short, wide),
        "xorshift64star": Wanted("c", short, wide),
        "xorshift128": Wanted("c", short, [*wide, marsaglia, 2**128 - 1]),
        "xoshiro256plusplus": Wanted("java", [_kind("exact"), _kind("float")], wide),
        "splitmix64": Wanted("java", [_kind("exact"), _kind("float")], wide),
        "pcg32": Wanted("cpp", short, wide),
        "pcg32-54": Wanted("cpp", short, [42, *wide]),
        "philox4x32-10": Wanted("cpp", short, wide),
        "minstd-rand0": Wanted("cpp", short, EDGES),
        "minstd-rand": Wanted("cpp", short, EDGES),
        "lcg:1664525,1013904223,4294967296,0": Wanted("cpp", short, EDGES),
        "lcg:25214903917,11,281474976710656,16": Wanted("glibc", short, [*EDGES, *BEYOND]),
    }


def _vector(seed: Seed, skip: int, output: Output, draws: list[Any]) -> dict[str, Any]:
    """One vector; a kind such as ``rand:range`` leaves the other call as a note."""
    call, _, kind = output["kind"].rpartition(":")
    note = {"call": call} if call else {}
    return {"seed": seed, "skip": skip, "output": output | {"kind": kind}, **note, "draws": draws}


def _head(name: str, recorder: Recorder) -> dict[str, Any]:
    asked = [*recorder.command, "--version"]
    version = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    provenance = {"runtime": version, "script": recorder.script, "command": "examples/draws/record.sh"}
    return {"schema": 1, "generator": name.removesuffix("-seeds"), "provenance": provenance}


def _record(recorder: Recorder, name: str, jobs: list[Job]) -> list[list[Any]]:
    lines = [" ".join(map(str, [seed, skip, _count(output), *output.values()])) for seed, skip, output in jobs]
    asked = [*recorder.command, name]
    done = subprocess.run(asked, input="\n".join(lines) + "\n", check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(f"[{line.replace(' ', ',')}]") for line in done.stdout.splitlines()]


def _count(output: Output) -> int:
    return FEW if output["kind"].endswith(("shuffle", "perm", "bytes")) else DRAWS


def _write(path: Path, content: dict[str, Any]) -> None:
    lines = [f"{json.dumps(key)}: {_lines(value)}" for key, value in content.items()]
    path.write_text("{\n  " + ",\n  ".join(lines) + "\n}\n")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n    " + ",\n    ".join(json.dumps(item) for item in value) + "\n  ]"
    return json.dumps(value)


main(Path(sys.argv[1]))
