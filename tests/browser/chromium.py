"""Where a real Chromium is, and what tests need of one."""

from __future__ import annotations

import shutil
from pathlib import Path

PICTURES = Path(__file__).resolve().parents[2] / "build" / "browser"
"""Folder of the pictures that the tests take, and of the tools that scripts/vendored.py fetches for them."""
AXE_FILE = PICTURES / "axe.js"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ("--no-sandbox", "--disable-dev-shm-usage")
"""As root, and in containers with little shared memory, Chromium needs both; it sees nothing here but our own pages."""


def chromium() -> str | None:
    """The browser's program; `None` where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)
