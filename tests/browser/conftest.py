"""A real controller with real work, looked at with a real browser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright

from hostler.client.executor import Executor
from hostler.model.codec import digest
from tests.browser.chromium import OPTIONS, PICTURES, chromium
from tests.integration.conftest import NODE, WORKER, Fleet, a_fleet, until
from tests.integration.loops import LOOP_PATIENCE_S
from tests.integration.test_loop_commands import own
from tests.patience import PATIENCE_S
from tests.ports import quiet_port
from tests.tiers import demand_services
from tests.web.rl.builders import ADVICE, line, output, told

PATIENCE_MS = 1000 * PATIENCE_S
expect.set_options(timeout=PATIENCE_MS)
HOSTILE = "<img src=x onerror=alert(1)><harm> \"'&{{ 7 * 7 }} \u202e</script> javascript:alert(1)"
FAILS = """
import json, os, sys
harm = sys.argv[1]
print(harm, flush=True)
json.dump({harm: harm}, open(os.environ["HOSTLER_RESULT"], "w"))
sys.exit(harm)
"""
"""A program that says what it is told to, wherever a program can say something."""
MEASURES = """
import json, math, os, sys
rate = float(sys.argv[1])
print("epoch 1", sys.argv[2], flush=True)
if math.isnan(rate):
    sys.exit(f"ValueError: the learning rate is {rate}; {sys.argv[2]}")
json.dump({"accuracy": 1 - rate / 3, "note": sys.argv[2]}, open(os.environ["HOSTLER_RESULT"], "w"))
"""
SPEAKS = "import time; print('it begins', flush=True); time.sleep(0.2); print('it ends')"


TELLS = "import sys; sys.stdout.write(sys.argv[1])"


@dataclass
class Site:
    """A fleet whose pages are looked at. `faults` is what the browser complained of since it was last asked."""

    fleet: Fleet
    browser: Browser
    session: Any
    """The cookies of a browser that has logged in."""
    faults: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the controller answers."""
        return self.fleet.client._locate().url

    @property
    def token(self) -> str:
        """What lets one in."""
        return (self.fleet.state / "token").read_text().strip()

    def visitor(self, **options: Any) -> Page:
        """A browser of its own that is not logged in."""
        context = self.browser.new_context(**{"viewport": {"width": 1366, "height": 850}, **options})
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("console", lambda said: self._note(said.type, f"{said.text} {said.location['url']}"))
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("dialog", self._dismiss)
        return page

    def enter(self, **options: Any) -> Page:
        """The same, logged in already."""
        return self.visitor(storage_state=self.session, **options)

    def log_in(self, page: Page, token: str) -> None:
        """By the form, wherever it leads."""
        page.fill("#token", token)
        page.get_by_role("button", name="Log in").click()

    def go(self, page: Page, path: str) -> None:
        """A page of the dashboard, once it is live."""
        page.goto(f"{self.url}/pages/{path}")
        page.wait_for_selector("#line[data-state=up]")

    def _dismiss(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(f"{kind}: {text}")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    demand_services("a browser")
    program = chromium()
    if program is None:
        pytest.skip("there is no chromium; Debian and Ubuntu: sudo apt-get install chromium")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=list(OPTIONS))
        yield started
        started.close()


@pytest.fixture(scope="package")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A controller that has seen some of everything: a loop that learnt, a sweep with hits, a failure."""
    node = {**NODE, "provider": "home", "price_per_h": 0.4}
    goal = {"promotions": 1, "candidates": 5, "failures": 3}
    with a_fleet(tmp_path_factory.mktemp("site"), nodes=[node], configs=[own("coins", idle_after=goal)]) as fleet:
        assert fleet.launch("--until-idle").wait(LOOP_PATIENCE_S) == 0, fleet.log()
        fleet.settle(nodes=[node])
        fleet.start("--port", str(quiet_port()))  # it listens there again after the test in which it ends
        fleet.client.submit_jobs([sweep("seeds", 1000, planted=[7, 500])])
        once = {"max_attempts": {"exit": 1}}
        fleet.over(fleet.python(FAILS, HOSTILE, name=HOSTILE, key="fails", config=HOSTILE, retry=once))
        fleet.over(fleet.python(SPEAKS, name="speaks", key="speaks"))
        learns = output(19) + line(told(20, advice={**ADVICE, "alarm": HOSTILE})) + line({"trouble": HOSTILE})
        fleet.over(fleet.python(TELLS, learns.decode(), name="learns", key="learns", work_as="rl"))
        together(fleet)
        until(lambda: fleet.client.sweeps()[0]["state"] == "done", "the sweep", log=fleet.log)
        yield fleet


@pytest.fixture(scope="package")
def session(work: Fleet, browser: Browser) -> Any:
    """Somebody has logged in, once for all tests that do not look at that."""
    site = Site(work, browser, None)
    page = site.visitor()
    page.goto(f"{site.url}/")
    site.log_in(page, site.token)
    page.wait_for_url("**/pages/fleet")
    kept = page.context.storage_state()
    page.context.close()
    return kept


@pytest.fixture
def site(work: Fleet, browser: Browser, session: Any) -> Iterator[Site]:
    """The pages of it; the browser must have nothing to complain of."""
    made = Site(work, browser, session)
    yield made
    for context in browser.contexts:
        context.close()
    assert made.faults == []


@pytest.fixture
def page(site: Site) -> Page:
    """A browser that is logged in."""
    return site.enter()


def together(fleet: Fleet) -> None:
    """A job group of which one job fails, and a batch of function calls of which one raises."""
    jobs = [
        {
            "name": f"lr {lr}",
            "parameters": {"lr": lr, "note": HOSTILE},
            "retry": {"max_attempts": {"exit": 1}},
            "payload": {"kind": "script", "schema": 1, "argv": [sys.executable, "-c", MEASURES, lr, HOSTILE]},
        }
        for lr in ("0.1", "0.03", "nan")
    ]
    group = fleet.client.submit_group({"name": f"learning rates {HOSTILE}"}, jobs).group
    assert group is not None
    with Executor(fleet.client, name="parse") as executor:
        calls = [executor.submit(int, text) for text in ("12", HOSTILE, "9" * 200)]
    assert [call.exception() is None for call in calls] == [True, False, True]
    until(lambda: fleet.client.group(group["id"])["ended_at"] is not None, "the group", log=fleet.log)


def sweep(name: str, stop: int, **params: Any) -> dict[str, Any]:
    """A sweep by the worker of the tests."""
    return {
        "name": name,
        "payload": {
            "kind": "sweep",
            "schema": 1,
            "start": 0,
            "stop": stop,
            "worker": [sys.executable, str(WORKER)],
            "params": params,
            "digest": digest(params),
            "chance": 0.002,
        },
    }


def kept(page: Page, name: str) -> Path:
    """A picture of the whole page, among what the tests leave."""
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    return path
