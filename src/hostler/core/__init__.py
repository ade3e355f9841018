"""The deterministic core: facts in, decisions out. Start reading at `machine.Core`."""

from hostler.core.machine import Core, Outcome, story
from hostler.core.state import State

__all__ = ["Core", "Outcome", "State", "story"]
