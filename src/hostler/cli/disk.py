"""The controller's own disk, and those of nodes: what may go, by which rule and on which proof; and back again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import Json, StateDir, client, user
from hostler.cli.completing import complete_node
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import UNKNOWN, Column, age, clean, duration, paragraph, plural, quantity, say, say_json, table
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import Client, View


SILENT_S = 600.0
"""The controller may read copies for so long before it answers."""
FILE_COLUMNS = (
    Column("RULE"),
    Column("FILE", yields=True),
    Column("BYTES", right=True),
    Column("AGE", right=True),
    Column("PROOF", yields=True),
)
SUM_COLUMNS = (Column("MAY GO, FOR", yields=True), Column("FILES", right=True), Column("BYTES", right=True))
KEPT_COLUMNS = (Column("STAYS, FOR", yields=True), Column("FILES", right=True), Column("BYTES", right=True))
TOMB_COLUMNS = (
    Column("RULE"),
    Column("FILE", yields=True),
    Column("BYTES", right=True),
    Column("LEFT", right=True),
    Column("BY", yields=True),
)

OfNode = Annotated[
    str | None,
    Option(
        "--node", metavar="NODE", help="The disk of this node, instead of the controller's.", complete=complete_node
    ),
]
Paths = Annotated[list[str] | None, Argument(metavar="[FILES]", help="Files, as `disk plan` lists them.")]


def plan(node: OfNode = None, as_json: Json = False, state_dir: StateDir = None) -> None:
    """List every file that may go, with its rule and the proof of its copies; and what stays, and why.

    Nothing is changed. The first to go stands first. PROOF names places that have a copy, and how long ago each was
    read back; before a file goes they are read once more. What is in a tombstone already is listed below.

    With --node it is what work has left in the artifact folder of a node: sent again when it is needed there.

    Example:
      hostler disk plan
      hostler disk plan --node rig-1
      hostler disk plan --json | jq '.may_go[] | {path, rule, proof}'
    """
    asked = client(state_dir, timeout_s=SILENT_S)
    doomed, about = asked.disk_plan(node), asked.disk(node)
    buried = asked.disk_tombstones() if node is None else []
    if as_json:
        say_json({"may_go": doomed, "disk": about, "tombstones": buried})
        return
    say(_plan_lines(doomed, about, buried, time.time()))


def clean_up(
    files: Paths = None,
    node: OfNode = None,
    yes: Annotated[bool, Option("--yes", help="Do it; without this it is only told what would be done.")] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Delete what may go: all of it, or these files. It can be brought back until its grace is over.

    Each file is judged once more, and its copies elsewhere are read, before it is moved into a tombstone. From a node
    (--node) artifacts are removed at once: they have their copies, and are sent again when they are needed there.

    Example:
      hostler disk clean
      hostler disk clean --yes
      hostler disk clean --node rig-1 --yes
    """
    asked = client(state_dir, timeout_s=SILENT_S)
    doomed = asked.disk_plan(node)
    chosen = [each for each in doomed if not files or each["path"] in files]
    strangers = sorted(set(files or ()) - {each["path"] for each in chosen})
    if strangers:
        raise UsageError(f"{strangers[0]} is not among what may go; `hostler disk plan` lists that. Nothing was done")
    if not yes:
        _would(chosen, as_json=as_json)
        return
    done = _cleaned(asked, files, len(chosen), node)
    if as_json:
        say_json(done)
        return
    say(_done_lines(done, "deleted", time.time()))


def undo(
    files: Paths = None,
    everything: Annotated[bool, Option("--all", help="All that can be brought back.")] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Bring back what was deleted, to where it was; of what lies there now nothing is overwritten.

    What was brought back counts as just used: the next cleaning leaves it alone for as long as its rule says.

    Example:
      hostler disk undo logs/j7.1/out
      hostler disk undo --all
    """
    if bool(files) == everything:
        raise UsageError("name the files to bring back (`hostler disk plan` lists them), or say --all")
    done = client(state_dir, timeout_s=SILENT_S).undo_cleaning(files or None, user())
    if as_json:
        say_json(done)
        return
    say(_done_lines(done, "brought back", time.time()))


def _would(chosen: Sequence[View], *, as_json: bool) -> None:
    if as_json:
        say_json({"would_go": chosen})
        return
    size = sum(each["bytes"] for each in chosen)
    say(paragraph(f"{plural(len(chosen), 'file')} with {quantity(size)}B would be deleted; nothing was, say --yes"))


def _cleaned(asked: Client, files: Sequence[str] | None, planned: int, node: str | None) -> View:
    """As many requests as it takes; each of them judges some files anew."""
    answers: list[View] = [asked.clean_disk(files, None, user(), node=node)]
    looked_at = _looked_at(answers[-1])
    while answers[-1]["more"] and not files and looked_at < planned:
        answers.append(asked.clean_disk(None, None, user(), node=node))
        looked_at += _looked_at(answers[-1])
    return {
        "files": [path for each in answers for path in each["files"]],
        "bytes": sum(each["bytes"] for each in answers),
        "left": [row for each in answers for row in each["left"]],
        "more": answers[-1]["more"],
        "until": max((each["until"] for each in answers if each["until"] is not None), default=None),
    }


def _looked_at(done: View) -> int:
    return len(done["files"]) + len(done["left"])


def _plan_lines(doomed: Sequence[View], about: View, buried: Sequence[View], now: float) -> Iterator[str]:
    yield from paragraph(f"{about['disk']['says']}; {_mode(about)}", rest="  ")
    if about["trouble"] is not None:
        yield from paragraph(f"trouble: {about['trouble']}", rest="  ")
    yield ""
    yield from table(FILE_COLUMNS, [_file_row(each, now) for each in doomed]) if doomed else ["nothing may go"]
    yield ""
    if doomed:
        yield from table(SUM_COLUMNS, [*map(_sum_row, about["may_go"]), _total("in all", doomed)])
        yield ""
    if about["stays"]:
        yield from table(KEPT_COLUMNS, map(_sum_row, about["stays"]))
    if buried:
        yield ""
        yield "deleted, and can be brought back (`hostler disk undo`):"
        yield from table(TOMB_COLUMNS, [_tomb_row(each, now) for each in buried])


def _mode(about: View) -> str:
    if about["mode"] == "clean":
        undo = f", with {duration(about['grace_s'])} to undo it" if about["grace_s"] else ""
        return f"it is cleaned when it is too full{undo}"
    return "nothing is deleted without being asked for (dry run)"


def _file_row(each: View, now: float) -> Sequence[object]:
    return each["rule"], each["path"], quantity(each["bytes"]), age(each["used_at"], now), _proof(each, now)


def _proof(each: View, now: float) -> str:
    read = [
        f"{copy['place']} {age(copy['verified_at'], now) if copy['verified_at'] is not None else UNKNOWN}"
        for copy in each["proof"]
    ]
    return ", ".join(read) or "needs none"


def _sum_row(each: View) -> Sequence[object]:
    return each["why"], quantity(each["files"]), quantity(each["bytes"])


def _total(what: str, files: Sequence[View]) -> Sequence[object]:
    return what, quantity(len(files)), quantity(sum(each["bytes"] for each in files))


def _tomb_row(each: View, now: float) -> Sequence[object]:
    left = duration(max(each["until"] - now, 0.0))
    return each["rule"], each["path"], quantity(each["bytes"]), left, each["who"]


def _done_lines(done: View, what: str, now: float) -> Iterator[str]:
    until = "" if done["until"] is None else f"; `hostler disk undo` brings it back for {duration(done['until'] - now)}"
    more = f"; {done['more']} more may go" if done["more"] else ""
    yield from paragraph(f"{plural(len(done['files']), 'file')} with {quantity(done['bytes'])}B {what}{until}{more}")
    for each in done["left"]:
        yield from paragraph(f"{clean(each['path'])} stays: {clean(each['why'])}", rest="  ")
