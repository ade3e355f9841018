"""Folders of the jobs of a group: safe names, none of them twice."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from hostler.client.folders import LONGEST, UNFIT, folders_of
from hostler.model.errors import FilesError

TEXT = st.text(st.sampled_from("aA0.,=_/~j1 -ß\n\x00") | st.characters(), max_size=70)
PARAMETERS = st.dictionaries(TEXT, TEXT, max_size=3)


def rows(parameters: list[Mapping[str, str]]) -> list[dict[str, object]]:
    return [{"job": f"j{number + 1}", "parameters": some} for number, some in enumerate(parameters)]


@pytest.mark.parametrize(
    ("parameters", "folders"),
    [
        ([{"lr": "0.1", "bs": "16"}, {"lr": "0.2", "bs": "16"}], ["lr=0.1,bs=16", "lr=0.2,bs=16"]),
        ([{}, {}], ["j1", "j2"]),
        ([{"a": "x"}, {"a": "X"}, {"a": "y"}], ["a=x,j1", "a=X,j2", "a=y"]),
        ([{"a": "x"}, {"a": "x"}, {"a": "x,j1"}], ["a=x,j1", "a=x,j2", "a=x,j1,j3"]),
        ([{"data": "../../etc"}], ["data=.._.._etc"]),
        ([{"": ".."}, {"": "."}], ["=..", "=."]),
    ],
)
def test_folders_are_named_by_parameters(parameters: list[Mapping[str, str]], folders: list[str]) -> None:
    assert list(folders_of(rows(parameters)).values()) == folders


@given(st.lists(PARAMETERS, max_size=8))
def test_folders_are_safe_and_unique_whatever_the_parameters(parameters: list[Mapping[str, str]]) -> None:
    found = folders_of(rows(parameters))
    names = list(found.values())
    assert len({name.lower() for name in names}) == len(parameters)
    assert all(name not in ("", ".", "..") and len(name) <= LONGEST and not UNFIT.search(name) for name in names)
    assert folders_of(rows(parameters)) == found


@given(st.lists(PARAMETERS, max_size=8))
def test_folders_do_not_depend_on_the_order_of_the_rows(parameters: list[Mapping[str, str]]) -> None:
    listed = rows(parameters)
    assert folders_of(listed[::-1]) == folders_of(listed)


@pytest.mark.parametrize("job", ["../j1", "j", "", None, "j1\n"])
def test_a_row_without_the_id_of_a_job_is_refused(job: object) -> None:
    with pytest.raises(FilesError, match="is not the id of a job"):
        folders_of([{"job": job, "parameters": {}}])
