"""Use of a device by others: what a reading of its memory and processes means, given the work that it has of ours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

from hostler.model.record import record
from hostler.model.telemetry import DeviceTelemetry, DeviceUser

FRESH_S = 10.0
"""Work is placed on a GPU only by a reading that is no older."""
SURE_S = 5.0
"""Memory without a process, and leftovers, count once they have been there for so long: they may be about to go."""
CLEAR_S = 60.0
"""A device counts as free once no use by others has been seen for so long: others pause between two runs."""
UNEXPLAINED_GB = 1.0
"""Memory that no process explains, up to which a device is not in use: a display and the driver take so much."""
DISPLAYS = frozenset(
    {
        "Xorg", "X", "Xwayland", "gnome-shell", "mutter", "kwin_x11", "kwin_wayland", "plasmashell", "sway", "weston",
        "Hyprland", "cosmic-comp", "xfwm4", "gnome-session-b", "gdm-x-session", "sddm-greeter", "nvidia-persiste",
    }
)  # fmt: skip
"""Programs that draw the screen, as the kernel names them (15 characters), and the driver's own."""
NAMED = 3

Kind: TypeAlias = Literal["others", "leftover"]


@record
class Use:
    """What uses a device beside the work that is placed there."""

    kind: Kind
    """`leftover`: processes of an attempt that has ended."""
    who: str
    """The processes and their owners, in words."""
    vram_gb: float | None
    """The memory they take; `None`: unknown."""
    sure: bool
    """Whether one reading is enough."""


def use_of(
    told: DeviceTelemetry,
    current: Collection[str],
    elsewhere: Collection[str] = (),
    *,
    is_busy: bool,
    has_just_left: bool,
) -> Use | None:
    """Use of a device by others, by one reading; `None` if there is none.

    `current` are the attempts that are placed there, `elsewhere` those on other devices of its node, `is_busy` whether
    it has any work of ours. Memory and processes
    that cannot be attributed are taken for our own while it has, and when work of ours `has_just_left`.
    """
    users = [each for each in told.users or () if each.name not in DISPLAYS]
    foreign = [each for each in users if each.ours is False or (each.ours is None and not is_busy)]
    seen = [each for each in foreign if each.ours is False]
    if foreign and (seen or not has_just_left):
        return Use(kind="others", who=_listed(foreign), vram_gb=_memory(foreign), sure=bool(seen))
    stray = [each for each in users if each.ours and each.attempt in elsewhere]
    if stray:
        who = f"{_listed(stray)}, of {_attempts(stray)}, which is placed on another device"
        return Use(kind="others", who=who, vram_gb=_memory(stray), sure=False)
    left = [each for each in users if each.ours and each.attempt is not None and each.attempt not in current]
    if left and not has_just_left:
        who = f"{_listed(left)}, left by {_attempts(left)}"
        return Use(kind="leftover", who=who, vram_gb=_memory(left), sure=False)
    if is_busy or has_just_left or told.vram_used_gb is None:
        return None
    explained = sum(each.vram_gb or 0.0 for each in told.users or ())
    unexplained = told.vram_used_gb - explained
    if unexplained <= UNEXPLAINED_GB or any(each.ours for each in users):
        return None
    return Use(kind="others", who="processes that cannot be seen there", vram_gb=unexplained, sure=False)


def _attempts(users: Sequence[DeviceUser]) -> str:
    return ", ".join(sorted({each.attempt for each in users if each.attempt is not None})[:NAMED])


def _listed(users: Sequence[DeviceUser]) -> str:
    words = [_words(each) for each in sorted(users, key=lambda each: (-(each.vram_gb or 0.0), each.pid))]
    more = f" and {len(words) - NAMED} more" if len(words) > NAMED else ""
    return ", ".join(words[:NAMED]) + more


def _words(user: DeviceUser) -> str:
    if user.ours is None and user.name is None:
        return f"process {user.pid}, which cannot be seen there"
    owner = "" if user.user is None else f" of {user.user}"
    return f"{user.name or 'a process'}{owner} (pid {user.pid})"


def _memory(users: Sequence[DeviceUser]) -> float | None:
    known = [each.vram_gb for each in users if each.vram_gb is not None]
    return sum(known) if len(known) == len(users) else None
