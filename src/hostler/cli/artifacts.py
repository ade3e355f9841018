"""Artifacts: what there is, where copies lie and whether they are right, what came of what."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hostler.cli.common import Json, StateDir, client
from hostler.cli.completing import complete_config
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import (
    Column,
    age,
    clean,
    clock,
    maybe,
    plural,
    quantity,
    say,
    say_json,
    table,
    terminal_width,
    wrapped,
)
from hostler.model.errors import AnswerError, UsageError

if TYPE_CHECKING:
    from hostler.client import Client, View


SHOWN = 12
"""Of a SHA-256."""
LISTED = 20
FAILED = 1
READS_S = 7 * 86_400.0
"""Copies are awaited for so long: of large ones in slow places it takes as long as that."""
KIN_SHOWN = 6

Kind = Literal["games", "dataset", "model", "evaluation"]
Standing = Literal["games", "dataset", "model", "candidate", "former"]
Name = Annotated[str, Argument(metavar="SHA", help="Its SHA-256, or a beginning of it that no other has.")]
Place = Annotated[str | None, Option(metavar="PLACE", help="Only the copies there.")]

COLUMNS = (
    Column("SHA-256"),
    Column("KIND"),
    Column("WORTH"),
    Column("BYTES", right=True),
    Column("AGE", right=True),
    Column("COPIES", right=True),
    Column("CONFIG", yields=True),
    Column("PLACES", yields=True),
)
COPY_COLUMNS = (
    Column("PLACE", yields=True),
    Column("DOMAIN", yields=True),
    Column("READ", right=True),
    Column("COPY"),
)
READ_COLUMNS = (Column("SHA-256"), Column("PLACE", yields=True), Column("FOUND"), Column("WHY", yields=True))


def list_artifacts(
    kind: Annotated[Kind | None, Option(help="Only these.")] = None,
    config: Annotated[
        str | None, Option(metavar="CONFIG", help="Only those of this config.", complete=complete_config)
    ] = None,
    standing: Annotated[Standing | None, Option(help="Only those that are worth this now.")] = None,
    place: Annotated[str | None, Option(metavar="PLACE", help="Only those with a copy there.")] = None,
    short: Annotated[bool, Option("--short", help="Only those that lack copies.")] = False,
    limit: Annotated[int, Option(min=1, help="So many of the newest.")] = LISTED,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """List artifacts, the newest first.

    COPIES tells how many count, of how many there should be; PLACES where copies are noted, `!` those that were found
    damaged, `?` those that count for nothing until they are read again.

    Example:
      hostler artifact list --kind model
      hostler artifact list --short
    """
    asked = client(state_dir)
    rows = asked.artifacts(kind, config, standing, place, short=short, limit=limit)
    if not rows and config is not None:
        asked.config(config)  # says that there is none, if so
    if as_json:
        say_json(rows)
        return
    now = time.time()
    say(table(COLUMNS, [_row(each, now) for each in rows]) if rows else ["no such artifacts"])


def show(name: Name, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show everything about an artifact: who made it, what of, and its copies.

    Example:
      hostler artifact show 3f2a9c
    """
    detail = client(state_dir).artifact(name)
    if as_json:
        say_json(detail)
        return
    say(_about(detail, time.time()))


def lineage(
    name: Name,
    depth: Annotated[int, Option(min=1, max=10, help="So many steps in each direction.")] = 3,
    limit: Annotated[int, Option(min=1, max=500, help="So many artifacts in each direction.")] = 60,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show what an artifact was made from, and what was made from it.

    Each is told once, where it is nearest; what is left out is counted.

    Example:
      hostler artifact lineage 3f2a9c --depth 5
    """
    view = client(state_dir).lineage(name, depth, limit)
    if as_json:
        say_json(view)
        return
    _print_tree(view)


def get(
    name: Name,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Where to; by default its name, here.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace what is there.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Fetch an artifact into a file, which appears whole and with the right hash, or not at all.

    Example:
      hostler artifact get 3f2a9c -o model.safetensors
    """
    from hostler.model.artifacts import SUFFIXES, ArtifactKind
    from hostler.stores.hashing import appearing

    asked = client(state_dir)
    artifact = asked.artifact(name)["artifact"]
    if not re.fullmatch("[0-9a-f]{64}", artifact["sha256"]) or artifact["kind"] not in SUFFIXES:
        raise AnswerError(
            f"the controller names the artifact {artifact['sha256'][:80]!r} of the kind {artifact['kind'][:80]!r}, "
            "which no file can be named after. Check the address, or whether both are of one version"
        )
    target = _target(output, artifact["sha256"] + SUFFIXES[ArtifactKind(artifact["kind"])])
    if not force and (target.exists() or target.is_symlink()):
        raise UsageError(f"{target} is there already; name another file with `-o`, or say `--force` to replace it")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is no regular file, and is left as it is; name another one with `-o`")
    with appearing(target) as out:
        size = sum(out.write(piece) for piece in asked.content(artifact["sha256"]))
    print(f"{clean(target)}: {size} bytes, SHA-256 {artifact['sha256']}")


def verify(
    names: Annotated[list[str] | None, Argument(metavar="SHA", help="Which artifacts.")] = None,
    every: Annotated[bool, Option("--all", help="All artifacts; of those that are right nothing is said.")] = False,
    place: Place = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> int:
    """Read copies of artifacts again and compare their hashes.

    What is damaged is set aside, and replaced from another copy. The exit status is 1 where a copy is not right: it is
    damaged, gone, or its place did not answer.

    Example:
      hostler artifact verify 3f2a9c
      hostler artifact verify --all --place attic
    """
    if bool(names) == every:
        raise UsageError("say which artifacts, or `--all`; `hostler artifact list` lists them")
    asked = client(state_dir, timeout_s=READS_S)
    if every and place is not None:
        _expect_place(asked, place)
    read = _read(asked, names, place)
    if as_json:
        told = list(read)
        say_json(told)
        return _status(copy for each in told for copy in each["copies"])
    return _say_what_is_found(read, every)


def _row(artifact: View, now: float) -> Sequence[object]:
    return (
        artifact["sha256"][:SHOWN],
        artifact["kind"],
        artifact["standing"],
        quantity(artifact["bytes"]),
        age(artifact["made_at"], now),
        f"{artifact['counted']}/{artifact['wanted']}",
        artifact["config"] or "",
        " ".join(copy["place"] + _mark(copy) for copy in artifact["copies"]) or "nowhere",
    )


def _mark(copy: Mapping[str, Any]) -> str:
    if copy["damaged"]:
        return "!"
    return "" if copy["counts"] else "?"


def _about(detail: View, now: float) -> Iterator[str]:
    artifact = detail["artifact"]
    games = "" if artifact["games"] is None else f", {plural(artifact['games'], 'game')}"
    worth = artifact["standing"] + (", in a dataset or refused by one" if detail["exported"] else "")
    made = f"{clock(artifact['made_at'], now)}, {age(artifact['made_at'], now)} ago"
    by = maybe(detail["attempt"] or artifact["job"])
    yield from wrapped("artifact  ", artifact["sha256"])
    yield from wrapped("kind      ", f"{artifact['kind']}, {artifact['bytes']} bytes{games}")
    yield from wrapped("worth     ", worth)
    yield from wrapped("made      ", f"{made}, by {by}, for {maybe(artifact['config'])}")
    yield from wrapped("from      ", _names(detail["parents"], detail["parents_more"]))
    yield from wrapped("became    ", _names(detail["children"], detail["children_more"]))
    yield from wrapped("copies    ", _counted(detail))
    rows = [
        (copy["place"], maybe(copy["domain"]), age(copy["verified_at"], now), _word(copy))
        for copy in artifact["copies"]
    ]
    yield from table(COPY_COLUMNS, rows) if rows else ()


def _names(names: Sequence[str], more: bool) -> str:
    shown = " ".join(each[:SHOWN] for each in names[:KIN_SHOWN])
    left = len(names) - KIN_SHOWN
    rest = f" and {left}{' or more' if more else ''} more; `hostler artifact lineage` tells of them" if left > 0 else ""
    return (shown or "nothing that is known of") + rest


def _counted(detail: View) -> str:
    artifact = detail["artifact"]
    said = f"{artifact['counted']} of {artifact['wanted']} wanted count"
    if detail["missing_domains"]:
        said += f", and {plural(detail['missing_domains'], 'other failure domain')} should have one"
    return said + (f": {clean(artifact['why'])}" if artifact["why"] else "")


def _word(copy: Mapping[str, Any]) -> str:
    if copy["damaged"]:
        return "damaged, set aside"
    if copy["counts"]:
        return "right"
    if copy["domain"] is None:
        return "not of this fleet"
    return "not read back yet" if copy["verified_at"] is None else "counts no more until it is read"


def _target(output: Path | None, name: str) -> Path:
    if output is None:
        return Path(name)
    return output / name if output.is_dir() else output


def _expect_place(asked: Client, place: str) -> None:
    """Of a place that there is not nothing is found, and nothing that is wrong."""
    there = [each["name"] for each in asked.replication()["places"]]
    if place not in there:
        raise UsageError(f"there is no place {place!r}; there are: {', '.join(there)}")


def _read(asked: Client, names: Sequence[str] | None, place: str | None) -> Iterator[View]:
    wanted = names or (each["sha256"] for each in asked.all_artifacts(place=place))
    return (asked.verify_artifact(name, place) for name in wanted)


def _say_what_is_found(read: Iterable[View], only_wrong: bool) -> int:
    found: Counter[str] = Counter()
    artifacts = 0
    for each in read:
        artifacts += 1
        found.update(copy["found"] for copy in each["copies"])
        told = [copy for copy in each["copies"] if not only_wrong or copy["found"] != "right"]
        say(_found_line(each["artifact"]["sha256"], copy) for copy in told)
        if not each["copies"]:
            found["nowhere"] += 1
            print(f"{each['artifact']['sha256'][:SHOWN]} has no copy anywhere")
    words = ", ".join(f"{count} {word}" for word, count in sorted(found.items())) or "none"
    print(f"{plural(artifacts, 'artifact')}; copies: {words}")
    return FAILED if set(found) - {"right"} else 0


def _found_line(sha256: str, copy: Mapping[str, Any]) -> str:
    why = "" if copy["why"] is None else f": {clean(copy['why'])}"
    return f"{sha256[:SHOWN]} {clean(copy['place'])}: {copy['found']}{why}"


def _status(copies: Iterable[Mapping[str, Any]]) -> int:
    return FAILED if any(copy["found"] != "right" for copy in copies) else 0


def _print_tree(view: View) -> None:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    now = time.time()
    root = Tree(Text(_kin_line(view["artifact"], now)))
    for title, kin, further in (
        ("was made from", view["parents"], view["parents_further"]),
        ("became", view["children"], view["children_further"]),
    ):
        branch = root.add(Text(title if kin or further else f"{title} nothing that is known of"))
        places = {view["artifact"]["sha256"]: branch}
        for each in kin:
            places[each["sha256"]] = places.get(each["via"], branch).add(Text(_kin_line(each, now)))
        for each in kin:
            _say_further(places[each["sha256"]], each["further"])
        _say_further(branch, further)
    Console(width=terminal_width(), highlight=False, soft_wrap=True).print(root)


def _say_further(branch: Any, further: int) -> None:
    if further:
        branch.add(f"and {further}{' or more' if further >= 1000 else ''} not told here")


def _kin_line(each: Mapping[str, Any], now: float) -> str:
    if each["kind"] is None:
        return f"{each['sha256'][:SHOWN]}, of which nothing else is known"
    worth = "" if each["standing"] == each["kind"] else f", {each['standing']}"
    by = "" if each["job"] is None else f", by {clean(each['job'])}"
    size, old = quantity(each["bytes"]), age(each["made_at"], now)
    return f"{each['sha256'][:SHOWN]} {each['kind']}{worth}, {size}B{by}, {old} ago"
