"""What a request needs: one table for all routes, those that will be added too."""

from __future__ import annotations

import re

from hostler.model.access import Scope

OPEN = re.compile(r"/(healthz|leader|login|static/.*)")
"""Paths that tell nothing of the fleet, for whoever is not known yet."""
ADMIN = re.compile(r"/api/v1/(tokens(/.*)?|controller/.*)")
"""Who may come in, and whether there is a controller at all."""
ANYONES = frozenset({"/logout"})
"""What whoever was let in may do, though it changes something: of their own."""
LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that never change anything."""


def needed(method: str, path: str) -> Scope | None:
    """The scope that a request needs; `None` where it needs nothing, not even a token.

    `path` is matched as it was sent, like the routes. What is not named here may be read by readers and changed by
    operators; so nothing can be forgotten.
    """
    if OPEN.fullmatch(path):
        return None
    if ADMIN.fullmatch(path):
        return Scope.ADMIN
    return Scope.READ if method in LOOKS or path in ANYONES else Scope.OPERATE
