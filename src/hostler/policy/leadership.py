"""Who leads? When a standby takes over and when a leader stops acting, by a row they share and each one's own clock.

That no two write at once is the fence's doing (`store`): every write names its epoch, and is refused once a newer one
has begun. Here it is only decided how soon. All times are seconds of one process's own monotonic clock; no two clocks
are ever compared.
"""

from __future__ import annotations

from typing import Final

LEASE_S: Final = 5.0
"""A leader that has not shown for so long that it lives is taken over from."""
RENEW_S: Final = 1.0
"""How often a leader shows that it lives, where it has nothing else to write."""
LOOK_S: Final = 0.5
"""How often a standby looks."""
MARGIN_S: Final = 1.0
"""So much earlier than others take over, a leader that cannot renew starts nothing more."""


class Watch:
    """What a standby has seen of the leader's row: its epoch and beat, and since when they have stood still."""

    def __init__(self, lease_s: float = LEASE_S, margin_s: float = MARGIN_S) -> None:
        self._lease_s = lease_s
        self._margin_s = margin_s
        self._seen: tuple[int, int] | None = None
        self._since = 0.0

    def look(self, epoch: int, beat: int, now: float, *, given_up: bool = False, unheld: bool = False) -> bool:
        """Whether to try to take over from this epoch and beat, seen `now`; at once where the leader has given up.

        `unheld`: its connection to the database is gone, so it is hardly only slow: it gets the time in which it may
        still act, and not the margin on top of that.
        """
        if (epoch, beat) != self._seen:
            self._seen, self._since = (epoch, beat), now
        lease_s = self._lease_s - self._margin_s if unheld else self._lease_s
        return given_up or now - self._since >= lease_s

    def blind(self) -> None:
        """The row could not be read: what the leader did meanwhile is unknown, and its time begins anew."""
        self._seen = None


class Tenure:
    """How long a leader may act on what it has written: a little shorter than others wait for it."""

    def __init__(self, now: float, lease_s: float = LEASE_S, margin_s: float = MARGIN_S) -> None:
        self._good_s = lease_s - margin_s
        self._renewed = now

    def renewed(self, asked_at: float) -> None:
        """A write that was begun at `asked_at` has gone through the fence."""
        self._renewed = max(self._renewed, asked_at)

    def holds(self, now: float) -> bool:
        """Whether nobody can have taken over yet, if clocks run at about the same rate."""
        return now - self._renewed < self._good_s

    def due(self, now: float, renew_s: float = RENEW_S) -> bool:
        """Whether it is time to show that one lives."""
        return now - self._renewed >= renew_s
