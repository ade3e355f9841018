"""Groups, owners and failures in a real browser, and pages of long names in two widths, of a world without a fleet."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from hostler.model import inputs
from hostler.model.work import DeviceKind, FailureClass, Retry
from tests.browser.conftest import PATIENCE_MS, Site, kept
from tests.browser.test_looking import CUT, LOW, PHONE
from tests.core.builders import ended, fleet, link_up, node, script, sweep
from tests.integration.conftest import WAIT, until
from tests.web.core_desk import TOKEN, CoreDesk, Window, window
from tests.web.pages.batches import batch
from tests.web.test_access import bearer, make

pytestmark = pytest.mark.services
DESKTOP: ViewportSize = {"width": 1280, "height": 850}
LONG = "gpt2-medium-finetune-lr3e-4-warmup2000-cosine-adamw-beta0.95-seed20261129-ablation-without-dropout"
ONCE = Retry(max_attempts={FailureClass.EXIT: 1})


class Look(NamedTuple):
    """Pages of a world that the test made, in a browser."""

    served: Window
    page: Page

    def at(self, path: str) -> Page:
        """A page, once it is live."""
        self.page.goto(f"http://127.0.0.1:{self.served.port}/pages/{path}")
        self.page.wait_for_selector("#line[data-state=up]")
        return self.page


@pytest.fixture(scope="module")
def rich() -> Iterator[Window]:
    """Long names wherever there are names: GPUs, cordons, groups, parameters, results, owners, calls."""
    driver = fleet(devices=1)
    driver.tell(inputs.Begin(version="test", epoch=1, user="ops"))
    spec = node(f"node-{LONG}", 2, DeviceKind.CUDA, 80.0)
    cards = tuple(replace(each, model="NVIDIA H100 80GB HBM3 with a long product name") for each in spec.devices)
    spec = replace(spec, devices=cards, provider="a-provider-with-a-long-name")
    driver.tell(inputs.NodeFound(node=spec), link_up(spec.name))
    driver.tell(inputs.CordonNode(node="n", why=f"fan {LONG} is loud", who="anna.with.a.long.name@example.org"))
    desk = CoreDesk(driver)
    with window(desk) as served:
        anna = bearer(make(served, "laptop", "operate", owner="anna.with.a.long.name@example.org"))
        jobs = [
            {
                "argv": ["python", "train.py", "--name", LONG],
                "name": f"{LONG} {n}",
                "parameters": {"lr": f"{3 * n}e-4", "warmup_steps": str(1000 * n), "dataset_with_a_long_name": LONG},
                "device": "gpu",
                "retry": {"max_attempts": {"exit": 1}},
            }
            for n in range(1, 7)
        ]
        reply = served.post("/api/v1/groups", {"group": {"name": LONG, "max_running": 2}, "jobs": jobs}, headers=anna)
        assert reply.status == 201, reply.body
        done = {"validation_accuracy": 0.912345678, "loss": 1e-05, "checkpoint": f"runs/{LONG}/best.pt"}
        served.tell(ended("j1.1", result=done))
        served.desk.logs |= {
            ("j2.1", "err"): b"Traceback (most recent call last):\n  File train.py\nRuntimeError: no\n"
        }
        served.tell(inputs.Started(attempt="j2.1", pid=7, pid_start=1), ended("j2.1", exit_code=1))
        served.tell(inputs.Submit(specs=(batch(LONG, 200), sweep(LONG, stop=2**40), script(LONG, retry=ONCE))))
        yield served


@pytest.fixture
def look(rich: Window, browser: Browser) -> Iterator[Look]:
    context = browser.new_context(viewport=DESKTOP)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{rich.port}/login?next=/pages/groups")
    page.fill("#token", TOKEN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/pages/groups")
    yield Look(rich, page)
    context.close()


PATHS = {
    "groups": "groups",
    "group": "groups/g1",
    "jobs": "jobs",
    "job": "jobs/j3",
    "failed": "jobs/j2",
    "calls": "calls",
    "batch": "calls/j7",
    "queue": "queue",
    "fleet": "fleet",
    "node": f"nodes/node-{LONG}",
    "cordoned": "nodes/n",
}


TILED = ("fleet", "node", "cordoned", "queue")
"""Pages that shorten names in the tiles of devices, or have wide tables, where there is the room of a desktop."""


@pytest.mark.parametrize("name", [each for each in PATHS if each != "queue"])
def test_long_names_are_whole_on_a_phone(look: Look, name: str) -> None:
    look.page.set_viewport_size(PHONE)
    page = look.at(PATHS[name])
    kept(page, f"long-{name}-390")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert page.evaluate(CUT) == []
    assert page.evaluate(LOW) == []


@pytest.mark.parametrize("name", PATHS)
def test_long_names_fit_a_desktop(look: Look, name: str) -> None:
    page = look.at(PATHS[name])
    kept(page, f"long-{name}-1280")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    if name not in TILED:
        assert page.evaluate(CUT) == []


def test_failed_output_stands_in_the_first_window(look: Look) -> None:
    page = look.at("jobs/j2")
    expect(page.get_by_text("RuntimeError: no")).to_be_in_viewport()
    expect(page.locator("#failed")).to_contain_text("exit 1, attempt 1 of 1")


def test_own_groups_are_chosen_by_the_filter(look: Look) -> None:
    page = look.at("groups")
    expect(page.locator("#groups tbody tr")).to_have_count(1)
    page.get_by_label("Owner").select_option("mine")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#groups")).to_contain_text("There is no job group of")
    look.at("jobs")
    page.locator("#jobs tbody tr").first.get_by_role("link", name="anna").click()
    page.wait_for_url(re.compile(r"owner=anna"))
    expect(page.locator("#jobs tbody tr")).to_have_count(6)


@pytest.fixture
def gate(site: Site, tmp_path: Path) -> Iterator[Path]:
    """Jobs wait for this file; whatever becomes of the test, none waits for ever."""
    made = tmp_path / "gate"
    yield made
    made.touch()
    until(lambda: not site.fleet.client.jobs(["pending", "leased", "launching", "running"]), "rest")


def submit_group(site: Site, *programs: str, gate: Path) -> str:
    """A group of these programs, each of which fails at its first failure; its id."""

    def job(code: str) -> dict[str, Any]:
        payload = {"kind": "script", "schema": 1, "argv": [sys.executable, "-c", code, str(gate)]}
        return {"name": "member", "retry": {"max_attempts": {"exit": 1}}, "payload": payload}

    group = site.fleet.client.submit_group({"name": "steered"}, [job(code) for code in programs]).group
    assert group is not None
    return str(group["id"])


def test_group_is_followed_cancelled_and_tried_again(site: Site, page: Page, gate: Path) -> None:
    group = submit_group(site, "raise SystemExit(3)", WAIT, WAIT, gate=gate)
    site.go(page, "queue")
    page.get_by_role("link", name="Job groups").click()
    page.locator("#groups").get_by_role("link", name=group, exact=True).click()
    page.wait_for_selector("#line[data-state=up]")
    page.evaluate("window.stayed = true")
    head = page.locator("#head")
    expect(head).to_contain_text("1 failed")
    expect(head).to_contain_text("2 running")
    page.once("dialog", lambda dialog: dialog.accept())
    page.remove_listener("dialog", site._dismiss)
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator("#said")).to_have_text("Cancel: accepted.")
    expect(head).to_contain_text("2 cancelled")
    page.get_by_role("button", name="Retry failed", exact=True).click()
    expect(page.locator("#said")).to_have_text("Retry failed: accepted.")
    until(lambda: next(iter(site.fleet.client.group_results(group)))["attempts"] == 2, "the second attempt")
    expect(head).to_contain_text("2 cancelled")
    gate.touch()
    page.get_by_role("button", name="Retry failed and cancelled").click()
    expect(head).to_contain_text("2 done")
    expect(head).to_contain_text("1 failed")
    assert page.evaluate("window.stayed"), "it followed by itself"
    page.locator("#jobs tbody tr").first.get_by_role("link").click()
    expect(page.locator("#head").get_by_role("link", name=group)).to_be_visible()


def test_reader_has_no_buttons_on_a_group(site: Site) -> None:
    token = site.fleet.client.create_token("ned", "read")["token"]
    page = site.visitor()
    page.goto(f"{site.url}/pages/groups/g1")
    site.log_in(page, token)
    page.wait_for_url("**/pages/groups/g1")
    expect(page.locator("#jobs")).to_contain_text("accuracy")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()
    expect(page.get_by_role("button", name="Retry failed", exact=True)).to_be_hidden()
    site.fleet.client.revoke_token("ned")


def test_group_of_another_person_has_its_owner_in_place_of_buttons(site: Site) -> None:
    token = site.fleet.client.create_token("bo", "operate", owner="bo")["token"]
    page = site.visitor()
    page.goto(f"{site.url}/pages/groups/g1")
    site.log_in(page, token)
    page.wait_for_url("**/pages/groups/g1")
    page.wait_for_selector("#line[data-state=up]")
    expect(page.get_by_text("This group belongs to")).to_be_visible()
    expect(page.get_by_role("button", name="Retry failed", exact=True)).to_have_count(0)
    site.fleet.client.revoke_token("bo")


def test_calls_are_shown_with_what_they_returned_or_raised(site: Site, page: Page) -> None:
    site.go(page, "calls")
    calls = [each["job"] for each in site.fleet.client.sweeps() if each["calls"]]
    raised = None
    for job in calls:
        site.go(page, f"calls/{job}")
        raised = raised or page.locator("#results tr", has_text="raised").count()
    assert raised
    expect(page.locator("h1")).to_contain_text("Calls of parse")
