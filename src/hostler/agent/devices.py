"""The devices of this node, whoever made them."""

from __future__ import annotations

from functools import partial
from typing import Callable, Dict, List, Optional, Sequence, Union

from .amd import Amd
from .apple import Apple
from .nvidia import Nvidia
from .protocol import Json
from .tools import Talk, Tools
from .visible import Visible

Make = Union[Nvidia, Amd, Apple]


class Devices:
    """What is known of devices, and how more is learnt. Those that ``visible`` hides are not reported."""

    def __init__(self, tools: Tools, makes: Optional[Sequence[Make]] = None, visible: Optional[Visible] = None) -> None:
        self.tools = tools
        self.visible = visible or Visible()
        self.makes = makes or (Nvidia(tools), Amd(tools), Apple(tools))

    def ask(self, on_devices: Callable[[Optional[List[Json]]], None]) -> None:
        """Ask what they are, without waiting, within a bound of time.

        ``on_devices`` gets the list of devices; None when somebody who knows of devices gave no answer.
        """
        makes = [make for make in self.makes if make.is_there()]
        answers: Dict[int, Optional[List[Json]]] = {}

        def on_answer(place: int, found: Optional[List[Json]]) -> None:
            answers[place] = found
            if len(answers) == len(makes):
                on_devices(_joined([answers[each] for each in range(len(makes))]))

        if not makes:
            on_devices([])
        for place, make in enumerate(makes):
            self.tools.converse(self._facts(make), partial(on_answer, place))

    def _facts(self, make: Make) -> Talk:
        found = yield from make.facts()
        slices = None
        if found is not None and isinstance(make, Nvidia) and self.visible.names_slice:
            slices = yield from make.slices()
            if slices is None:
                return None
        if found is None:
            return None
        left, notes = self.visible.of(found, slices)
        for note in notes:
            self.tools.troubles.lasts("visible " + note, note)
        return left


def _joined(answers: List[Optional[List[Json]]]) -> Optional[List[Json]]:
    found = [answer for answer in answers if answer is not None]
    return [device for answer in found for device in answer] if len(found) == len(answers) else None
