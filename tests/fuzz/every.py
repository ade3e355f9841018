"""All targets."""

from __future__ import annotations

from . import agent_lines, controller_lines
from .base import Target

TARGETS: tuple[Target, ...] = tuple(each.TARGET for each in (agent_lines, controller_lines))
