"""The programs that know of devices: each is asked one question at a time, killed when slow, and told of when it fails.

Who wants to know something writes it down as a *talk*: a generator that yields questions, gets the answers, and
returns what it has learnt.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, Generator, List, NamedTuple, Optional, Set

from .node import Node
from .protocol import Json
from .queries import Query, is_installed

_STEP_S = 0.1
_LONGEST_QUOTE = 200


class Question(NamedTuple):
    """What to run, and what its answer means: None if it is none. The talk gets what ``read`` returns, or None."""

    argv: List[str]
    read: Callable[[str], Any]
    who: str = ""
    """How people call who is asked; by default the program."""
    instead: str = "what it knows of its devices is unknown until it answers"
    """What becomes of it while there is no answer."""

    @property
    def asked(self) -> str:
        """Who is asked, as people call it."""
        return self.who or self.argv[0]


Talk = Generator[Question, Any, Optional[List[Json]]]


class Troubles:
    """Tells of each trouble once as it begins, and once when it is over."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lasting: Set[str] = set()

    def lasts(self, name: str, words: str) -> None:
        """The trouble of this name is there."""
        if name not in self._lasting:
            self._lasting.add(name)
            self._tell(words)

    def over(self, name: str, words: str) -> None:
        """The trouble of this name is not there, or not any more."""
        if name in self._lasting:
            self._lasting.discard(name)
            self._tell(words)


class Tools:
    """All that is asked of programs on one node goes through here, so that no program ever runs twice at a time."""

    def __init__(self, node: Node, patience_s: float = 10.0) -> None:
        self.node = node
        self.troubles = Troubles(node.complain)
        self._patience_s = patience_s
        self._tools: Dict[str, _Tool] = {}

    def has(self, program: str) -> bool:
        """Whether it is installed."""
        return is_installed(self.node, program)

    def converse(self, talk: Talk, on_end: Callable[[Optional[List[Json]]], None]) -> None:
        """Hold a talk without waiting for it; ``on_end`` gets what it returns, perhaps before this does."""
        self._go_on(talk, None, on_end)

    def stop(self) -> None:
        """End what has been asked and has not answered."""
        for tool in self._tools.values():
            tool.stop()

    def _go_on(self, talk: Talk, answer: Any, on_end: Callable[[Optional[List[Json]]], None]) -> None:
        try:
            question = talk.send(answer)
        except StopIteration as end:
            on_end(end.value)
            return
        self._tool(question.argv[0]).ask(question, lambda told: self._go_on(talk, told, on_end))

    def _tool(self, program: str) -> _Tool:
        tool = self._tools.get(program)
        if tool is None:
            tool = self._tools[program] = _Tool(self.node, program, self._patience_s, self.troubles)
        return tool


class _Asked(NamedTuple):
    question: Question
    on_answer: Callable[[Any], None]
    until: float


class _Tool:
    """One program, and who waits for it."""

    def __init__(self, node: Node, program: str, patience_s: float, troubles: Troubles) -> None:
        self._node = node
        self._program = program
        self._patience_s = patience_s
        self._troubles = troubles
        self._waiting: Deque[_Asked] = deque()
        self._query: Optional[Query] = None
        self._is_busy = False

    def ask(self, question: Question, on_answer: Callable[[Any], None]) -> None:
        """Ask when those before have been answered; while one that hangs in the kernel cannot be killed, nobody is."""
        self._waiting.append(_Asked(question, on_answer, self._node.loop.monotonic() + self._patience_s))
        self._next()

    def stop(self) -> None:
        """End its process."""
        if self._query is not None:
            self._query.stop()

    def _next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        if self._query is not None and self._query.is_running():
            self._wait()
        else:
            self._start(self._waiting.popleft())

    def _wait(self) -> None:
        """It has answered, or was killed, and is still there: mostly for a moment."""
        if self._node.loop.monotonic() >= self._waiting[0].until:
            self._give_up(self._waiting.popleft())
        else:
            self._node.loop.call_later(_STEP_S, self._look_again)

    def _look_again(self) -> None:
        self._is_busy = False
        self._next()

    def _give_up(self, asked: _Asked) -> None:
        words = "%s was killed and is still there, so it hangs in the kernel; it is not asked again until it is gone"
        self._troubles.lasts("stuck " + self._program, words % self._program)
        self._finish(asked, None)

    def _start(self, asked: _Asked) -> None:
        self._troubles.over("stuck " + self._program, "%s, which hung in the kernel, is gone" % self._program)

        def on_text(text: Optional[str]) -> None:
            self._finish(asked, self._understood(asked.question, text, query.problem))

        query = self._query = Query(self._node, asked.question.argv, self._patience_s, on_text)
        query.start()

    def _understood(self, question: Question, text: Optional[str], problem: Optional[str]) -> Any:
        answer = None if text is None else question.read(text)
        if answer is None:
            why = problem or _quoted(text or "")
            self._troubles.lasts(question.asked, "%s %s; %s" % (question.asked, why, question.instead))
        else:
            self._troubles.over(question.asked, "%s answers again" % question.asked)
        return answer

    def _finish(self, asked: _Asked, answer: Any) -> None:
        self._is_busy = False
        asked.on_answer(answer)
        self._next()


def _quoted(text: str) -> str:
    rows = [row.strip() for row in text.splitlines() if row.strip()]
    return "failed: %s" % rows[0][:_LONGEST_QUOTE] if rows else "failed, and did not say why"
