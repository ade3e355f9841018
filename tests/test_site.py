"""The documentation site: what `make docs` refuses, and what its pages need of other hosts."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = """
[project]
site_name = "Test"
docs_dir = "build/site-source"
site_dir = "build/site"
nav = ["README.md", { "Guides" = ["docs/one.md"] }]
"""
ONE = """# One

## A part

[The other](../README.md#install), [this part](#a-part), [a unit](../packaging/a.service).

```python train.py
print("trained")
```

## After a block
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None, reason="there is no zensical: `make env` installs it"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of two pages, with the theme of this one."""
    theme = (ROOT / "zensical.toml").read_text().partition("[project.theme]")[2]
    (tmp_path / "zensical.toml").write_text(f"{SETTINGS}\n[project.theme]{theme}")
    (tmp_path / "README.md").write_text("# Test\n\n## Install\n\n[One](docs/one.md#after-a-block)\n")
    for folder in ("docs", "packaging"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs/one.md").write_text(ONE)
    (tmp_path / "packaging/a.service").write_text("[Unit]\n")
    return tmp_path


def made(project: Path) -> tuple[int, str]:
    """The exit status of the script, and what it printed."""
    ended = subprocess.run(
        [sys.executable, ROOT / "scripts/make_site.py", project],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


def test_site_has_pages_and_linked_files_and_needs_no_other_host(project: Path) -> None:
    status, printed = made(project)
    assert status == 0, printed
    site = project / "build/site"
    page = (site / "docs/one/index.html").read_text()
    assert (site / "packaging/a.service").is_file()
    assert "train.py</span>" in page
    assert re.findall(r"<(?:script|link|img)\b[^>]*\b(?:src|href)=\"?https?:[^>]*>", page) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        pytest.param("docs/one.md", "#install", "#instal", "docs/one.md:5", id="anchor"),
        *(
            pytest.param(*planted, id=name, marks=pytest.mark.services)  # a build of the site each
            for name, *planted in (
                ("link", "docs/one.md", "../README.md#install", "../READYOU.md", "docs/one.md:5"),
                ("file", "docs/one.md", "a.service", "b.service", "docs/one.md links packaging/b.service"),
                ("page outside", "zensical.toml", '"docs/one.md"', "", "docs/one.md is not in the navigation"),
                (
                    "no page",
                    "zensical.toml",
                    '"docs/one.md"',
                    '"docs/one.md", "docs/two.md"',
                    "names docs/two.md, which",
                ),
            )
        ),
    ],
)
def test_planted_fault_fails_the_build_and_is_named(project: Path, file: str, old: str, new: str, message: str) -> None:
    text = (project / file).read_text()
    assert text.count(old) == 1
    (project / file).write_text(text.replace(old, new))
    status, printed = made(project)
    assert status == 1
    assert message in printed
    assert "Traceback" not in printed
