"""`gpus.only` and `gpus.exclude`: which GPUs of a node are used, and what is said of entries that name none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.backends.base import Store
from hostler.backends.local import LocalNode
from hostler.backends.selection import Selection, selected
from hostler.model.inputs import NodeFound, Trouble
from hostler.model.reported import DEVICES_MOST as DEVICES_MAX

UUIDS = ("GPU-8932f937", "GPU-8932aaaa", "GPU-5a5a")
STORE = Store(results=Path("results"), artifacts=Path("artifacts"))


def cards(*uuids: str | None) -> list[dict[str, Any]]:
    named = uuids or UUIDS
    return [
        {"index": at, "kind": "cuda", "model": "T4", "vram_bytes": 1 << 34, "uuid": uuid}
        for at, uuid in enumerate(named)
    ]


def chosen(only: tuple[int | str, ...] | None = None, exclude: tuple[int | str, ...] = ()) -> list[int]:
    return [each["index"] for each in selected("rig", cards(), Selection(only=only, exclude=exclude)).devices]


@pytest.mark.parametrize(
    ("only", "exclude", "indices"),
    [
        (None, (), [0, 1, 2]),
        ((1,), (), [1]),
        (("GPU-5a5a", 0), (), [0, 2]),
        (("gpu-5A",), (), [2]),
        (None, (0,), [1, 2]),
        (None, ("GPU-8932",), [2]),
        ((0, 1), ("GPU-8932f",), [1]),
        ((1, 7), (), [1]),
    ],
)
def test_a_selection_leaves_what_only_names_and_exclude_does_not(
    only: tuple[int | str, ...] | None, exclude: tuple[int | str, ...], indices: list[int]
) -> None:
    assert chosen(only, exclude) == indices


@pytest.mark.parametrize(
    ("asked", "fault", "left"),
    [
        (
            Selection(only=(1, 7)),
            "gpus.only of rig: 7 names no GPU that is found there. It has 0 (GPU-8932f937), 1",
            [1],
        ),
        (Selection(only=("GPU-8932",)), "gpus.only of rig: GPU-8932 names 2 GPUs; write more of the UUID", []),
        (Selection(exclude=("GPU-77",)), "gpus.exclude of rig: GPU-77 names no GPU", [0, 1, 2]),
        (Selection(only=(9,)), "gpus.only and gpus.exclude of rig leave none of its 3 GPUs", []),
        (Selection(exclude=(0, 1, 2)), "gpus.only and gpus.exclude of rig leave none of its 3 GPUs", []),
    ],
)
def test_an_entry_that_cannot_be_carried_out_is_named(asked: Selection, fault: str, left: list[int]) -> None:
    found = selected("rig", cards(), asked)
    assert any(fault in each for each in found.faults)
    assert [each["index"] for each in found.devices] == left


def test_a_selection_that_is_carried_out_has_no_faults() -> None:
    assert selected("rig", cards(), Selection(only=(0, "GPU-5a5a"), exclude=("GPU-8932a",))).faults == ()
    assert selected("rig", [], Selection()).faults == ()


def test_a_gpu_without_a_uuid_is_not_used_where_an_excluded_uuid_may_be_its_own() -> None:
    found = selected("rig", cards("GPU-aa", None), Selection(exclude=("GPU-bb",)))
    assert [each["index"] for each in found.devices] == [0]
    assert any("tell no UUID" in each and "exclude by index" in each for each in found.faults)
    other = selected("rig", cards("GPU-aa", None), Selection(exclude=("GPU-aa",)))
    assert [each["index"] for each in other.devices] == [1]


def test_a_uuid_of_amd_is_the_same_in_all_its_forms() -> None:
    for told in ("18f68e602f8a790f", "0x18F68E602F8A790F", "GPU-18f68e602f8a790f"):
        found = selected("rig", cards("0xaa", told), Selection(only=("GPU-18f68e602f8a790f",)))
        assert [each["index"] for each in found.devices] == [1]


def test_a_message_names_a_bounded_number_of_gpus() -> None:
    (fault, *_) = selected("rig", cards(*["GPU-" + "a" * 5000] * 300), Selection(only=(4000,))).faults
    assert "and 284 more" in fault
    assert len(fault) < 2000


ENTRIES = st.lists(st.integers(0, 5) | st.sampled_from(["GPU-8932", "GPU-5a5a", "GPU-x"]), max_size=4).map(tuple)


@given(st.none() | ENTRIES, ENTRIES, st.lists(st.none() | st.sampled_from(UUIDS), max_size=5))
def test_nothing_that_is_excluded_is_used(only: Any, exclude: Any, uuids: list[str | None]) -> None:
    found = cards(*uuids) if uuids else []
    left = selected("rig", found, Selection(only=only, exclude=exclude)).devices
    assert all(each in found for each in left)
    assert not {each["index"] for each in left} & set(exclude)
    if only is not None and not any(isinstance(entry, str) for entry in only):
        assert {each["index"] for each in left} <= set(only)


def node(tmp_path: Path, selection: Selection, *, gpus: bool = True) -> LocalNode:
    return LocalNode("rig", tmp_path, controller="c", store=STORE, cpu_slots=1, gpus=gpus, selection=selection)


def facts(devices: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {"cpus": 1, "devices": devices}


def test_a_node_reports_what_is_selected_and_names_the_rest(tmp_path: Path) -> None:
    rig = node(tmp_path, Selection(only=(2, 7)))
    found, trouble = rig._found(facts(cards()))
    assert isinstance(found, NodeFound)
    assert [each.id for each in found.node.devices] == ["rig/cuda2", "rig/cpu0"]
    assert isinstance(trouble, Trouble)
    assert (trouble.where, "7 names no GPU" in trouble.what) == ("node rig", True)
    assert rig.selection_faults == (trouble.what,), "`hostler up` prints it below the start screen"


def test_a_node_without_gpus_and_one_whose_gpus_are_unknown_have_no_selection_to_carry_out(tmp_path: Path) -> None:
    (found,) = node(tmp_path, Selection(only=(7,)), gpus=False)._found(facts(cards()))
    assert isinstance(found, NodeFound)
    assert [each.id for each in found.node.devices] == ["rig/cpu0"]
    _, trouble = node(tmp_path, Selection(only=(7,)))._found(facts(None))
    assert isinstance(trouble, Trouble)
    assert "could not be read" in trouble.what


def test_more_gpus_than_a_node_can_have_are_refused_before_they_are_selected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no node has 4097"):
        node(tmp_path, Selection(only=(0,))).describe(facts(cards()[:1] * (DEVICES_MAX + 1)))
