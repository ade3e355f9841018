"""`init`: a first fleet file from what there is to run work on."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hostler.cli.declarations import Argument, Option
from hostler.cli.questions import answer
from hostler.cli.show import clean, plural
from hostler.model.errors import FilesError, LinkError, UsageError
from hostler.model.units import card_memory

if TYPE_CHECKING:
    from hostler.runtime.surveying import Hosts
    from hostler.settings.drafting import Found


LISTED = 20
USUAL = Path("fleet.yaml")


def init(
    file: Annotated[Path, Argument(metavar="[FILE]", help="The file to write.")] = USUAL,
    ssh: Annotated[
        list[str] | None,
        Option("--ssh", metavar="HOST", help="A host of your ssh configuration, or USER@ADDRESS; repeat for several."),
    ] = None,
) -> None:
    """Write a fleet file with the machines that are found here.

    It has this machine with its GPUs and CPUs, the hosts named by --ssh (on a terminal they are asked for), the
    partitions of a Slurm cluster if `sinfo` answers, and a Ray cluster if its dashboard answers. A file that is there
    is never overwritten.

    Example:
      hostler init
      hostler init rigs.yaml --ssh rig-1 --ssh rig-2
    """
    _expect_free(file)
    from hostler.runtime import surveying
    from hostler.settings.drafting import Found, FoundHere, draft

    hosts = surveying.ssh_hosts(_note)
    words = list(ssh) if ssh is not None else _asked_for(hosts)
    taken = {surveying.HERE}
    chosen = surveying.chosen_hosts(words, hosts, taken, "" if ssh is None else "--ssh ")
    try:
        here = surveying.this_machine()
    except LinkError as error:
        _note(f"this machine could not be looked at: {error}")
        here = FoundHere(None, None)
    found = Found(
        here=here,
        hosts=chosen,
        others=[name for name in hosts.known if name not in words],
        partitions=surveying.partitions(_note, taken),
        shared_root=surveying.usual_shared_root(),
        ray=surveying.ray_cluster(os.environ),
        ray_name=surveying.free("ray", taken),
    )
    _write(file, draft(found))
    _print(file, found)


def _expect_free(file: Path) -> None:
    if os.path.lexists(file):
        raise UsageError(f"{file} is there already and is not overwritten. Give another name: hostler init other.yaml")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {file.absolute().parent}; make it first")


def _asked_for(hosts: Hosts) -> list[str]:
    """The hosts that are typed on a terminal; none elsewhere."""
    if not hosts.known or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return []
    names = list(hosts.known)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    print(f"Hosts of your ssh configuration: {clean(' '.join(names[:LISTED]))}{more}", file=sys.stderr)
    question = "Which of them are to run work? Names, or Enter for none"
    return answer(f"{question}: ").replace(",", " ").split()


def _write(file: Path, text: str) -> None:
    """Write a file that is not there. Raises `FilesError`."""
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        _expect_free(file)
    except OSError as error:
        raise FilesError(f"{file} cannot be written: {error.strerror}") from error


def _print(file: Path, found: Found) -> None:
    """Print what the file has, and the next commands."""
    print(f"{file}: {', '.join(_parts(found))}")
    quoted = shlex.quote(str(file))
    print("\nNext:")
    if found.hosts:
        print(f"  hostler node trust {quoted}    # compare the host keys, and accept them")
        print(f"  hostler doctor {quoted}         # what each machine lacks")
    if found.partitions:
        print(f"  hostler slurm check {quoted}    # after you have set shared_root in it")
    print(f"  hostler up {quoted}")


def _parts(found: Found) -> list[str]:
    gpus = found.here.gpus
    kinds = [] if gpus is None else [f"{clean(gpu.model or 'GPU')} {_memory(gpu.vram_bytes)}".strip() for gpu in gpus]
    counted = [f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds)]
    cpus = [] if found.here.cpus is None else [plural(found.here.cpus, "CPU")]
    parts = [f"this machine ({', '.join([*counted, *cpus]) or 'devices unknown'})"]
    parts += [f"{host.name} over SSH" for host in found.hosts]
    if found.partitions:
        closed = sum(each.why_not is not None for each in found.partitions)
        comments = f" ({closed} of them as a comment: no job can start there now)" if closed else ""
        parts.append(plural(len(found.partitions), "Slurm partition") + comments)
    if found.ray is not None:
        parts.append(f"Ray at {clean(found.ray.address)}" + (" (as a comment)" if found.ray.is_here else ""))
    return parts


def _memory(size: int | None) -> str:
    return "" if size is None else card_memory(size)


def _note(what: str) -> None:
    print(f"note: {clean(what)}", file=sys.stderr)
