"""Words that mean harm, and a world in which everything that people or nodes can name is called so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from hostler.model import inputs
from hostler.model.alerts import USUAL_ALERTS
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.groups import GroupSpec, SubmitGroup
from hostler.model.rules import USUAL
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import DeviceKind, WorkKind
from hostler.web.pages.routes import PATHS
from tests.core.builders import Driver, ended, link_up, script, sweep
from tests.web.core_desk import CoreDesk
from tests.web.kept import made
from tests.web.loops import LoopDesk, losing
from tests.web.pages.batches import batch

MARK = "H4RM"
"""Each of them begins so: what does not show it shows nothing of them."""
HARMS: Mapping[str, str] = {
    name: MARK + words
    for name, words in {
        "elements": "<img src=x onerror=alert(1)><harm>",
        "ends": "</title></script></pre></textarea></option>--><harm>",
        "double quotes": '" onmouseover="alert(1)" x="<harm>',
        "single quotes": "' onfocus='alert(1)' y='<harm>",
        "addresses": "javascript:alert(1)//<harm>",
        "templates": "{{ 7 * 7 }}{% raw %}${7*7}#{7*7}<%= 7*7 %><harm>",
        "right to left": "\u202egnp.exe\u2066\u200f<harm>",
        "much": "<harm>" + "W" * 190,
        "lines": "a\nb\r\nc\td\u2028e\x02 \x021.000 ago\x03\x1b[2J<harm>",
        "json": '"}\']}],"rule":"<harm>&quot;&#39;',
        "paths": "/../../..%2f..%00?x=1#<harm>",
    }.items()
}
NODE_AWAY = "n-away"
CONTENT = b"games of somebody who means harm"
BATCH = "j13"
"""A batch of function calls."""
ARTIFACT = hashlib.sha256(CONTENT).hexdigest()


def harmed(words: str) -> CoreDesk:
    """A desk in front of a core that has heard these words from everybody, and of a config that speaks so."""
    driver = Driver()
    driver.tell(inputs.Begin(version="test", epoch=1), inputs.Configure(rules=replace(USUAL, alerts=USUAL_ALERTS)))
    driver.tell(inputs.NodeFound(node=_node(words)), link_up(words, agent=words))
    driver.tell(inputs.NodeFound(node=_node(NODE_AWAY)), link_up(NODE_AWAY))
    first = script(words, words, key=words, config=words)
    driver.tell(
        _asked(inputs.Submit(specs=(first, sweep(words, params={"of": words}), script(words, after=(words,))))),
        inputs.Submit(specs=tuple(script(words) for _ in range(6))),
    )
    driver.tell(ended("j1.1", exit_code=1, error=words, evidence=words, reason=words, result={words: words}))
    _search(driver, words)
    driver.tell(inputs.CordonNode(node=words, why=words, who=words))
    driver.tell(_telemetry(words))
    driver.tell(inputs.LinkDown(node=NODE_AWAY, why=words))
    driver.tell(inputs.Tick(), after_s=1000.0)
    driver.tell(inputs.AcknowledgeAlert(alert="a1", who=words, note=words))
    driver.tell(inputs.SilenceAlerts(rule="*", subject=words, for_s=3600.0, why=words, who=words))
    driver.tell(inputs.Trouble(where=words, what=words))
    driver.tell(inputs.Submit(specs=(script(words, work_as=WorkKind.RL, key=f"{words}-rl"),)))
    _together(driver, words)
    (artifact,) = made(driver, CONTENT, job="j99", config="worse")
    driver.tell(inputs.CopiesTold(place=words, verified=(artifact,)))
    driver.tell(inputs.CopiesTold(place=f"{words}2", damaged=(artifact,), why=words))
    desk = LoopDesk(losing("worse", words))
    desk.driver = driver
    return desk


def paths(words: str) -> Mapping[str, str]:
    """Where each page is, about somebody of that name where it is about somebody; and with the words in its query."""
    name, query = quote(words, safe=""), quote(words, safe="")
    about = {
        "node": name,
        "sweep": "j2",
        "batch": BATCH,
        "group": "g1",
        "config": "worse",
        "story": "a1",
        "artifact": ARTIFACT,
    }
    found = {page.name: path.format(name=about.get(page.name, "")) for path, page in PATHS.items()}
    return found | {
        "rl": "/pages/rl",
        "job": "/pages/jobs/j1",
        "rl of one": f"/pages/rl/{name}-rl?env={query}",
        "job by its key": f"/pages/jobs/{name}",
        "nobody's job": f"/pages/jobs/{name}x",
        "nobody's node": f"/pages/nodes/{name}x",
        "no entry": f"/pages/events/{name}",
        "filtered events": f"/pages/events?text={query}&node={query}&config={query}&job=j1&{query}={query}",
        "filtered fleet": f"/pages/fleet?provider={query}&x={query}",
        "filtered artifacts": f"/pages/artifacts?kind={query}&place={query}&config={query}&standing={query}&x={query}",
        "nobody's artifact": f"/pages/artifacts/{name}",
        "filtered jobs": f"/pages/jobs?state={query}&{query}=1",
        "jobs of somebody": f"/pages/jobs?owner={query}",
        "jobs of no group": f"/pages/jobs?group={query}",
        "groups of somebody": f"/pages/groups?owner={query}",
        "no group": f"/pages/groups/{name}",
        "no calls": f"/pages/calls/{name}x",
    }


def _node(name: str) -> NodeSpec:
    devices = tuple(
        DeviceSpec(id=f"{name}/cpu{index}", node=name, kind=DeviceKind.CPU, index=index, model=name) for index in (0, 1)
    )
    return NodeSpec(name=name, backend="test", devices=devices, provider=name, price_per_h=1.0)


def _asked(given: inputs.Wish) -> inputs.Asked:
    return inputs.Asked(who="ann", what="submit", key=None, fingerprint=None, given=given)


def _together(driver: Driver, words: str) -> None:
    """A job group of somebody of that name, and a batch of function calls."""
    jobs = (script(words, parameters={"of": words}), script(words))
    group = inputs.Asked(
        who="ann",
        what="submit",
        key=None,
        fingerprint=None,
        given=SubmitGroup(spec=GroupSpec(name=words), jobs=jobs),
        owner=words,
    )
    driver.tell(group, inputs.Submit(specs=(batch(words, 5),)))
    assert driver.state.groups["g1"].owner == words
    assert BATCH in driver.state.sweeps


def _search(driver: Driver, words: str) -> None:
    """A chunk of the sweep finds something, another is given back."""
    leases = list(driver.state.sweeps["j2"].leases)
    if leases:
        start, _ = driver.state.sweeps["j2"].ledger.leased[leases[0]]
        driver.tell(driver.searched(leases[0], hits=[{"at": start, words[:20]: words}]))
    for chunk in list(driver.state.sweeps["j2"].leases)[:1]:
        driver.tell(driver.returned(chunk, reason="worker_failed", error=words))


def _telemetry(node: str) -> inputs.Telemetry:
    told = {f"{node}/cpu0": DeviceTelemetry(utilization=0.5)}
    return inputs.Telemetry(node=node, at=1.0, disk_total_gb=100.0, disk_free_gb=1.0, devices=told)
