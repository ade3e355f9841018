"""Takes the pictures of the dashboard for the README: a real controller with real work, looked at with Chromium.

python scripts/make_dashboard_pictures.py [SECONDS]     docs/pictures/dashboard-*.png, as pages are after SECONDS

The run is that of `hostler up examples/laptop.yaml`; after 330 seconds (the default) its sweeps have hits and its loop
has a rating. A picture of more than 200 kB is refused.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from playwright.sync_api import Browser, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/pictures"
FLEET_FILE = ROOT / "examples/laptop.yaml"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MAX_BYTES = 200_000
SETTLE_MS = 1500
WINDOW: ViewportSize = {"width": 1180, "height": 700}
PATIENCE_S = 60.0


class Shot(NamedTuple):
    """One picture: of which page, in which theme."""

    name: str
    path: str
    theme: Any


SHOTS = (
    Shot("fleet", "fleet", "light"),
    Shot("sweep", "sweeps/j1", "dark"),
    Shot("learning", "learning/hex8_2p", "light"),
)


def main() -> None:
    """Run, wait, take the pictures, end the run."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 330.0
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        raise SystemExit("there is no chromium to look with; Debian and Ubuntu: sudo apt-get install chromium")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, at_work(Path(folder)) as (url, token), sync_playwright() as play:
        time.sleep(seconds)
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for shot in SHOTS:
            keep(shot.name, taken(browser, url, token, shot))
        browser.close()


@contextmanager
def at_work(folder: Path) -> Iterator[tuple[str, str]]:
    """A controller with the work of the example: its address and its token."""
    state = folder / "state"
    command = [sys.executable, "-m", "hostler", "up", "--state-dir", str(state), "--port", "0", str(FLEET_FILE)]
    with (
        (folder / "up.log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as controller,
    ):
        try:
            yield _located(state)["url"], (state / "token").read_text().strip()
        finally:
            if controller.poll() is not None:
                said = (folder / "up.log").read_text(errors="replace")[-2000:]
                print(f"the controller ended by itself, status {controller.returncode}:\n{said}", file=sys.stderr)
            controller.kill()
            controller.wait(PATIENCE_S)
            end_all(state)


def end_all(state: Path) -> None:
    """End what the run has started, by process id: agents and their work outlive a controller."""
    left = [process for process in psutil.process_iter() if _is_of(process, f"{state}/")]
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, PATIENCE_S)


def taken(browser: Browser, url: str, token: str, shot: Shot) -> bytes:
    """A picture of a page that somebody who has logged in looks at."""
    context = browser.new_context(viewport=WINDOW, color_scheme=shot.theme)
    page = context.new_page()
    page.goto(f"{url}/")
    page.fill("#token", token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/pages/fleet")
    page.goto(f"{url}/pages/{shot.path}")
    page.wait_for_selector("#line[data-state=up]")
    page.wait_for_timeout(SETTLE_MS)
    picture = page.screenshot()
    context.close()
    return picture


def keep(name: str, picture: bytes) -> None:
    """Write a picture as it is: colours mean something. Raises `ValueError` where it is too large."""
    if len(picture) > MAX_BYTES:
        raise ValueError(f"the picture {name} has {len(picture)} bytes, more than {MAX_BYTES}")
    (PICTURES / f"dashboard-{name}.png").write_bytes(picture)
    print(f"docs/pictures/dashboard-{name}.png: {len(picture)} bytes")


def _is_of(process: psutil.Process, folder: str) -> bool:
    try:
        held = process.environ()
        places = [held.get("HOSTLER_ATTEMPT_DIR", ""), held.get("HOSTLER_WORKER_DIR", ""), *process.cmdline()]
    except psutil.Error:
        return False
    return any(place.startswith(folder) for place in places)


def _located(state: Path) -> Mapping[str, str]:
    """What the controller says of itself, once it answers."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (state / "controller.json").exists():
            told: Mapping[str, str] = json.loads((state / "controller.json").read_bytes())
            return told
        time.sleep(0.2)
    raise TimeoutError(f"no controller came up within {PATIENCE_S:g} s")


if __name__ == "__main__":
    main()
