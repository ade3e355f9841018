"""Steering in a real browser: what is clicked happens, and is seen without loading anything again."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.integration.conftest import WAIT, until

pytestmark = pytest.mark.services
NOT_AGAIN = "window.stayed = true"


@pytest.fixture
def gate(site: Site, tmp_path: Path) -> Iterator[Path]:
    """Jobs wait for this file; whatever becomes of the test, none waits for ever."""
    made = tmp_path / "gate"
    yield made
    made.touch()
    until(lambda: not site.fleet.client.jobs(["pending", "leased", "launching", "running"]), "rest")


def submitted(site: Site, page: Page, name: str, *argv: str) -> str:
    """A script, submitted by the form; the id that the page then shows."""
    site.go(page, "queue")
    page.get_by_text("Submit a script").click()
    form = page.locator("#submit")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Command").fill("\n".join(argv))
    form.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/pages/jobs/*")
    page.wait_for_selector("#line[data-state=up]")
    return page.url.rpartition("/")[2]


def waits(gate: Path) -> tuple[str, ...]:
    """A command that runs until a file appears; an argument is a line of the form, so the program has to be a file."""
    program = gate.with_name("waits.py")
    program.write_text(WAIT)
    return sys.executable, str(program), str(gate)


def test_a_job_is_submitted_followed_and_seen_to_end(site: Site, page: Page, gate: Path) -> None:
    job = submitted(site, page, "waits for a file", *waits(gate))
    page.evaluate(NOT_AGAIN)
    expect(page.locator("#head .state")).to_have_text("running")
    gate.touch()
    expect(page.locator("#head .state")).to_have_text("done")
    expect(page.locator("#attempts")).to_contain_text(f"{job}.1")
    assert page.evaluate("window.stayed"), "it followed by itself"


def test_a_job_is_cancelled_and_tried_again(site: Site, page: Page, gate: Path) -> None:
    job = submitted(site, page, "to be cancelled", *waits(gate))
    expect(page.locator("#head .state")).to_have_text("running")
    page.get_by_label("Reason").fill("wrong <b>data</b>")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#said")).to_have_text("Cancel: accepted.")
    expect(page.locator("#head .state")).to_have_text("cancelled")
    expect(page.locator("#story")).to_contain_text("wrong <b>data</b>")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#head .state")).to_have_text("running")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#head .state")).to_have_text("cancelled")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#said[data-kind=bad]")).to_contain_text(job)
    site.faults[:] = [fault for fault in site.faults if "status of 409" not in fault]


def test_what_waits_is_explained_and_ranked(site: Site, page: Page, gate: Path) -> None:
    held = [site.fleet.python(WAIT, str(gate), name="in the way") for _ in range(2)]
    for job in held:
        site.fleet.pid(job)
    waiting = submitted(site, page, "waits", "true")
    site.go(page, "queue")
    expect(page.locator("#waiting")).to_contain_text("all 2 devices are taken")
    page.get_by_role("link", name=f"Explain {waiting}").click()
    expect(page.locator("#explain .lead")).to_contain_text("every device it fits on is taken")
    page.get_by_label("Priority").fill("7")
    page.get_by_role("button", name="Set").click()
    expect(page.locator("#head")).to_contain_text("Priority\n7", use_inner_text=True)
    gate.touch()
    expect(page.locator("#head .state")).to_have_text("done")


def test_a_node_is_drained_and_given_work_again(site: Site, page: Page) -> None:
    other = site.enter()
    site.go(other, "fleet")
    other.evaluate(NOT_AGAIN)
    site.go(page, "nodes/here")
    page.get_by_label("Why").fill("a new fan")
    page.get_by_role("button", name="Drain", exact=True).click()
    expect(page.locator("#held-back")).to_contain_text("a new fan")
    drained = other.locator(".node .tag", has_text="drained")  # others: a disk nearly full, where this runs
    expect(drained).to_have_count(1)
    assert site.fleet.client.nodes()[0]["cordon"]["why"] == "a new fan"
    page.get_by_role("button", name="Resume").click()
    expect(drained).to_have_count(0)
    assert other.evaluate("window.stayed")


def test_an_alert_is_tried_looked_after_and_silenced(site: Site, page: Page) -> None:
    site.go(page, "events")
    page.evaluate(NOT_AGAIN)
    page.get_by_text("Rules, and where alerts are told").click()
    # An alert that is tried is over after a minute; on a crowded machine what follows takes longer.
    page.route("**/rules/*/test", lambda route: route.continue_(post_data='{"lasts_s": 600}'))
    page.get_by_role("button", name="Try gpu_idle").click()
    expect(page.locator("#said")).to_contain_text("gpu_idle is tried")
    page.locator("#alerts").scroll_into_view_if_needed()
    alert = page.locator("#alerts .alert", has_text="gpu_idle")
    expect(alert).to_contain_text("test")
    expect(page.locator("#strip")).to_contain_text("1 alert")
    alert.get_by_role("button", name="Acknowledge").click()
    page.get_by_label("Note").fill("<b>mine</b>")
    page.locator("#acknowledge").get_by_role("button", name="Acknowledge").click()
    expect(alert).to_contain_text("local looks after it")
    expect(alert).to_contain_text("<b>mine</b>")
    alert.get_by_role("button", name="Silence").click()
    dialog = page.locator("#silence")
    expect(dialog.get_by_label("Rule")).to_have_value("gpu_idle")
    dialog.get_by_label("For").select_option("an hour")
    dialog.get_by_label("Why").fill("the fan")
    dialog.get_by_role("button", name="Silence").click()
    expect(alert).to_contain_text("silenced by local")
    expect(page.locator("#strip")).not_to_contain_text("alert")
    row = page.locator("#silences tr", has_text="the fan")
    assert any(each["why"] == "the fan" for each in site.fleet.client.silences())
    row.get_by_role("button", name="End").click()
    expect(row).to_have_count(0)
    assert page.evaluate("window.stayed")


def test_a_form_that_was_opened_is_closed_by_the_keyboard(site: Site, page: Page) -> None:
    made = site.fleet.client.test_alert("selfplay_slow", lasts_s=600.0)
    site.go(page, "events")
    button = page.locator("#alerts .alert", has_text="selfplay_slow").get_by_role("button", name="Silence")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Why")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#silence")).to_be_hidden()
    expect(button).to_be_focused()
    assert made["alert"]["silence"] is None


def test_who_may_only_look_can_only_look(site: Site) -> None:
    token = site.fleet.client.create_token("eve", "read")["token"]
    page = site.visitor()
    page.goto(f"{site.url}/pages/jobs/speaks")
    site.log_in(page, token)
    page.wait_for_url("**/pages/jobs/speaks")
    expect(page.locator(".foot")).to_contain_text("eve, who may look and not steer")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    site.go(page, "nodes/here")
    expect(page.get_by_role("button", name="Drain now")).to_be_hidden()
    site.fleet.client.revoke_token("eve")
    page.goto(f"{site.url}/pages/fleet")
    expect(page.get_by_label("Token")).to_be_visible()


def test_who_has_no_token_stays_outside(site: Site) -> None:
    page = site.visitor()
    page.goto(f"{site.url}/pages/jobs/speaks")
    site.log_in(page, "a guess")
    expect(page.get_by_role("alert")).to_contain_text("Nobody has this token")
    site.log_in(page, site.token)
    page.wait_for_url("**/pages/jobs/speaks")
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login*")
    page.goto(f"{site.url}/pages/fleet")
    expect(page.get_by_label("Token")).to_be_visible()
    site.faults[:] = [fault for fault in site.faults if "status of 401" not in fault]


def test_a_lost_connection_is_seen_and_heals(site: Site, page: Page) -> None:
    site.go(page, "queue")
    page.evaluate(NOT_AGAIN)
    port = int(site.url.rpartition(":")[2])
    site.fleet.signal(signal.SIGINT)
    site.fleet.ended()
    expect(page.locator("#lost")).to_contain_text("has not been heard for")
    site.fleet.launch("--port", str(port))
    until(site.fleet._is_up, "the controller's answer", log=site.fleet.log)
    expect(page.locator("#lost")).to_be_hidden()
    job = site.fleet.script("true", name="after the break")
    expect(page.locator("#newest")).to_contain_text(job)
    assert page.evaluate("window.stayed")
    site.faults[:] = [fault for fault in site.faults if "net::ERR" not in fault]


def test_copies_are_read_again(site: Site, page: Page) -> None:
    model = site.fleet.client.artifacts("model", limit=1)[0]
    site.go(page, f"artifacts/{model['sha256']}")
    page.evaluate(NOT_AGAIN)
    page.get_by_role("button", name="Read all copies again").click()

    def read_at() -> float:
        return max(copy["verified_at"] for copy in site.fleet.client.artifact(model["sha256"])["artifact"]["copies"])

    until(lambda: read_at() > model["copies"][0]["verified_at"], "the copy being read")
    expect(page.locator("#places")).to_contain_text("right")
    assert page.evaluate("window.stayed")
