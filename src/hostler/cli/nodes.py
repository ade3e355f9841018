"""The nodes: what they are made of and do, where to take them from, and whom to trust behind SSH."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from hostler.cli.common import Json, OwnStateDir, StateDir, client, user
from hostler.cli.completing import complete_node
from hostler.cli.declarations import Argument, Option
from hostler.cli.errors import Interrupted
from hostler.cli.pools import pool_lines, pool_remarks, pool_row
from hostler.cli.questions import confirmed
from hostler.cli.show import (
    Column,
    age,
    clean,
    clock,
    duration,
    maybe,
    paragraph,
    plural,
    quantity,
    say,
    say_json,
    table,
)
from hostler.model.errors import LinkRefused, NotFound, UsageError

if TYPE_CHECKING:
    from hostler.backends.slurm.finding import Finding as SlurmFinding
    from hostler.backends.ssh import Finding, Network, Target
    from hostler.client import Client, View
    from hostler.runtime.dialin import Invitation
    from hostler.settings import Loaded
    from hostler.settings.importing import Imported, Listing


EXPLAINED_MAX = 10
"""Slots of a pool of which it is told why they do what they do."""
DOCTOR_COLUMNS = (Column("NODE"), Column("WHAT"), Column("HEALTH"), Column("SAYS", yields=True))


MEMORY_LIMITS = {
    "cgroup": "kept by the kernel, in a cgroup for each attempt",
    "watched": "kept by the agent, which measures resident memory",
}
FRESH_S = 60.0
"""A reading that is not older is shown without its age."""
NodeNames: TypeAlias = Annotated[list[str], Argument(metavar="NODE...", help="Names of nodes.", complete=complete_node)]
Why: TypeAlias = Annotated[str | None, Option("--reason", "--why", help="Why; it is shown wherever the node is.")]

NODE_COLUMNS = (
    Column("DEVICE", yields=True),
    Column("LINK"),
    Column("FOR", right=True),
    Column("BUSY", right=True),
    Column("LANES", right=True),
    Column("GB", right=True),
    Column("MODEL", yields=True),
    Column("HOLDS", yields=True),
)


def list_nodes(as_json: Json = False, state_dir: StateDir = None) -> None:
    """List the nodes, their devices and what is on them.

    BUSY is the utilisation that the driver reported last, with its age if that is over a minute; LANES are those taken
    of the jobs that may share a device. A partition of a cluster is one line: how many of its slots run (`up`), and how
    many wait in the cluster's queue. Pressures, quarantines and devices that are not verified stand below.

    Example:
      hostler node list
    """
    found = list(client(state_dir).nodes())
    if as_json:
        say_json(found)
    else:
        say(_node_lines(found, time.time()))


def show(
    name: Annotated[str, Argument(metavar="NODE", help="Name of a node.", complete=complete_node)],
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show one node: its devices, what each of them does, and why.

    Example:
      hostler node show rig-1
    """
    asked = client(state_dir)
    found = [node for node in asked.nodes() if name == node["name"]]
    if not found:
        raise NotFound(f"there is no node {name!r}; `hostler node list` lists them")
    if as_json:
        say_json(found[0])
        return
    say(_node_lines(found, time.time()))
    say(_node_detail(asked, found[0]))


def trust(
    fleet: Annotated[Path, Argument(metavar="FLEET", help="The fleet file.")],
    names: Annotated[
        list[str] | None, Argument(metavar="[NODE]...", help="Only these; by default all behind SSH.")
    ] = None,
    fingerprint: Annotated[
        str | None, Option("--fingerprint", metavar="SHA256:...", help="Accept this key, and no other.")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Accept whatever is shown, without asking.")] = False,
    state_dir: OwnStateDir = None,
) -> None:
    """Show the host keys of nodes behind SSH and of their jump hosts, and make them known where you accept them.

    Nothing else ever does. Compare a fingerprint with what `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints on
    the node itself, or with what its owner tells you. A key that differs from the one that is known is refused.

    Example:
      hostler node trust fleet.yaml
      hostler node trust fleet.yaml rig-1 --fingerprint SHA256:Gmy7...
    """
    import asyncio

    from hostler.backends.ssh import Network
    from hostler.runtime.elsewhere import habits, target
    from hostler.runtime.statedir import StateDir as Directory

    loaded = _loaded(fleet, state_dir)
    targets = [(node.name, target(loaded, node)) for node in _behind_ssh(loaded, names or [])]
    if fingerprint is not None and len(targets) != 1:
        raise UsageError(f"--fingerprint is of one node; say which one: {', '.join(name for name, _ in targets)}")
    network = Network(habits(loaded, Directory(loaded.state_dir)))
    asyncio.run(_trust_all(network, targets, fingerprint, yes))


def import_(
    source: Annotated[Path, Argument(metavar="SOURCE", help="The list of machines; `-` reads it from standard input.")],
    kind: Annotated[
        Literal["ssh", "ansible", "skypilot"] | None, Option("--from", help="What it is, if that is mistaken.")
    ] = None,
    only: Annotated[
        str | None, Option("--only", metavar="PATTERN", help="Machines whose name, host or group fits, as rig*.")
    ] = None,
    class_: Annotated[str | None, Option("--class", metavar="NAME", help="The class they are to be of.")] = None,
    as_json: Json = False,
) -> int:
    """Print machines that are listed elsewhere as the nodes of a fleet file.

    Reads ~/.ssh/config, Ansible inventories (INI, YAML, and the JSON of `ansible-inventory --list`) and SkyPilot's SSH
    node pools. Nothing is connected to and no program is run. What is left out stands in comments, with the reason;
    passwords are never copied. Hosts of ~/.ssh/config keep their settings there: Hostler heeds it.

    Exit status 1 where there is no machine in it.

    Example:
      hostler node import ~/.ssh/config --only 'rig*' > fleet.yaml
      ansible-inventory -i hosts.ini --list | hostler node import - --class rig
    """
    from hostler.settings.importing import extra_configs, fleet_text, imported, is_node_name

    if class_ is not None and not is_node_name(class_):
        raise UsageError(f"--class {class_!r} is no name of a class; use letters, digits, dots, dashes and underscores")
    kind, listing = _listing(source, kind)
    found, name = imported(listing, only, class_), _source_name(source)
    if as_json:
        left_out = [{"name": each.name, "why": each.why} for each in found.left_out]
        say_json({"from": kind, "nodes": found.nodes, "left_out": left_out, "notes": found.notes})
    elif found.nodes:
        configs = extra_configs(source) if kind == "ssh" and str(source) != "-" else ()
        print(fleet_text(found, name, class_, configs), end="")
    _tell_of_import(found, name, in_comments=bool(found.nodes))
    return 0 if found.nodes else 1


def invite(
    fleet: Annotated[Path, Argument(metavar="FLEET", help="The fleet file.")],
    name: Annotated[str, Argument(metavar="NODE", help="The node, one with `backend: dialin`.")],
    new: Annotated[bool, Option("--new", help="Make another token; the one of before counts no more.")] = False,
    as_json: Json = False,
    state_dir: OwnStateDir = None,
) -> None:
    """Show what to run on a node that nobody can connect to, so that it calls the controller.

    The token is the node's alone: whoever has it can take its place. With `--new`, whoever calls by the old one is
    refused within a minute; give the node the new one, and have it call again.

    Example:
      hostler node invite fleet.yaml rig-1
      hostler node invite fleet.yaml rig-1 --new
    """
    from hostler.runtime.dialin import invitation
    from hostler.runtime.statedir import StateDir as Directory

    loaded = _loaded(fleet, state_dir)
    callers = [node for node in loaded.fleet.nodes if node.backend == "dialin"]
    node = next((node for node in callers if node.name == name), None)
    if node is None:
        raise NotFound(
            f"{name!r} is no node that calls (`backend: dialin`) in {loaded.path}; it has {_listed(callers)}"
        )
    found = invitation(loaded, Directory(loaded.state_dir), node, new=new)
    if as_json:
        from dataclasses import asdict  # slow to import, and of one command

        say_json(asdict(found))
        return
    say(["Have agent.pyz on the node; `hostler node agent agent.pyz` makes it here. Then run there:", ""])
    print("\n".join(_call_lines(found)))


def cordon(names: NodeNames, why: Why = None, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Put nothing new on nodes, until `resume`. What runs there runs on.

    Example:
      hostler node cordon rig-1 --reason "its fan is loud"
    """
    asked = client(state_dir)
    _tell_each((asked.cordon(name, why, user()) for name in names), as_json)


def drain(
    names: NodeNames,
    why: Why = None,
    now: Annotated[bool, Option("--now", help="Ask what runs there to go; it goes on elsewhere.")] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Put nothing new on nodes, until `resume`, and let them run empty; then they are told of as drained.

    With `--now`, jobs that save their work go on elsewhere from there; others begin anew, and nobody is blamed.

    Example:
      hostler node drain rig-1 --now --reason "new power supply"
    """
    asked = client(state_dir)
    _tell_each((asked.drain_node(name, why, user(), now=now) for name in names), as_json)


def resume(names: NodeNames, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Put work on nodes again.

    Example:
      hostler node resume rig-1
    """
    asked = client(state_dir)
    _tell_each((asked.resume(name, user()) for name in names), as_json)


def doctor(
    fleet: Annotated[Path, Argument(metavar="FLEET", help="The fleet file.")],
    names: Annotated[
        list[str] | None, Argument(metavar="[NODE]...", help="Only these; by default all behind SSH.")
    ] = None,
    as_json: Json = False,
    state_dir: OwnStateDir = None,
) -> int:
    """Look at nodes behind SSH, all at once: what keeps them from work or slows them down, and what to do about it.

    Changes nothing there. Exit status 1 where something keeps a node from work.

    Example:
      hostler doctor fleet.yaml
      hostler doctor fleet.yaml rig-1 --json
    """
    import asyncio

    from hostler.runtime.elsewhere import examined

    loaded = _loaded(fleet, state_dir)
    found = asyncio.run(examined(loaded, _behind_ssh(loaded, names or [])))
    if as_json:
        say_json([each._asdict() for each in found])
    else:
        tell_findings(found)
    return 1 if any(each.health == "bad" for each in found) else 0


def tell_findings(found: Sequence[Finding | SlurmFinding]) -> None:
    """A table of what was found; below it what to do."""
    say(table(DOCTOR_COLUMNS, [each[:4] for each in found]))
    for each in found:
        if each.fix:
            say(paragraph(f"{each.node} {each.what}: {each.fix}", rest="  "))


def _tell_each(changed: Iterator[View], as_json: bool) -> None:
    """Tell of each node as soon as it is changed: a later one may be unknown."""
    done = []
    for node in changed:
        done.append(node)
        if not as_json:
            cordon = node["cordon"]
            print(f"{node['name']} " + ("takes work" if cordon is None else cordon["state"]), flush=True)
    if as_json:
        say_json(done)


def _listing(
    source: Path, kind: Literal["ssh", "ansible", "skypilot"] | None
) -> tuple[Literal["ssh", "ansible", "skypilot"], Listing]:
    from hostler.settings.importing import read, read_text
    from hostler.settings.reading import decoded

    if str(source) != "-":
        return read(source, kind)
    name = _source_name(source)
    return read_text(decoded(sys.stdin.buffer.read(), name), name, kind)


def _source_name(source: Path) -> str:
    return "standard input" if str(source) == "-" else str(source)


def _tell_of_import(found: Imported, source: str, *, in_comments: bool) -> None:
    """On standard error: what to know, and what to do next."""
    for note in found.notes:
        print(clean(f"note: {note}"), file=sys.stderr)
    if not in_comments:
        for each in found.left_out:
            print(clean(f"left out: {each.name}: {each.why}"), file=sys.stderr)
        print(clean(f"{source}: no machine in it that could be a node"), file=sys.stderr)
        return
    behind_ssh = any(node["backend"] == "ssh" for node in found.nodes)
    after = "; next: hostler node trust FLEET, then hostler doctor FLEET" if behind_ssh else ""
    print(f"{plural(len(found.nodes), 'node')}, {len(found.left_out)} left out{after}", file=sys.stderr)


def _loaded(fleet: Path, state_dir: Path | None) -> Loaded:
    from hostler.settings import load

    return load(fleet, os.environ, {} if state_dir is None else {"state_dir": str(state_dir)})


def _behind_ssh(loaded: Loaded, names: Sequence[str]) -> list[Any]:
    found = [node for node in loaded.fleet.nodes if node.backend == "ssh"]
    unknown = sorted(set(names) - {node.name for node in found})
    if unknown:
        raise NotFound(f"{unknown[0]!r} is no node behind SSH in {loaded.path}; it has {_listed(found)}")
    if not found:
        raise UsageError(f"{loaded.path} has no node behind SSH (`backend: ssh`)")
    return [node for node in found if not names or node.name in names]


def _listed(found: Sequence[Any]) -> str:
    return ", ".join(node.name for node in found) or "none"


def _call_lines(asked: Invitation) -> Iterator[str]:
    """What to run on the node. No argument of a program is the token: others there could see those."""
    folder = _at_home(asked.folder)
    yield f"mkdir -p {folder} && (umask 077 && cat >{folder}/token) <<'END'"
    yield asked.token
    yield "END"
    yield (
        f"{_at_home(asked.python)} agent.pyz dial --detach --dir {folder} --to {shlex.quote(asked.to)} \\\n"
        f"  --node {asked.node} --fingerprint {asked.fingerprint}"
    )


def _at_home(path: str) -> str:
    """Quoted for a shell, but for the home of whoever runs it."""
    return "~/" + shlex.quote(path[2:]) if path.startswith("~/") else shlex.quote(path)


async def _trust_all(
    network: Network, targets: Sequence[tuple[str, Target]], fingerprint: str | None, yes: bool
) -> None:
    try:
        for name, target in targets:
            for hop in network.jumps(target):
                await _trust(network, f"{name} goes over {hop}", hop, None, yes)
            await _trust(network, name, target, fingerprint, yes)
    finally:
        await network.close()


async def _trust(network: Network, title: str, target: Target, fingerprint: str | None, yes: bool) -> None:
    found = await network.host_key(target)
    known = network.known(found)
    say([f"{title}: {found.host} {found.fingerprint}" + (" known already" if known else "")])
    if known:
        return
    if known is None:
        files = " ".join(str(path) for path in network.habits.known_hosts if path.exists())
        raise LinkRefused(
            f"another key of {found.host} is known: it was set up anew, or somebody stands in between. If you know "
            f"which, take the old one out of whichever of these has it: {files}"
        )
    if fingerprint is not None and found.fingerprint != fingerprint:
        raise LinkRefused(f"{found.host} shows {found.fingerprint}, not {fingerprint}; nothing was accepted")
    if fingerprint is None and not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"{found.host}: nobody is here to compare; give its --fingerprint, or --yes")
        if not confirmed("  is that its own?"):
            raise Interrupted
    network.accept(found)
    say(["  accepted"])


def _node_lines(nodes: Sequence[View], now: float) -> Iterator[str]:
    yield from table(NODE_COLUMNS, [row for node in nodes for row in _device_rows(node, now)])
    for node in nodes:
        yield from _node_remarks(node, now)


def _device_rows(node: View, now: float) -> Iterator[Sequence[object]]:
    since = age(node["since"], now)
    if node["pool"] is not None:
        yield pool_row(node, now)
        return
    if not node["devices"]:
        yield node["name"], node["link"], since, "", "", "", "", "no devices known"
    for device in node["devices"]:
        held = [*device["attempts"], *device["chunks"]]
        on_cpu = device["kind"] == "cpu"
        vram = "-" if on_cpu else quantity(device["vram_gb"])
        model = "" if on_cpu and device["model"] is None else maybe(device["model"])
        lanes = "-" if on_cpu else f"{len(device['attempts'])}/{device['lanes']}"
        yield device["id"], node["link"], since, busy(device, now), lanes, vram, model, " ".join(held) or "idle"


def busy(device: View, now: float) -> str:
    """Utilisation, with the age of a reading that is old; `-` for CPU slots that report none."""
    if device["told_at"] is None or device["utilization"] is None:
        return "-" if device["kind"] == "cpu" else "?"
    known = f"{100 * device['utilization']:.0f}%"
    return known if now - device["told_at"] <= FRESH_S else f"{known} ({age(device['told_at'], now)} old)"


def _node_remarks(node: View, now: float) -> Iterator[str]:
    """What is wrong with a node or a device of it, and until when."""
    if node["pool"] is not None:
        yield from pool_remarks(node, now)
    if node["trouble"]:
        yield from paragraph(f"{node['name']}: {node['trouble']}{_given_up(node, now)}", rest="  ")
    if node["cordon"] is not None:
        yield from paragraph(f"{node['name']}: {cordon_text(node['cordon'], now)}", rest="  ")
    for each in node["pressures"]:
        yield from paragraph(f"{node['name']}: {pressure_text(each, now)}", rest="  ")
    for device in node["devices"]:
        if device["cordon"] is not None:
            yield from paragraph(f"{device['id']}: {cordon_text(device['cordon'], now)}", rest="  ")
        if device["foreign_use"] is not None:
            yield from paragraph(f"{device['id']}: {use_text(device['foreign_use'], now)}", rest="  ")
        ban = device["quarantine"]
        if ban is not None:
            left = "on probation" if ban["until"] <= now else f"for {duration(ban['until'] - now)} more"
            since = "?" if ban["since"] is None else age(ban["since"], now)
            yield from paragraph(f"{device['id']}: in quarantine since {since}, {left}: {ban['why']}", rest="  ")
        kept_out = device["canary"]
        if kept_out is not None:
            since = age(kept_out["since"], now)
            yield from paragraph(f"{device['id']}: kept out by its canary since {since}: {kept_out['why']}", rest="  ")
        if device["reserved_for"] is not None:
            yield from paragraph(f"{device['id']}: kept for {device['reserved_for']}", rest="  ")


def _given_up(node: View, now: float) -> str:
    """Of a node out of reach that has work: until when that stays its own."""
    if node["link"] != "down" or not any(device["attempts"] or device["chunks"] for device in node["devices"]):
        return ""
    at = node["given_up_at"]
    since = f"; out of reach since {clock(node['since'], now)}, what it has may run on"
    return since + ("" if at is None else f", and is given to others at {clock(at, now)} (lease)")


def cordon_text(cordon: View, now: float) -> str:
    """How a node or a device is cordoned, since when, until when, by whom and why."""
    who = "" if cordon["who"] is None else f" by {cordon['who']}"
    why = "" if cordon["why"] is None else f": {cordon['why']}"
    left = "" if cordon["until"] is None else f", {duration(max(cordon['until'] - now, 0.0))} more"
    return f"{cordon['state']} for {age(cordon['since'], now)}{left}{who}{why}"


def use_text(use: View, now: float) -> str:
    """Who uses a device beside the work that is placed there, and since when."""
    what = "used by others" if use["kind"] == "others" else "used by what should have ended"
    memory = "" if use["vram_gb"] is None else f", {use['vram_gb']:.1f} GB"
    return f"{what} for {age(use['since'], now)}: {use['who']}{memory}"


def pressure_text(pressure: View, now: float) -> str:
    """A pressure in words: what it is, since when, until when at most, and what it holds back."""
    ends = pressure["expires_at"]
    until = "" if ends is None else f", expires in {duration(max(ends - now, 0.0))} unless told again"
    back = ", ".join(pressure["holds_back"])
    return (
        f"{pressure['event']} {pressure['level']} for {age(pressure['since'], now)}: {pressure['signal']} "
        f"{quantity(pressure['value'])} of {quantity(pressure['limit'])} {pressure['unit']}{until}"
        + (f"; starts no {back}" if back else "")
    )


def _node_detail(asked: Client, node: View) -> Iterator[str]:
    """What each device of a node does and why, and what its gates have refused."""
    if node["pool"] is not None:
        yield from pool_lines(node, time.time())
    yield ""
    for device in _explained(node):
        yield from paragraph(asked.explain_device(device["id"])["summary"], rest="  ")
    if node["gates"]:
        counts = ", ".join(f"{gate} {count}" for gate, count in node["gates"].items())
        yield from paragraph(f"refused there since the controller began: {counts}", rest="  ")
    if node["memory_limits"] is not None:
        yield from paragraph(f"memory limits: {MEMORY_LIMITS[node['memory_limits']]}", rest="  ")


def _explained(node: View) -> Sequence[View]:
    """Its devices; the slots of a pool may be many, and those that have nothing say all the same."""
    devices: list[View] = node["devices"]
    if node["pool"] is None:
        return devices
    held = [device for device in devices if device["attempts"] or device["chunks"]]
    return [*held, *(each for each in devices if each not in held)][: max(len(held), 1)][:EXPLAINED_MAX]
