"""What the agent of an allocation and its berth tell one another: two pipes, made before the agent is forked.

An allocation costs as long as it lasts. So its agent ends by itself once it has had nothing to do for a while, which is
counted from when the berth has said everything that was to be said first; and it leaves word of why it ended.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from typing import Optional

from .loop import Loop

IDLE = "idle"
TOLD = "told"
SIGNAL = "signal"
GONE = "gone"


class Allocation:
    """Both sides of it. ``idle_s`` is for how many seconds the agent may have nothing to do.

    With ``while_alone``, only the time counts in which no controller is connected: one that is says itself when to end.
    """

    def __init__(self, idle_s: float, while_alone: bool = False) -> None:
        self._idle_s = idle_s
        self.while_alone = while_alone
        self._said = os.pipe()
        """Nothing is written to it: that it is closed is all there is to know."""
        self._word = os.pipe()
        self._all_is_said = False
        self._idle_since: Optional[float] = None
        self.last_word: Optional[str] = None
        self.is_over = False

    # --- the berth's side -----------------------------------------------------------------------------------------

    def be_berth(self) -> None:
        """After the fork: this is the process that speaks first, and reads the last word."""
        os.close(self._said[0])
        os.close(self._word[1])

    def say_all_is_said(self) -> None:
        """From now on the agent may be idle; to say so again changes nothing."""
        if not self._all_is_said:
            self._all_is_said = True
            os.close(self._said[1])

    def hear(self, loop: Loop) -> None:
        """Learn of the agent's last word, and of its end: that of its supervisor and its keeper."""
        words = self._word[0]

        def on_word(_events: int) -> None:
            said = os.read(words, 4096).decode("ascii").split()
            if said:
                self.last_word = said[-1]
            else:
                loop.unwatch(words)
                self.is_over = True

        loop.watch(words, on_word)

    # --- the agent's side -----------------------------------------------------------------------------------------

    def be_agent(self) -> None:
        """After the fork: this is the process that is told, or the parent of it."""
        os.close(self._said[1])
        os.close(self._word[0])

    def listen(self, loop: Loop) -> None:
        """Learn when all is said."""

        def on_end(_events: int) -> None:
            loop.unwatch(self._said[0])
            self._all_is_said = True

        loop.watch(self._said[0], on_end)

    def rest_s(self, is_busy: bool, now: float) -> float:
        """For how many seconds more the agent may go on if it gets nothing to do."""
        if is_busy or not self._all_is_said:
            self._idle_since = None
            return math.inf
        if self._idle_since is None:
            self._idle_since = now
        return self._idle_since + self._idle_s - now

    def leave_word(self, why: str) -> None:
        """Say why this agent ends; nobody may be there any more to hear it."""
        with suppress(BrokenPipeError):
            os.write(self._word[1], b"%s\n" % why.encode("ascii"))
