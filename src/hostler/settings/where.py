"""Where the state lives when nothing says otherwise. Imports nothing heavy: every command needs it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def state_dir(environ: Mapping[str, str]) -> Path:
    """`$HOSTLER_STATE_DIR` (from the current folder), or else `hostler` in the user's folder for state (XDG)."""
    chosen = environ.get("HOSTLER_STATE_DIR")
    if chosen:
        return Path.cwd() / os.path.expanduser(chosen)
    base = Path(environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or Path.home(), ".local", "state"))
    # The XDG specification says that a relative folder is to be ignored.
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "hostler"
