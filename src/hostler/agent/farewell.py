"""The last moments of an agent whose machine is about to go: what it has is handed over before it ends.

The machine says so by SIGTERM, or somebody by a file, for instance a script that asks the provider for its notice.
"""

from __future__ import annotations

from typing import Optional

from .node import Node
from .protocol import Json

NOTICE = "notice"
"""The file that says that the machine is about to go; its first line may say why."""
_WHERE = ("", "../../")
"""It lies in the agent's folder, or in that which all agents of a user share, as ~/.hostler."""
_PATIENCE_S = 15.0
_LONGEST_WORD = 200


class Farewell:
    """``why`` is why the machine goes; None while nobody says so."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._answers = False
        self._let_go = False
        self._noticed = False
        self._since: Optional[float] = None
        self.why: Optional[str] = None

    def greeted(self, hello: Json) -> None:
        """A controller is there; an older one would never say that nothing more is wanted of this agent."""
        self._answers, self._let_go = hello.get("byes") is True, False

    def let_go(self) -> None:
        """The controller has everything."""
        self._let_go = True

    def notice(self) -> Optional[str]:
        """What the file says, once; None where there is none, or it was told of before."""
        words = [word for word in map(self._read, _WHERE) if word is not None]
        was, self._noticed = self._noticed, bool(words)
        if was or not words:
            return None
        return "its machine is about to go: %s" % words[0] if words[0] else "its machine is about to go"

    def may_go(self, connected: bool) -> bool:
        """Whether nobody fetches anything more; somebody may for a while, not for ever."""
        if self.why is None or self._let_go or not (self._answers and connected):
            return True
        now = self._node.loop.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since > _PATIENCE_S

    def _read(self, where: str) -> Optional[str]:
        try:
            with open(self._node.path(where + NOTICE), encoding="utf-8", errors="replace") as source:
                return source.readline(_LONGEST_WORD).strip()
        except FileNotFoundError:
            return None
        except OSError as error:  # it is there
            return str(error.strerror)
