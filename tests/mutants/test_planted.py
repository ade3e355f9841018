"""Mutants fit the code that there is, and a run tells those that tests notice from those they do not."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.mutants import drawing
from tests.mutants.drawing import Drawn
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.places import SOURCE, NotThere, Place, replaced, symbol_at
from tests.mutants.planted import PLANTED, Planted
from tests.mutants.playing import Copy, Unplayable, Verdict, outcome
from tests.mutants.reaching import Reach, _reaching, _seconds

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"durability", "order", "fencing", "validation", "limits", "access", "counting"}
MODULE = "def double(number):\n    while number < 0:\n        number += 1\n    return 2 * number\n"
NOTICING = (
    "from hostler.sums import double\n\n\ndef test_double():\n    assert double(-1) == 0\n    assert double(2) == 4\n"
)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_planted_defect_fits_the_code(planted: Planted) -> None:
    source = (ROOT / SOURCE / planted.place.file).read_text()
    changed = replaced(ROOT, planted.place, planted.new)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    assert planted.tests
    assert all((ROOT / each).exists() for each in planted.tests)


def test_planted_defects_are_of_every_kind() -> None:
    assert len(PLANTED) >= 20
    assert {each.kind for each in PLANTED} == KINDS
    assert len({each.name for each in PLANTED}) == len(PLANTED)


def test_equivalent_mutants_fit_the_code() -> None:
    for each in EQUIVALENT:
        lines = [line.strip() for line in (ROOT / SOURCE / each.file).read_text().splitlines()]
        assert each.before in lines, f"{each.file} has no line {each.before!r} any more"
        assert each.before != each.after
        assert len(each.why) > 20


@pytest.mark.parametrize(
    ("symbol", "old"),
    [
        ("double", "return 3 * number"),  # a text that is not there
        ("double", "number"),  # that is there more than once
        ("triple", "number"),  # a symbol that is not there
        ("", "import os"),
    ],
)
def test_place_that_does_not_fit_is_an_error(tmp_path: Path, symbol: str, old: str) -> None:
    (tmp_path / SOURCE).mkdir(parents=True)
    (tmp_path / SOURCE / "sums.py").write_text(MODULE)
    with pytest.raises(NotThere):
        replaced(tmp_path, Place(file="sums.py", symbol=symbol, old=old), "pass")
    with pytest.raises(NotThere):
        replaced(tmp_path, Place(file="gone.py", symbol=symbol, old=old), "pass")


def test_symbol_of_a_line_is_the_innermost() -> None:
    source = "class A:\n    @property\n    def b(self):\n        if True:\n            return 1\n\n\nX = 1\n"
    assert [symbol_at(source, line) for line in (1, 2, 5, 8)] == ["A", "A.b", "A.b", ""]


def test_mutant_that_is_not_python_is_replaced_in_the_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another one of its line; where the line has none, by one of a line that was not drawn."""

    def made(line: int, operator: str) -> Drawn:
        return Drawn(group="ledger", file="sums.py", operator=operator, occurrence=0, line=line)

    def places(*lines: Sequence[str]) -> dict[tuple[str, int], list[Drawn]]:
        return {("sums.py", at): [made(at, each) for each in line] for at, line in enumerate(lines)}

    monkeypatch.setattr(drawing, "mutated", lambda _, mutant: mutant.operator)
    own = places(["x = 1"], ["{//x}", "x = 2"], ["{^x}"], ["def f(a, |, b): ...", "x = 3"])
    picked = [own["sums.py", at][0] for at in range(3)]
    found = drawing._readable(tmp_path, picked, own, Random(1))
    assert [(each.line, each.operator) for each in found] == [(0, "x = 1"), (1, "x = 2"), (3, "x = 3")]


def test_tests_of_a_line_are_those_that_reach_it(tmp_path: Path) -> None:
    reach = Reach(
        tests={"sums.py": {1: (), 3: ("quick", "slow")}},
        missed={"sums.py": frozenset({4})},
        all=("quick", "other", "slow"),
        seconds=1.0,
    )
    assert reach.of("sums.py", 3) == ("quick", "slow")
    assert reach.of("sums.py", 1) == ("quick", "other", "slow"), "it is not known which reach it"
    assert reach.of("sums.py", 2) == ("quick", "other", "slow"), "the rest of a statement"
    assert reach.of("sums.py", 4) == ()
    assert _reaching(("slow",), ("quick", "slow")) == ("slow", "quick"), "it is reached in another thread, too"
    times = tmp_path / "times.xml"
    times.write_text(
        '<testsuites><testsuite><testcase classname="tests.a.TestB" name="test_c[1]" time="0.25"/>'
        '<testcase classname="tests.a.TestB" name="test_c[2]" time="0.5"/></testsuite></testsuites>'
    )
    assert _seconds(times) == {"tests.a.TestB.test_c": 0.75}


@pytest.mark.services
def test_mutants_are_killed_survive_or_hang(tmp_path: Path) -> None:
    """Each is taken out again before the next."""
    tree = tmp_path / "tree"
    for name, text in {
        f"{SOURCE}/__init__.py": "",
        f"{SOURCE}/sums.py": MODULE,
        "tests/test_sums.py": NOTICING,
        "conftest.py": "from hypothesis import settings\nsettings.register_profile('same-examples')\n",
        "tests/loaded/conftest.py": "import hostler.sums\n",
        "tests/loaded/test_nothing.py": "def test_nothing():\n    pass\n",
        "tests/test_failing.py": "def test_failing():\n    assert not 1\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    copy, own = Copy(tree, tmp_path / "copy"), ["tests/test_sums.py"]
    assert outcome(copy.root, own, 60).verdict is Verdict.SURVIVES
    killed = copy.play("sums.py", MODULE.replace("2 *", "3 *"), own, 60)
    assert (killed.verdict, killed.by) == (Verdict.KILLED, "tests/test_sums.py::test_double")
    assert copy.play("sums.py", MODULE.replace("2 *", "number *"), own, 60).verdict is Verdict.SURVIVES
    assert copy.play("sums.py", MODULE.replace("+= 1", "-= 1"), own, 5).verdict is Verdict.HANGS
    assert copy.play("sums.py", "nonsense(", own, 60).verdict is Verdict.KILLED
    assert copy.play("sums.py", "1 / 0", ["tests/loaded/test_nothing.py"], 60).verdict is Verdict.KILLED
    one = ["tests/test_sums.py::test_double"]
    assert copy.play("sums.py", "1 / 0", one, 60).verdict is Verdict.KILLED
    assert outcome(copy.root, one, 60).verdict is Verdict.SURVIVES
    assert copy.play("sums.py", MODULE, ["tests/loaded/test_nothing.py"], 60).verdict is Verdict.SURVIVES
    assert outcome(copy.root, own, 60).verdict is Verdict.SURVIVES
    assert outcome(copy.root, ["tests/test_failing.py"], 60).verdict is Verdict.KILLED
    with pytest.raises(Unplayable):
        outcome(copy.root, ["tests/test_gone.py"], 60)
    with pytest.raises(Unplayable):
        outcome(copy.root, ["tests/test_sums.py::test_gone"], 60)


@pytest.mark.services
def test_command_refuses_what_does_not_fit(tmp_path: Path) -> None:
    """In a copy of the tree whose code has moved on."""
    copy = Copy(ROOT, tmp_path / "copy")
    ledger = copy.root / SOURCE / "core" / "ledger.py"
    ledger.write_text(ledger.read_text().replace("_merge(self.done, (start, position))", "_note(self, position)"))
    done = subprocess.run(
        [sys.executable, "scripts/mutants.py", "--list", "--drawn", "0"],
        cwd=copy.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "ledger-settles-one-item-too-many does not fit the code" in done.stderr
