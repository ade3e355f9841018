"""Refusals of `submit` that name the option as it was typed."""

from __future__ import annotations

import pytest

from hostler.cli.submitting import _option_of
from hostler.client.refusals import BEGIN, in_callers_words
from hostler.model.errors import SpecError
from tests.cli.conftest import Hostler
from tests.cli.fake_groups import FakeController


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--output", "../x"], "--output: '../x' leads out of the folder"),
        (["--file", "/x"], "--file: '/x' leads out of the folder"),
        (["--gpu-model", "4090", "--device", "cpu"], "--gpu-model 4090 names GPUs, and --device is cpu"),
        (["--walltime-s", "-1"], "--walltime-s -1 is too little; give more than 0"),
        (["--own-dir", "--cwd", "."], "--own-dir sends no files, and --cwd names a folder"),
        (["--name", ""], "--name is empty. Give a name, or leave it out"),
        (["--name", "j1"], "--name j1 looks like the id of a job"),
        (["--name", "g7"], "--name g7 looks like the id of a job"),
    ],
)
def test_refusal_names_the_option_as_it_was_typed(
    fake: FakeController, hostler: Hostler, words: list[str], message: str
) -> None:
    said = hostler("submit", *words, "--", "true")
    assert (said.status, said.out) == (2, "")
    assert message in said.err


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("retry.max_attempts.exit", "--max-attempts exit"),
        ("payload.outputs[1]", "--output"),
        ("payload.env.SEED", "--env SEED"),
        ("walltime_s", "--walltime-s"),
    ],
)
def test_field_below_another_is_named_as_an_option(field: str, option: str) -> None:
    with pytest.raises(SpecError) as refused, in_callers_words(_option_of):
        raise SpecError(f"{BEGIN}jobs[0].{field}: should be greater than 0 (found -1)")
    assert str(refused.value) == f"nothing was submitted: {option}: should be greater than 0 (found -1)"


def test_field_below_another_is_named_as_python_has_it() -> None:
    with pytest.raises(SpecError, match=r"submitted: max_attempts\.exit: should be"), in_callers_words():
        raise SpecError(f"{BEGIN}jobs[0].retry.max_attempts.exit: should be greater than 0")
