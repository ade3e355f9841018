"""What people should know: alerts, the rules they come from, silences, and a test of each."""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import (
    UNKNOWN,
    Column,
    age,
    clean,
    duration,
    maybe,
    paragraph,
    plural,
    say,
    say_json,
    table_rows,
)
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import Client, View

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
TOLD_WITHIN_S = 30.0
"""How long it is waited for targets to take a test."""
LOOK_S = 0.5


Who = Annotated[str | None, Option("--who", help="Who says so; by default you.")]

ALERT_COLUMNS = (
    Column("ALERT"),
    Column("STATE"),
    Column("RULE", yields=True),
    Column("SUBJECT", yields=True),
    Column("FOR", right=True),
    Column("SEVERITY"),
    Column("BY", yields=True),
)
RULE_COLUMNS = (
    Column("RULE"),
    Column("FIRES", yields=True),
    Column("OVER", right=True),
    Column("FOR", right=True),
    Column("WANTED", right=True),
    Column("READS", right=True),
    Column("FIRING", right=True),
)
SILENCE_COLUMNS = (
    Column("SILENCE"),
    Column("RULE", yields=True),
    Column("SUBJECT", yields=True),
    Column("LEFT", right=True),
    Column("ALERTS", right=True),
    Column("BY", yields=True),
)
TARGET_COLUMNS = (
    Column("TARGET", yields=True),
    Column("KIND"),
    Column("LEAST"),
    Column("SENT", right=True),
    Column("LOST", right=True),
    Column("WAITING", right=True),
    Column("LAST", right=True),
)


def list_alerts(
    everything: Annotated[bool, Option("--all", help="Those that are over, too.")] = False,
    rule: Annotated[str | None, Option("--rule", metavar="RULE", help="Only those of this rule.")] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """List the alerts that fire, and those that will if it goes on; with --all, those of late that are over.

    FOR is how long it has been bad, of what is over how long it was. BY is who looks after it.

    Example:
      hostler alert list
      hostler alert list --all --rule gpu_idle
    """
    states = () if everything else ("firing", "pending")
    told = client(state_dir).alerts(states, rule)
    if as_json:
        say_json(told)
        return
    say(_alert_lines(told, time.time()) if told else ["nothing fires"])


def rules(as_json: Json = False, state_dir: StateDir = None) -> None:
    """List the rules: when they fire, when that is over, what one would like, and where their numbers come from.

    READS is of how many subjects it is known what they measure, and of how many it is not.

    Example:
      hostler alert rules
    """
    told = client(state_dir).alert_rules()
    if as_json:
        say_json(told)
        return
    say(_rule_lines(told))


def targets(as_json: Json = False, state_dir: StateDir = None) -> None:
    """List where alerts are told (`alerts: {notify: ...}` in the fleet file), and how that goes.

    Example:
      hostler alert targets
    """
    told = client(state_dir).alert_targets()
    if as_json:
        say_json(told)
        return
    nobody = ["nobody is told; name targets in the fleet file: `alerts: {notify: [...]}`"]
    say(_target_lines(told, time.time()) if told else nobody)


def silences(as_json: Json = False, state_dir: StateDir = None) -> None:
    """List the silences: what is not told, by whose wish, why, and for how long still.

    Example:
      hostler alert silences
    """
    told = client(state_dir).silences()
    if as_json:
        say_json(told)
        return
    say(_silence_lines(told, time.time()) if told else ["nothing is silenced"])


def silence(
    rule: Annotated[str, Argument(metavar="RULE", help="Name of a rule; '*' for all of them.")],
    for_s: Annotated[str, Option("--for", metavar="TIME", help="How long: 45m, 2h, 3d.")],
    why: Annotated[str, Option("--why", help="Why; it is shown wherever the silence is.")],
    subject: Annotated[
        str | None, Option("--subject", metavar="NAME", help="Only of this one, or of a pattern: 'rig-*'.")
    ] = None,
    who: Who = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Do not tell of some alerts for a while. They are listed all the same, and told if they still fire afterwards.

    Example:
      hostler alert silence gpu_idle --subject 'rig-*' --for 2h --why 'the switch is replaced'
    """
    made = client(state_dir).silence(rule, for_s=_seconds(for_s), why=why, who=_me(who), subject=subject)
    if as_json:
        say_json(made)
        return
    held = plural(len(made["alerts"]), "alert")
    say([f"{made['id']}: {clean(rule)} is not told for {duration(made['until'] - made['since'])}; it holds {held} now"])


def unsilence(
    name: Annotated[str, Argument(metavar="SILENCE", help="Id of a silence.")],
    who: Who = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """End a silence before its time; what it held and fires still is told now.

    Example:
      hostler alert unsilence s1
    """
    over = client(state_dir).unsilence(name, _me(who))
    if as_json:
        say_json(over)
        return
    say([f"{over['id']} is over; it held {plural(len(over['alerts']), 'alert')}"])


def ack(
    name: Annotated[str, Argument(metavar="ALERT", help="Id of an alert.")],
    note: Annotated[str | None, Option("--note", help="What others should know.")] = None,
    who: Who = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Say that you look after an alert.

    Example:
      hostler alert ack a17 --note 'on my way'
    """
    known = client(state_dir).acknowledge(name, _me(who), note)
    if as_json:
        say_json(known)
        return
    about = f"{clean(known['rule'])} {clean(known['subject'])}"
    say([f"{known['id']} ({about}): {clean(known['acknowledged_by'])} is on it"])


def try_out(
    rule: Annotated[str, Argument(metavar="RULE", help="Name of a rule.")],
    lasts: Annotated[str, Option("--for", metavar="TIME", help="How long it fires.")] = "1m",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> int:
    """Let a rule fire for a while, marked as a test, and wait until everybody has been told.

    A made-up measurement goes the way of all others: through the rule, the journal and the targets. A rule that can
    never fire is found that way, and so is a target that takes nothing. Exit status 1 if one has not taken it in time.

    Example:
      hostler alert test gpu_idle
    """
    asked = client(state_dir)
    before = {each["name"]: each for each in asked.alert_targets()}
    made = asked.test_alert(rule, _seconds(lasts))
    missing = _told(asked, made["told"], before)
    if as_json:
        say_json({**made, "missing": sorted(missing)})
    else:
        say(_test_lines(made, missing))
    return 1 if missing else 0


def _told(asked: Client, names: Sequence[str], before: Mapping[str, View]) -> Mapping[str, View]:
    """Targets that have not taken a message since `before`, after some patience."""
    until = time.monotonic() + TOLD_WITHIN_S
    while True:
        now = {each["name"]: each for each in asked.alert_targets()}
        known = [name for name in names if name in now and name in before]
        missing = {name: now[name] for name in known if now[name]["sent"] <= before[name]["sent"]}
        lost = all(each["given_up"] > before[name]["given_up"] for name, each in missing.items())
        if lost or time.monotonic() >= until:
            return missing
        time.sleep(LOOK_S)


def _test_lines(made: View, missing: Mapping[str, View]) -> Iterator[str]:
    alert, rule = made["alert"], made["rule"]
    yield f"{alert['id']} fires as a test of {clean(alert['rule'])}: {clean(alert['why'])}"
    known = rule["subjects"] - rule["unknown"]
    yield f"of the fleet it measures {plural(known, 'subject')} now, and does not know {rule['unknown']}"
    if not made["told"]:
        why = "a silence holds it back" if alert["silence"] else "there is no target for it"
        yield f"nobody is told: {why}"
    for name in made["told"]:
        yield f"{clean(name)}: {_not_taken(missing[name]) if name in missing else 'told'}"


def _not_taken(target: View) -> str:
    return f"not told yet: {clean(target['trouble'] or 'nothing has gone wrong; look again')}"


def _alert_lines(told: Sequence[View], now: float) -> Iterator[str]:
    """Each alert with its reason below it."""
    titles, *lines = table_rows(ALERT_COLUMNS, [_alert_row(each, now) for each in told])
    yield from titles
    for own, each in zip(lines, told, strict=True):
        yield from own
        yield from paragraph(("TEST: " if each["test"] else "") + each["why"], "  ", "  ")
        if each["ended_why"] is not None:
            yield from paragraph(f"over: {each['ended_why']}", "  ", "  ")


def _alert_row(each: View, now: float) -> Sequence[object]:
    state = "silenced" if each["state"] == "firing" and each["silence"] else each["state"]
    until = now if each["ended_at"] is None else each["ended_at"]
    return (
        each["id"] or "-",
        state,
        each["rule"],
        each["subject"],
        duration(max(until - each["since"], 0.0)),
        each["severity"],
        each["acknowledged_by"] or "-",
    )


def _rule_lines(told: Sequence[View]) -> Iterator[str]:
    titles, *lines = table_rows(RULE_COLUMNS, [_rule_row(each) for each in told])
    yield from titles
    for own, each in zip(lines, told, strict=True):
        yield from own
        set_by = sorted({origin for origin in each["origins"].values() if origin != "default"})
        yield from paragraph(each["meaning"] + (f"; set by {', '.join(set_by)}" if set_by else ""), "  ", "  ")


def _rule_row(each: View) -> Sequence[object]:
    rule, unit = each["rule"], each["unit"]
    known = each["subjects"] - each["unknown"]
    reads = f"{known}" + (f" +{each['unknown']}{UNKNOWN}" if each["unknown"] else "")
    return (
        rule["name"],
        f"{rule['comparison']} {_amount(rule['threshold'], unit)}" if rule["enabled"] else "turned off",
        _amount(rule["over"], unit),
        duration(rule["for_s"]) if rule["for_s"] else "-",
        "-" if rule["target"] is None else _amount(rule["target"], unit),
        reads if each["looked_at"] is not None else UNKNOWN,
        each["firing"],
    )


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return duration(value)
    return f"{100 * value:.0f}%" if unit == "share" else f"{value:g} {unit}"


def _silence_lines(told: Sequence[View], now: float) -> Iterator[str]:
    rows = [
        (
            each["id"],
            each["rule"],
            each["subject"] or "all",
            duration(max(each["until"] - now, 0.0)),
            len(each["alerts"]),
            each["who"],
        )
        for each in told
    ]
    titles, *lines = table_rows(SILENCE_COLUMNS, rows)
    yield from titles
    for own, each in zip(lines, told, strict=True):
        yield from own
        yield from paragraph(each["why"], "  ", "  ")


def _target_lines(told: Sequence[View], now: float) -> Iterator[str]:
    rows = [
        (
            each["name"],
            each["kind"],
            each["least"],
            each["sent"],
            each["given_up"],
            each["waiting"],
            age(each["sent_at"], now),
        )
        for each in told
    ]
    titles, *lines = table_rows(TARGET_COLUMNS, rows)
    yield from titles
    for own, each in zip(lines, told, strict=True):
        yield from own
        if each["failing_since"] is not None:
            yield from paragraph(f"failing for {age(each['failing_since'], now)}: {maybe(each['trouble'])}", "  ", "  ")


def _me(who: str | None) -> str:
    if who is not None:
        return who
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a user without a name, as in some containers
        raise UsageError("this user has no name; say who you are with --who") from error


def _seconds(word: str) -> float:
    """A time as people write it: `90`, `45m`, `1.5h`, `3d`."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", word)
    if found is None:
        raise UsageError(f"{word!r} is no time; write 90s, 45m, 2h or 3d")
    return float(found[1]) * UNITS_S[found[2] or "s"]
