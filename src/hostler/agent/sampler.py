"""How busy the devices are: asked now and then, one question at a time, and never so often that it costs them much."""

from __future__ import annotations

from functools import partial
from typing import Callable, Dict, List, Optional

from .devices import Devices, Make
from .protocol import Json
from .tools import Tools

_FRESH_S = 60.0
_REST_PER_S = 10.0
_LEAST_REST_S = 5.0
_LONGEST_REST_S = 300.0


class Sampler:
    """The newest sample of every device. A node has one of these."""

    def __init__(self, devices: Devices) -> None:
        self._visible = devices.visible
        self._sources = [Source(devices.tools, make) for make in devices.makes]

    def refresh(self) -> None:
        """Ask anew where an answer has come and a rest is over. Does not wait."""
        for source in self._sources:
            source.refresh()

    def read(self, on_read: Callable[[], None]) -> None:
        """Ask now, whatever rest is left; ``on_read`` is called once all have answered, or failed to."""
        open_ = {at: source for at, source in enumerate(self._sources) if source.is_there()}
        if not open_:
            on_read()
        for at, source in list(open_.items()):
            source.read(partial(self._on_answer, open_, at, on_read))

    @staticmethod
    def _on_answer(open_: Dict[int, Source], at: int, on_read: Callable[[], None]) -> None:
        del open_[at]
        if not open_:
            on_read()

    def devices(self) -> List[Json]:
        """What is known of the devices now; one of which nothing is known, or nothing new, is left out."""
        known = (device for source in self._sources for device in source.devices())
        return [shown for shown in map(self._visible.shows, known) if shown is not None]


class Source:
    """The devices of one make. It rests ten times as long as they took to answer, and ever longer while they fail."""

    def __init__(self, tools: Tools, make: Make) -> None:
        self._tools = tools
        self._loop = tools.node.loop
        self._make = make
        self._is_open = False
        self._asked_at = 0.0
        self._next_at = 0.0
        self._failures = 0
        self._devices: List[Json] = []
        self._known_at = 0.0
        self._readers: List[Callable[[], None]] = []

    def is_there(self) -> bool:
        """Whether there is a tool to ask."""
        return self._make.is_there()

    def refresh(self) -> None:
        """Ask, unless it is too early, there is no tool to ask, or what was asked before has not been answered."""
        if not self._is_open and self._loop.monotonic() >= self._next_at and self._make.is_there():
            self._ask()

    def read(self, on_read: Callable[[], None]) -> None:
        """Ask, unless an answer is on its way; ``on_read`` is called when it has come. A tool that fails rests."""
        if not self._is_open and self._failures and self._loop.monotonic() < self._next_at:
            on_read()
            return
        self._readers.append(on_read)
        if not self._is_open:
            self._ask()

    def devices(self) -> List[Json]:
        """The newest answer, unless it is old, with its age."""
        age_s = self._loop.monotonic() - self._known_at
        return [{**device, "age_s": age_s} for device in self._devices] if age_s < _FRESH_S else []

    def _ask(self) -> None:
        self._is_open, self._asked_at = True, self._loop.monotonic()
        self._tools.converse(self._make.samples(), self._on_answer)

    def _on_answer(self, found: Optional[List[Json]]) -> None:
        now = self._loop.monotonic()
        self._is_open = False
        self._failures = 0 if found is not None else self._failures + 1
        rest_s = max(_LEAST_REST_S, _REST_PER_S * (now - self._asked_at))
        if found is None:
            rest_s = max(rest_s, _REST_PER_S * 2.0 ** min(self._failures, 10))
        else:
            at = self._loop.wall()
            self._devices, self._known_at = [{**device, "at": at} for device in found], now
        self._next_at = now + min(rest_s, _LONGEST_REST_S)
        readers, self._readers = self._readers, []
        for on_read in readers:
            on_read()
