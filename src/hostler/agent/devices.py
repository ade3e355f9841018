"""The devices of this node, whoever made them."""

from __future__ import annotations

from functools import partial
from typing import Callable, Dict, List, Optional, Sequence, Union

from .amd import Amd
from .apple import Apple
from .nvidia import Nvidia
from .protocol import Json
from .tools import Tools

Make = Union[Nvidia, Amd, Apple]


class Devices:
    """What is known of devices, and how more is learnt."""

    def __init__(self, tools: Tools, makes: Optional[Sequence[Make]] = None) -> None:
        self.tools = tools
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
            self.tools.converse(make.facts(), partial(on_answer, place))


def _joined(answers: List[Optional[List[Json]]]) -> Optional[List[Json]]:
    found = [answer for answer in answers if answer is not None]
    return [device for answer in found for device in answer] if len(found) == len(answers) else None
