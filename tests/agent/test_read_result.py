"""Reading what an attempt left as its result."""

from __future__ import annotations

import os
from pathlib import Path

from hostler.agent.attempts import read_result


def test_result_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('"of the owner"')
    (tmp_path / "result").symlink_to(tmp_path / "secret")
    result, fault = read_result(str(tmp_path / "result"), 1000)
    assert result is None
    assert fault == "the result is a symbolic link, which is not followed; write or copy the file"


def test_result_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "result")
    assert read_result(str(tmp_path / "result"), 1000) == (None, "the result is no regular file")
