"""docs/get-started/python.md and examples/python.ipynb: executed block by block, for a controller that is new."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostler.client.specs import JobOptions
from hostler.client.submission import OWN
from tests.integration.conftest import a_fleet
from tests.integration.guides import FOLDER, Interpreter, environment_of, execute

NOTEBOOK = FOLDER.parents[1] / "examples/python.ipynb"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with a_fleet(tmp_path_factory.mktemp("fleet"), nodes=[{"name": "here", "cpu_slots": 2, "gpus": "none"}]) as made:
        made.start()
        yield made.state


@pytest.mark.services
def test_guide_of_python_is_executed_block_by_block(state: Path, tmp_path: Path) -> None:
    execute("python.md", tmp_path, {"HOSTLER_STATE_DIR": str(state)})


def test_guide_of_python_lists_every_option() -> None:
    text = (FOLDER / "python.md").read_text()
    assert [name for name in (*JobOptions.__annotations__, *OWN) if f"`{name}`" not in text] == []


@pytest.mark.services
def test_example_notebook_runs_and_shows_what_it_shows(state: Path, tmp_path: Path) -> None:
    """Each cell prints what the notebook was saved with, but for times and ids; its last value is shown as a table."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5
    with ExitStack() as stack:
        python = Interpreter(tmp_path, environment_of(tmp_path, {"HOSTLER_STATE_DIR": str(state)}), stack)
        for cell in cells:
            printed = python.play(_shown("".join(cell["source"])))
            saved = "".join("".join(output.get("text", "")) for output in cell["outputs"])
            assert "Traceback" not in printed, printed
            tables = ["".join(output["data"]["text/html"]) for output in cell["outputs"] if "data" in output]
            for line in saved.splitlines():
                assert line in printed.splitlines()
            for table in tables:
                heads = [part.partition("</th>")[0] for part in table.split("<th>")[1:]]
                assert heads
                assert all(f"<th>{head}</th>" in printed for head in heads)


def _shown(source: str) -> str:
    """A cell with its last expression shown as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr) or "print(" in ast.unparse(last):
        return source
    lines = source.splitlines()
    before, value = "\n".join(lines[: last.lineno - 1]), "\n".join(lines[last.lineno - 1 :])
    return f"{before}\n_value = (\n{value}\n)\nprint(getattr(_value, '_repr_html_', lambda: repr(_value))())\n"
