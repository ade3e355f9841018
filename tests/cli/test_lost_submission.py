"""A submission whose controller ends before it has answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hostler.model.errors import LinkLost
from tests.cli.conftest import Hostler
from tests.cli.fake_groups import FakeController


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["--key", "k"], "under the same key it is the same job"),
        ([], "`hostler jobs` lists it if it was submitted"),
    ],
)
def test_submission_that_was_cut_ends_with_the_status_of_an_absent_controller_and_a_remedy(
    fake: FakeController, hostler: Hostler, monkeypatch: pytest.MonkeyPatch, words: list[str], remedy: str
) -> None:
    def cut(specs: Sequence[Any], *, strict: bool) -> Any:
        raise LinkLost("http://127.0.0.1:1 stopped answering")

    monkeypatch.setattr("hostler.cli.submission.client", lambda *_: fake)
    monkeypatch.setattr("hostler.cli.submission.is_here", lambda *_: False)
    monkeypatch.setattr(fake, "submit_jobs", cut)
    monkeypatch.setattr(fake, "send_folders", lambda specs, *_: type("Sent", (), {"specs": specs, "folders": ()})())
    said = hostler("submit", "--own-dir", *words, "--", "true")
    assert (said.status, said.out) == (3, "")
    assert remedy in said.err
