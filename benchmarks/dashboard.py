"""How quickly the dashboard appears and follows, with 1,000 devices in real Chromium.

    python benchmarks/dashboard.py [--quick] [--json FILE]

The pages are served, as ever, from the production core on a virtual fleet whose devices are all busy and tell of
themselves all the time, while jobs end and start. `first paint` is what Chromium says of a fresh load (its first
contentful paint), the browser's own first visit included; `update` the time from knowing that parts are stale to their
being swapped, the controller's share included; `live` the time from something that happens in the core until the page
shows it; `longest task` what the page's own thread was busy for at a stretch after it had been painted; `look` what
it costs the controller to see what has changed; `load` what else the machine had to do, as its load average said before
the first visit. There is no peer; the bars are the limits that were asked for.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playwright.sync_api import Browser, Page, sync_playwright
from tests.browser.chromium import OPTIONS, chromium
from tests.web.core_desk import TOKEN, CoreDesk, Window, window

from common import Bar, Row, arguments, report
from hostler.model.inputs import CordonNode, Input, ResumeNode, Submit
from hostler.model.work import JobSpec, ScriptPayload
from hostler.web.pages.fleet import FLEET
from hostler.web.pages.part import Subject
from hostler.web.pages.queue import QUEUE
from virtual_fleet import World

DEVICES, CONFIGS, JOBS = 1_000, 40, 100_000
QUICK_DEVICES, QUICK_JOBS = 200, 2_000
WATCHED_S, QUICK_WATCHED_S = 20.0, 6.0
TOLD_EVERY_S = 0.02
"""A node tells of itself so often: each of some 300 about every six seconds."""
ENDS_SHARE = 0.2
"""Jobs end that much more rarely."""
LOADS = 7
NEWS = 7
LOOKS = {"fleet": FLEET, "queue": QUEUE}
PAINT = """() => [
  performance.getEntriesByType('navigation')[0].responseEnd,
  performance.getEntriesByName('first-contentful-paint')[0].startTime,
]"""
UPDATES = "performance.getEntriesByName('hostler:update').map((each) => [each.duration, each.detail])"
WATCH_TASKS = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.tasks.push(each.duration);
  }).observe({ type: "longtask" });
}"""
SEEN = """([where, words, there]) =>
  [...document.querySelectorAll(where)].some((each) => each.textContent.includes(words)) === there"""
FIRST_PAINT_MS, UPDATE_MS, LIVE_MS = 1000.0, 100.0, 1000.0


class WorldDriver:
    """A virtual world as the desk of the tests takes it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.core = world.core
        self.entries: list[Any] = []
        self.answers: list[Any] = []

    @property
    def state(self) -> Any:
        """The state of the core."""
        return self.core.state

    def tell(self, *given: Input, after_s: float = 0.0) -> list[Any]:
        """Give inputs to the core."""
        self.world.tell("asked", *given)
        return []


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__)
    program = chromium()
    if program is None:
        raise SystemExit("there is no chromium to look with; Debian and Ubuntu: sudo apt-get install chromium")
    devices, jobs = (QUICK_DEVICES, QUICK_JOBS) if options.quick else (DEVICES, JOBS)
    world = busy_world(devices, jobs)
    desk = CoreDesk(WorldDriver(world))  # type: ignore[arg-type]
    seconds = QUICK_WATCHED_S if options.quick else WATCHED_S
    with window(desk, entrance={"now": time.time}) as served, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=list(OPTIONS))
        rows = [measured(browser, served, world, page, seconds) for page in LOOKS]
        browser.close()
    report("dashboard", rows, list(bars(rows)), options.json)


def busy_world(devices: int, jobs: int) -> World:
    """A fleet whose devices are all busy and have told of themselves."""
    world = World(devices, CONFIGS)
    world.submit(jobs)
    for _ in range(len(world.nodes) * 4):
        world.measure_node()
    return world


def measured(browser: Browser, served: Window, world: World, page: str, seconds: float) -> Row:
    """One page, loaded afresh several times, then watched while the fleet lives."""
    load = os.getloadavg()[0]
    paints = [first_paint(browser, served, page) for _ in range(LOADS)]
    shown = opened(browser, served, page)
    shown.evaluate(WATCH_TASKS)
    with living(served, world):
        shown.wait_for_timeout(seconds * 1000)
        updates = shown.evaluate(UPDATES)
        news = sorted(live_ms(shown, served, world, page, number) for number in range(NEWS))
    tasks = shown.evaluate("window.tasks")
    shown.context.close()
    took = sorted(each[0] for each in updates)
    return {
        "page": page,
        "devices": served.desk.status().devices,
        "html kB": round(len(served.get(f"/pages/{page}").body) / 1000),
        "served ms": round(statistics.median(each[0] for each in paints)),
        "first paint ms": round(statistics.median(each[1] for each in paints)),
        "worst ms": round(max(each[1] for each in paints)),
        "updates": len(took),
        "parts": sum(each[1] for each in updates),
        "update ms": round(statistics.median(took), 1) if took else None,
        "p95 ms": round(took[int(len(took) * 0.95)], 1) if took else None,
        "live ms": round(statistics.median(news)),
        "live worst ms": round(news[-1]),
        "longest task ms": round(max(tasks, default=0)),
        "look ms": round(look_ms(served, page), 1),
        "load": round(load, 1),
    }


def bars(rows: Sequence[Row]) -> Iterator[Bar]:
    """The limits of the task."""
    for row in rows:
        yield Bar(f"{row['page']}: first paint, ms", row["worst ms"], FIRST_PAINT_MS, "<", "the worst")
        yield Bar(f"{row['page']}: update, ms", row["p95 ms"], UPDATE_MS, "<", "95 of 100")
        yield Bar(f"{row['page']}: live, ms", row["live worst ms"], LIVE_MS, "<", "the worst")


def first_paint(browser: Browser, served: Window, page: str) -> tuple[float, float]:
    """When a browser that has never been there has the page, and when it has painted something of it, in ms."""
    shown = opened(browser, served, page)
    found = shown.evaluate(PAINT)
    shown.context.close()
    return found[0], found[1]


def opened(browser: Browser, served: Window, page: str) -> Page:
    """The page, logged in and live, with nothing in the cache."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    url = f"http://127.0.0.1:{served.port}"
    assert context.request.post(f"{url}/login", form={"token": TOKEN, "next": "/healthz"}).ok
    shown = context.new_page()
    shown.goto(f"{url}/pages/{page}")
    shown.wait_for_selector("#line[data-state=up]")
    return shown


@contextmanager
def living(served: Window, world: World) -> Iterator[None]:
    """The fleet lives for as long as the block: nodes tell of themselves, jobs end, others start."""
    over = threading.Event()

    def live() -> None:
        while not over.wait(TOLD_EVERY_S):
            served.call(world.measure_node)
            if random.random() < ENDS_SHARE:
                served.call(world.end_next)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def live_ms(shown: Page, served: Window, world: World, page: str, number: int) -> float:
    """From something that happens until the page shows it, in the part of it that is looked at."""
    if page == "queue":
        shown.locator("#newest").scroll_into_view_if_needed()
        news: Input = Submit(specs=(JobSpec(name=f"news {number}", payload=ScriptPayload(schema=1, argv=("true",))),))
        return _seen_ms(shown, served, world, news, ["#newest", f"news {number}", True])
    node = shown.locator(".node h3 a").first.inner_text()
    cordon, sign = CordonNode(node=node, why="news", who="the benchmark"), ".node h3 .tag"
    took = _seen_ms(shown, served, world, cordon, [sign, "cordoned", True])
    _seen_ms(shown, served, world, ResumeNode(node=node, who="the benchmark"), [sign, "cordoned", False])
    return took


def _seen_ms(shown: Page, served: Window, world: World, news: Input, sign: list[Any]) -> float:
    """Looked for at each frame: Playwright's own waiting looks again after half a second."""
    began = time.perf_counter()
    served.call(lambda: world.tell("news", news))
    shown.wait_for_function(SEEN, arg=sign, polling="raf")
    return (time.perf_counter() - began) * 1000


def look_ms(served: Window, page: str) -> float:
    """CPU time of one look at all parts of a page."""

    async def look() -> float:
        began = time.thread_time()
        for part in await LOOKS[page].parts(served.desk, Subject()):
            assert part.mark
        return time.thread_time() - began

    times = [asyncio.run_coroutine_threadsafe(look(), served.loop).result() for _ in range(LOADS)]
    return statistics.median(times) * 1000


if __name__ == "__main__":
    main()
