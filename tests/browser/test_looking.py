"""Every page in a real browser: it loads, follows, can be read by everybody, and complains of nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, Route, ViewportSize, expect

from tests.browser.chromium import AXE_FILE
from tests.browser.conftest import HOSTILE, Site, kept

pytestmark = pytest.mark.services
PAGES = {
    "fleet": "fleet",
    "node": "nodes/here",
    "queue": "queue",
    "jobs": "jobs",
    "job": "jobs/speaks",
    "failed": "jobs/fails",
    "groups": "groups",
    "group": "groups/g1",
    "batches": "calls",
    "batch": "calls/{batch}",
    "sweeps": "sweeps",
    "sweep": "sweeps/{sweep}",
    "learning": "learning",
    "config": "learning/coins",
    "rl": "rl",
    "rl of one": "rl/learns?env=2",
    "data": "data",
    "artifacts": "artifacts",
    "artifact": "artifacts/{artifact}",
    "events": "events",
    "story": "events/1",
    "costs": "costs",
}
WINDOW: ViewportSize = {"width": 1366, "height": 850}
PHONE: ViewportSize = {"width": 390, "height": 844}
LOOKS: dict[str, tuple[Any, Literal["light", "dark"]]] = {
    "light": (WINDOW, "light"),
    "dark": (WINDOW, "dark"),
    "phone-dark": (PHONE, "dark"),
    "phone": (PHONE, "light"),
}
"""Windows and colours, in an order in which only one of them changes each time."""
AXE = "async (options) => (await axe.run({ resultTypes: ['violations'], ...options })).violations"
COLOURS = {"runOnly": ["color-contrast"]}
"""All that another theme can change."""
GRAVE = ("serious", "critical")
CLICKABLE = """() => [...document.querySelectorAll("a[href], button, select, input, summary")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.closest("dialog"))
  .map((each, number) => (each.dataset.reached = String(number)))"""


NARROW = ("fleet", "node", "jobs", "job", "failed", "groups", "group", "batches", "batch")
"""Pages that have everything in the width of a phone: no part of them moves sideways either."""
CUT = """() => [...document.querySelectorAll("body *")]
  .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1
    && getComputedStyle(each).overflowX !== "visible" && getComputedStyle(each).display !== "inline")
  .map((each) => `${each.tagName} ${each.className} ${each.scrollWidth} > ${each.clientWidth}: `
    + each.textContent.trim().slice(0, 60))"""

LOW = """() => [...document.querySelectorAll(".scroll")]
  .filter((each) => each.checkVisibility() && each.scrollHeight > each.clientHeight + 1)
  .map((each) => `${each.getAttribute("aria-label")} ${each.scrollHeight} > ${each.clientHeight}`)"""


def path_of(site: Site, name: str) -> str:
    """Where a page is."""
    client = site.fleet.client
    batch = next(each["job"] for each in client.sweeps() if each["calls"])
    artifact = client.artifacts("model")[0]["sha256"]
    return PAGES[name].format(sweep=client.sweeps()[0]["job"], batch=batch, artifact=artifact)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_read_by_everybody(site: Site, page: Page, name: str) -> None:
    site.go(page, path_of(site, name))
    found = {}
    for look, (window, colours) in LOOKS.items():
        page.set_viewport_size(window)
        page.emulate_media(color_scheme=colours)
        kept(page, f"{name}-{look}")
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{name} is {wide} px wider than the window"
        found[look] = violations(page, {} if colours == "light" else COLOURS)
    assert {look: told for look, told in found.items() if told} == {}


@pytest.mark.parametrize("name", NARROW)
def test_phone_has_the_whole_page_without_moving_sideways(site: Site, name: str) -> None:
    page = site.enter(viewport=PHONE, has_touch=True)
    site.go(page, path_of(site, name))
    kept(page, f"{name}-narrow")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert page.evaluate(CUT) == []
    assert page.evaluate(LOW) == []


def test_the_door_can_be_read_by_everybody(site: Site) -> None:
    page = site.visitor()
    page.goto(f"{site.url}/")
    kept(page, "login")
    assert violations(page, {}) == []


def test_the_reference_of_the_interface_can_be_read_by_everybody(site: Site, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.url}/docs")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for look, (window, colours) in LOOKS.items():
        page.set_viewport_size(window)
        page.emulate_media(color_scheme=colours)
        kept(page, f"docs-{look}")
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"the reference is {wide} px wider than the window"
        assert violations(page, {} if colours == "light" else COLOURS) == [], look
    assert [url for url in asked if not url.startswith(site.url)] == []


def test_a_shape_opens_where_it_is_linked(site: Site, page: Page) -> None:
    site.go(page, "fleet")
    page.get_by_role("link", name="HTTP API").click()
    page.get_by_text("Submit jobs", exact=False).first.click()
    page.locator("#op-submit_jobs").get_by_role("link", name="ShortJob").click()
    expect(page.locator("#shape-ShortJob-Input")).to_be_visible()
    expect(page.locator("#shape-ShortJob-Input")).to_be_in_viewport()


def test_unknown_is_shown_as_unknown(site: Site, page: Page) -> None:
    site.go(page, "fleet")
    tile = page.locator(".tile").first
    assert tile.locator("[title=utilisation]").inner_text() == "–"
    expect(tile.locator("abbr[title=unknown]").first).to_be_visible()


def test_hostile_words_are_but_text_on_every_page(site: Site, page: Page) -> None:
    site.fleet.client.silence("*", for_s=3600, why=HOSTILE, who=HOSTILE, subject=HOSTILE)
    for name in PAGES:
        site.go(page, path_of(site, name))
        assert page.locator("harm, img[src=x]").count() == 0, name
    site.go(page, "jobs/fails")
    expect(page.locator("h1")).to_contain_text(HOSTILE.partition("\u202e")[0])
    expect(page.locator("#log")).to_contain_text(HOSTILE.partition("\u202e")[0])
    site.go(page, f"events?{urlencode({'text': HOSTILE, 'job': HOSTILE})}")
    expect(page.get_by_label("Words")).to_have_value(HOSTILE)


def test_an_entry_has_its_story(site: Site, page: Page) -> None:
    site.go(page, "events?job=speaks")
    page.locator("#events tr", has_text="job.done").get_by_role("link").first.click()
    expect(page.locator("#tale")).to_contain_text("request.accepted")
    page.locator("#tale .step", has_text="attempt.leased").get_by_role("link").first.click()
    expect(page.locator("#tale .self")).to_contain_text("attempt.leased")


def test_curves_are_drawn(site: Site, page: Page) -> None:
    site.go(page, "learning/coins")
    expect(page.locator("[data-plot=rating] canvas")).to_be_visible()
    expect(page.locator("#models tbody tr")).not_to_have_count(0)


def test_a_training_is_looked_at(site: Site, page: Page) -> None:
    site.go(page, "rl")
    page.get_by_role("link", name=site.fleet.job("learns")["id"]).click()
    expect(page.locator("[data-plot=rate] canvas")).to_be_visible()
    expect(page.locator("#numbers")).to_contain_text("40\u202f000")
    expect(page.locator("#explored rect.heat")).to_have_count(3)
    expect(page.locator("#rewards")).to_contain_text("rooms makes up more")
    expect(page.locator("#troubles")).to_contain_text(HOSTILE.partition("\u202e")[0])
    drawn = "(img) => img.complete && img.naturalWidth"
    assert {each.evaluate(drawn) for each in page.locator("#picture img").all()} == {8}


def test_environments_are_gone_through_by_keyboard(site: Site, page: Page) -> None:
    site.go(page, "rl/learns")
    page.evaluate("window.stayed = true")
    shown = page.locator("#picture h2")
    expect(shown).to_contain_text("environment 0 of 16")
    page.keyboard.press("ArrowLeft")
    expect(shown).to_contain_text("environment 15 of 16")
    page.get_by_role("link", name="Next").focus()
    page.keyboard.press("Enter")
    expect(shown).to_contain_text("environment 0 of 16")
    expect(page.get_by_role("link", name="Next")).to_be_focused()
    page.get_by_role("link", name="environment 7").click()
    expect(shown).to_contain_text("environment 7 of 16")
    assert page.url.endswith("?env=7")
    assert page.evaluate("window.stayed"), "nothing was loaded anew"
    page.locator(".scroll").first.focus()
    page.keyboard.press("ArrowRight")
    expect(shown).to_contain_text("environment 7 of 16")


def test_a_sweep_shows_its_ledger_and_what_chance_would_give(site: Site, page: Page) -> None:
    site.go(page, path_of(site, "sweep"))
    assert page.locator("svg.ledger rect.look-done").count() == 1
    expect(page.locator("#numbers")).to_contain_text("2 expected by chance")
    expect(page.locator("#hits")).to_contain_text("item 500")


def test_the_log_of_an_attempt_is_there(site: Site, page: Page) -> None:
    site.go(page, "jobs/speaks")
    expect(page.locator("#log")).to_have_text("it begins\nit ends\n")
    expect(page.locator("#log-state")).to_contain_text("ended")


def test_the_theme_is_kept(site: Site, page: Page) -> None:
    site.go(page, "fleet")
    button = page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    expect(button).to_have_text("Theme: dark")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_keyboard_reaches_everything(site: Site, page: Page) -> None:
    site.go(page, "fleet")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_the_keyboard_gets_to_everything_that_can_be_clicked(site: Site, page: Page) -> None:
    page.route("**/*", held)
    for path in ("fleet", "events", "jobs/fails", "rl/learns"):
        site.go(page, path)
        missed = set(page.evaluate(CLICKABLE))
        for _ in range(len(missed) + 5):
            page.keyboard.press("Tab")
            missed.discard(page.evaluate("document.activeElement.dataset.reached"))
        assert missed == set(), path


def held(route: Route) -> None:
    """A page is loaded and stays as it is: an update of a part takes away what a test has noted at its elements."""
    if route.request.resource_type not in ("fetch", "xhr"):
        route.continue_()


def test_filters_narrow_the_fleet(site: Site, page: Page) -> None:
    site.go(page, "fleet")
    page.select_option("[name=provider]", "home")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".node")).to_have_count(1)
    site.go(page, "fleet?tier=tier+1")
    expect(page.get_by_text("No node is like that.")).to_be_visible()


def violations(page: Page, options: Mapping[str, Any]) -> list[str]:
    """What axe-core finds seriously wrong, and where."""
    if not AXE_FILE.is_file():
        pytest.skip(f"{AXE_FILE.name} is missing; scripts/vendored.py browser fetches it, as `make browser` does")
    # The policy lets no script in; axe is put in behind it, as a person's own tools are.
    page.evaluate(f"() => {{ if (!window.axe) {{ {AXE_FILE.read_text()} }} }}")
    return [
        f"{each['id']}: {node['target']} {node['failureSummary'][:300]}"
        for each in page.evaluate(AXE, options)
        if each["impact"] in GRAVE
        for node in each["nodes"][:3]
    ]
