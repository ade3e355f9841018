"""How busy the devices are: asked now and then, one question at a time, and never so often that it costs them much."""

from __future__ import annotations

from typing import List, Optional

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

    def refresh(self) -> None:
        """Ask, unless it is too early, nobody is there to ask, or what was asked before has not been answered."""
        now = self._loop.monotonic()
        if self._is_open or now < self._next_at or not self._make.is_there():
            return
        self._is_open, self._asked_at = True, now
        self._tools.converse(self._make.samples(), self._on_answer)

    def devices(self) -> List[Json]:
        """The newest answer, unless it is old."""
        return self._devices if self._loop.monotonic() - self._known_at < _FRESH_S else []

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
