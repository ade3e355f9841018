"""What one reading of a device says about use by others."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.model.telemetry import DeviceTelemetry, DeviceUser
from hostler.policy.foreign_use import DISPLAYS, UNEXPLAINED_GB, Use, use_of

ANN = DeviceUser(pid=4711, name="python", user="ann", vram_gb=21.5, ours=False)
XORG = DeviceUser(pid=900, name="Xorg", user="root", vram_gb=0.6, ours=False)
OURS = DeviceUser(pid=50, name="python3", user="me", vram_gb=10.0, ours=True, attempt="j1.1")
UNSEEN = DeviceUser(pid=77, vram_gb=3.0)


def use(
    *users: DeviceUser, vram_gb: float | None = None, current: tuple[str, ...] = (), has_just_left: bool = False
) -> Use | None:
    total = sum(each.vram_gb or 0.0 for each in users) if vram_gb is None else vram_gb
    told = DeviceTelemetry(vram_used_gb=total, users=users)
    return use_of(told, current, is_busy=bool(current), has_just_left=has_just_left)


def test_process_of_another_user_is_named_with_its_memory() -> None:
    assert use(ANN) == Use(kind="others", who="python of ann (pid 4711)", vram_gb=21.5, sure=True)
    found = use(ANN, OURS, current=("j1.1",))
    assert found is not None
    assert (found.who, found.vram_gb) == ("python of ann (pid 4711)", 21.5)


def test_display_is_no_use() -> None:
    assert use(XORG) is None
    assert use(vram_gb=0.6) is None, "its memory without its process"
    assert use(XORG, vram_gb=0.6 + UNEXPLAINED_GB) is None
    found = use(XORG, ANN)
    assert found is not None
    assert "Xorg" not in found.who


def test_memory_without_a_process_is_use_by_others_while_nothing_of_ours_is_there() -> None:
    assert use(vram_gb=22.5) == Use(kind="others", who="processes that cannot be seen there", vram_gb=22.5, sure=False)
    assert use(vram_gb=22.5, current=("j1.1",)) is None
    assert use(vram_gb=22.5, has_just_left=True) is None, "the driver has not freed it yet"
    assert use_of(DeviceTelemetry(vram_used_gb=22.5), (), is_busy=False, has_just_left=False) is not None


def test_unseen_process_is_use_by_others_while_nothing_of_ours_is_there() -> None:
    found = use(UNSEEN)
    assert found == Use(kind="others", who="process 77, which cannot be seen there", vram_gb=3.0, sure=False)
    assert use(UNSEEN, current=("j1.1",)) is None
    assert use(UNSEEN, has_just_left=True) is None


def test_process_of_a_running_attempt_is_ours_and_one_of_an_ended_attempt_a_leftover() -> None:
    assert use(OURS, current=("j1.1",)) is None
    found = use(OURS, current=("j2.1",))
    assert found == Use(kind="leftover", who="python3 of me (pid 50), left by j1.1", vram_gb=10.0, sure=False)
    assert use(OURS, has_just_left=True) is None, "it may be about to end"


def test_warm_worker_without_an_attempt_is_ours() -> None:
    assert use(DeviceUser(pid=5, name="python3", vram_gb=4.0, ours=True)) is None


def test_many_processes_are_named_by_the_largest() -> None:
    users = [DeviceUser(pid=number, name=f"p{number}", vram_gb=float(number), ours=False) for number in range(1, 7)]
    found = use(*users)
    assert found is not None
    assert found.who == "p6 (pid 6), p5 (pid 5), p4 (pid 4) and 3 more"
    assert found.vram_gb == 21.0


def test_unknown_memory_of_a_process_leaves_the_sum_unknown() -> None:
    found = use(ANN, DeviceUser(pid=2, ours=False), vram_gb=22.0)
    assert found is not None
    assert found.vram_gb is None


@pytest.mark.parametrize("told", [DeviceTelemetry(), DeviceTelemetry(users=()), DeviceTelemetry(vram_used_gb=0.0)])
def test_nothing_is_use_of_an_empty_or_unknown_device(told: DeviceTelemetry) -> None:
    assert use_of(told, (), is_busy=False, has_just_left=False) is None


USERS = st.builds(
    DeviceUser,
    pid=st.integers(0, 99),
    name=st.none() | st.sampled_from(["python", *sorted(DISPLAYS)[:3]]),
    vram_gb=st.none() | st.floats(0, 80),
    ours=st.none() | st.booleans(),
    attempt=st.none() | st.sampled_from(["j1.1", "j2.1"]),
)


@given(st.lists(USERS, max_size=5), st.none() | st.floats(0, 80), st.booleans(), st.booleans())
def test_process_that_is_not_ours_is_always_found(
    users: list[DeviceUser], vram_gb: float | None, is_busy: bool, has_just_left: bool
) -> None:
    told = DeviceTelemetry(vram_used_gb=vram_gb, users=tuple(users))
    found = use_of(told, ("j1.1",) if is_busy else (), is_busy=is_busy, has_just_left=has_just_left)
    foreign = any(each.ours is False and each.name not in DISPLAYS for each in users)
    assert (found is not None and found.kind == "others" and found.sure) == foreign
