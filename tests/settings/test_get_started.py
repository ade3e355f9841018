"""The fleet files and jobs files printed on the pages of docs/get-started are accepted by the settings."""

import re
from pathlib import Path

import pytest

from hostler.settings import load, load_jobs
from hostler.settings.reading import read_file

PAGES = Path(__file__).resolve().parents[2] / "docs" / "get-started"
BLOCK = re.compile(r"^```ya?ml[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(block.group(1), id=f"{page.name}:{page.read_text()[: block.start()].count(chr(10)) + 1}")
    for page in sorted(PAGES.glob("*.md"))
    for block in BLOCK.finditer(page.read_text())
]


def test_pages_have_yaml_blocks() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("text", BLOCKS)
def test_yaml_block_of_a_page_is_accepted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    value = read_file(path).value
    if isinstance(value, list) or list(value) == ["jobs"]:
        assert load_jobs(path)
    else:
        load(path, {})
