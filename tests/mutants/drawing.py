"""Mutants that cosmic-ray makes of the modules on which most depends: one operator, number, keyword or branch each."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random
from warnings import catch_warnings

from hostler.model.record import record
from tests.mutants.places import SOURCE, symbol_at


@record
class Drawn:
    """One change of one operator."""

    group: str
    file: str
    operator: str
    occurrence: int
    line: int
    symbol: str = ""
    before: str = ""
    """The line as it is,"""
    after: str = ""
    """and as it would be."""

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.file}:{self.line} {self.symbol or 'module'}: {self.before} -> {self.after}"


@record
class Group:
    """Modules, and the tests that look after them."""

    files: Sequence[str]
    tests: Sequence[str]


GROUPS: Mapping[str, Group] = {
    "journal": Group(
        files=["store/journal.py", "store/appending.py", "store/checking.py", "runtime/writer.py"],
        tests=[
            "tests/store/test_journal.py",
            "tests/store/test_checking.py",
            "tests/store/test_compacting.py",
            "tests/store/test_past.py",
            "tests/store/test_finding.py",
            "tests/store/test_leading.py",
            "tests/store/test_rows.py",
            "tests/store/test_usage.py",
            "tests/store/test_refused.py",
            "tests/store/test_standing_still.py",
            "tests/store/test_private.py",
            "tests/store/test_settling.py",
            "tests/runtime/test_writer.py",
            "tests/runtime/test_pump.py",
        ],
    ),
    "ledger": Group(
        files=["core/ledger.py"],
        tests=["tests/core/test_ledger.py", "tests/core/test_sweeps.py", "tests/core/test_tally.py"],
    ),
    "messages of nodes": Group(
        files=["backends/facts.py", "backends/bounds.py", "core/ownership.py", "core/reports.py", "core/conduct.py"],
        tests=[
            "tests/backends/test_facts.py",
            "tests/backends/test_messages.py",
            "tests/backends/test_bounds.py",
            "tests/core/test_reports.py",
        ],
    ),
    "access": Group(
        files=["web/door.py", "web/guard.py", "web/sessions.py", "core/access/intake.py", "core/access/state.py"],
        tests=[
            "tests/core/test_access.py",
            "tests/web/test_access.py",
            "tests/web/test_guard.py",
            "tests/web/test_session.py",
        ],
    ),
    "retention": Group(
        files=["policy/retention.py", "runtime/disks/tombs.py"],
        tests=["tests/policy/test_retention.py", "tests/runtime/disks"],
    ),
}
LEFT_OUT = ("VariableReplacer", "VariableInserter", "RemoveDecorator")
"""Operators that need a choice of names, or whose result no type checker would pass."""


def drawn(root: Path, number: int, seed: int) -> list[Drawn]:
    """About as many from each group, by a seed: equal for equal code. A group with fewer leaves more to the others."""
    if not number:
        return []
    random = Random(seed)
    found: list[Drawn] = []
    places = {name: _by_place(root, name) for name in GROUPS}
    for left, name in zip(range(len(places), 0, -1), sorted(places, key=lambda each: len(places[each])), strict=True):
        own = places[name]
        chosen = random.sample(sorted(own), min(len(own), (number - len(found)) // left))
        picked = [random.choice(own[place]) for place in chosen]
        found.extend(_readable(root, picked, own, Random(f"{seed} {name}")))
    return [_in_full(root, each) for each in found]


def _readable(
    root: Path, picked: Sequence[Drawn], own: Mapping[tuple[str, int], Sequence[Drawn]], spare: Random
) -> Iterator[Drawn]:
    """The same, with another of its line, else of a line that was not drawn, for each that is not Python.

    Cosmic-ray takes the `*` of a signature and the `**` of a dict for operators; any test notices that.
    """
    left = sorted(own.keys() - {(each.file, each.line) for each in picked})
    others = iter(spare.sample(left, len(left)))
    for each in picked:
        places = chain([(each.file, each.line)], others)
        made = (spare.sample(own[place], len(own[place])) for place in places)
        yield next(other for other in chain([each], chain.from_iterable(made)) if _is_python(mutated(root, other)))


def _is_python(source: str) -> bool:
    try:
        with catch_warnings(action="ignore", category=SyntaxWarning):
            compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _by_place(root: Path, group: str) -> dict[tuple[str, int], list[Drawn]]:
    """One change of a line is drawn: of `<` there are five others, which differ little."""
    places: dict[tuple[str, int], list[Drawn]] = {}
    for file in GROUPS[group].files:
        for each in possible(root, group, file):
            places.setdefault((each.file, each.line), []).append(each)
    return places


def _in_full(root: Path, mutant: Drawn) -> Drawn:
    """The same, with the line as it is and as it would be."""
    source = (root / SOURCE / mutant.file).read_text()
    before, after, at = source.splitlines(), mutated(root, mutant).splitlines(), mutant.line - 1
    return replace(
        mutant,
        symbol=symbol_at(source, mutant.line),
        before=before[at].strip(),
        after=after[at].strip() if at < len(after) else "",
    )


def mutated(root: Path, mutant: Drawn) -> str:
    """The source of the file with the mutant in it."""
    import parso.python.tree  # noqa: F401 - before cosmic_ray, which imports it in a circle
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (root / SOURCE / mutant.file).read_text()
    code: str | None = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    assert code is not None, mutant.name
    return code


def possible(root: Path, group: str, file: str) -> Iterator[Drawn]:
    """Every mutant of a file, without those of annotations, which nothing runs."""
    import parso.python.tree  # noqa: F401 - before cosmic_ray, which imports it in a circle
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    source = (root / SOURCE / file).read_text()
    nodes, unread = list(ast_nodes(get_ast(source))), _annotations(source)
    for name in sorted(operator_names()):
        if any(each in name for each in LEFT_OUT):
            continue
        operator, occurrence = get_operator(name)(), -1
        for node in nodes:
            for (line, column), _ in operator.mutation_positions(node):
                occurrence += 1
                if not any(first <= (line, column) < last for first, last in unread):
                    yield Drawn(group=group, file=file, operator=name, occurrence=occurrence, line=line)


def _annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end: `from __future__ import annotations` keeps them from being evaluated."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            found.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
    return [
        ((each.lineno, each.col_offset), (each.end_lineno or each.lineno, each.end_col_offset or 0)) for each in found
    ]
