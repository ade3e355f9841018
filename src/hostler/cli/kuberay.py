"""Ray in Kubernetes: manifests of what a fleet file asks for, and what becomes of them in a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import Json
from hostler.cli.declarations import Argument, Option
from hostler.cli.show import clean, clean_output, paragraph, plural, say, say_json

if TYPE_CHECKING:
    from hostler.backends.kuberay.cluster import Applied, Cluster
    from hostler.backends.kuberay.objects import Manifest
    from hostler.backends.kuberay.sources import Rendered
    from hostler.backends.kuberay.standing import Standing


class DryRun(StrEnum):
    """Who checks without keeping anything."""

    SERVER = "server"


FleetFile = Annotated[Path, Argument(metavar="FILE", help="A fleet file with a `kuberay:` section.")]
Definitions = Annotated[
    list[Path] | None,
    Option("--crd", metavar="CRD", help="Check by the resource definitions in this file; may be given several times."),
]
Context = Annotated[
    str | None, Option("--context", metavar="NAME", help="Context of the kubeconfig; by default the current one.")
]
Dry = Annotated[DryRun | None, Option("--dry-run", help="The API server checks everything, and keeps nothing.")]
Force = Annotated[bool, Option("--force-conflicts", help="Take over fields that somebody else has set.")]
Alone = Annotated[
    bool,
    Option("--alone", help="Only the RayJob or RayCluster, which is all that `operators` may make and delete."),
]
Watch = Annotated[bool, Option("--watch", "-w", help="Go on telling until it is over.")]


def render(
    fleet_file: FleetFile,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="Write a file for each object into this folder."),
    ] = None,
    crd: Definitions = None,
    dry_run: Dry = None,
    context: Context = None,
    as_json: Json = False,
) -> int:
    """Write the Kubernetes manifests of what a fleet file asks for under `kuberay:`.

    RayJob or RayCluster, ServiceAccounts, Role, NetworkPolicies, ConfigMaps, and Hostler's dashboard; Secrets only by
    their names. The same file gives the same bytes. Without -o they are printed, as one stream (--json: as one
    List).

    They are checked by what KubeRay and Kueue refuse, by your own resource definitions (--crd; they need the extra
    `k8s`), and by the API server (--dry-run server).

    Example:
      hostler kuberay render fleet.yaml -o manifests && kubectl apply -f manifests
      kubectl get crd rayjobs.ray.io -o yaml > rayjobs.yaml
      hostler kuberay render fleet.yaml --crd rayjobs.yaml --dry-run server | kubectl diff -f -
    """
    from hostler.backends.kuberay.folder import write
    from hostler.backends.kuberay.text import stream

    made = _checked(fleet_file, crd or [])
    if dry_run is not None:
        with _cluster(context) as cluster:
            for each in cluster.apply(made.manifests, dry_run=True, force=False):
                _tell(f"{each.object}: would be {each.did}" if each.did != "unchanged" else f"{each.object}: unchanged")
    if output is not None:
        return _tell_written(output, *write(output, made.asked.name, made.manifests), as_json)
    if as_json:
        say_json({"apiVersion": "v1", "kind": "List", "items": list(made.manifests)})
    else:
        sys.stdout.write(stream(made.manifests))
    return 0


def apply(
    fleet_file: FleetFile,
    crd: Definitions = None,
    dry_run: Dry = None,
    force: Force = False,
    alone: Alone = False,
    watch: Watch = False,
    as_json: Json = False,
    context: Context = None,
) -> int:
    """Check what a fleet file asks for, and make it in the cluster.

    The API server merges it with what others have set (server-side apply). A RayJob that is over is not run again:
    delete it first. Needs the extra `k8s`.

    With --watch: exit status 1 where it does not end well.

    Example:
      hostler kuberay apply fleet.yaml --dry-run server
      hostler kuberay apply fleet.yaml --watch
    """
    made = _checked(fleet_file, crd or [])
    with _cluster(context) as cluster:
        done = cluster.apply(_asked(made, alone), dry_run=dry_run is not None, force=force)
        _tell_done(done, " (dry run)" if dry_run else "", as_json)
        return _watched(cluster, made, as_json) if watch and dry_run is None else 0


def status(fleet_file: FleetFile, watch: Watch = False, as_json: Json = False, context: Context = None) -> int:
    """Tell how the RayJob or RayCluster is: also why Kueue keeps it waiting.

    Exit status 1 where it is not there, or has failed.

    Example:
      hostler kuberay status fleet.yaml --watch
    """
    made = _rendered(fleet_file)
    with _cluster(context) as cluster:
        if watch:
            return _watched(cluster, made, as_json)
        now = cluster.standing(made.main)
    _show(made, now, as_json)
    return int(now.good is False)


def logs(
    fleet_file: FleetFile,
    of: Annotated[
        str, Option("--of", metavar="WHAT", help="submitter (the job's own output), head, or a group of workers.")
    ] = "submitter",
    follow: Annotated[bool, Option("--follow", "-f", help="Go on as it grows.")] = False,
    tail: Annotated[int | None, Option("--tail", min=0, metavar="N", help="Only the last so many lines.")] = None,
    context: Context = None,
) -> int:
    """Print the job's output, or the log of a Ray pod.

    Example:
      hostler kuberay logs fleet.yaml --follow
      hostler kuberay logs fleet.yaml --of head --tail 50
    """
    made = _rendered(fleet_file)
    with _cluster(context) as cluster:
        for line in cluster.logs(made.main, of, follow=follow, tail=tail):
            print(clean_output(line), flush=follow)
    return 0


def delete(fleet_file: FleetFile, alone: Alone = False, as_json: Json = False, context: Context = None) -> int:
    """Delete everything from the cluster that the fleet file asks for.

    What is not labelled as Hostler's stays; so do Secrets and claims, which are only referred to.

    Example:
      hostler kuberay delete fleet.yaml
    """
    made = _rendered(fleet_file)
    with _cluster(context) as cluster:
        _tell_done(cluster.delete(_asked(made, alone)), "", as_json)
    return 0


def _rendered(fleet_file: Path) -> Rendered:
    from hostler.backends.kuberay.sources import render
    from hostler.settings import load

    return render(load(fleet_file, os.environ))


def _checked(fleet_file: Path, crd: Sequence[Path]) -> Rendered:
    made = _rendered(fleet_file)
    if crd:
        from hostler.backends.kuberay import definitions
        from hostler.backends.kuberay.findings import refuse

        found = definitions.read(crd)
        refuse(fault for each in made.manifests for fault in found.faults(each))
        _warn(
            f"{kind} is in none of the files of --crd, and was not checked by them"
            for kind in definitions.undefined(found, made.manifests)
        )
    return made


def _asked(made: Rendered, alone: bool) -> Sequence[Manifest]:
    return [made.main] if alone else made.manifests


def _cluster(context: str | None) -> Cluster:
    from hostler.backends.kuberay.cluster import Cluster

    return Cluster.connect(context)


def _watched(cluster: Cluster, made: Rendered, as_json: bool) -> int:
    good: bool | None = None
    for now in cluster.watch(made.main):
        _show(made, now, as_json)
        sys.stdout.flush()
        good = now.good
    return int(good is False)


def _show(made: Rendered, now: Standing, as_json: bool) -> None:
    if as_json:
        say_json({"object": _named(made), "phase": now.phase, "words": now.words, "good": now.good})
    else:
        say(paragraph(f"{_named(made)}: {now.words}", rest="  "))


def _tell_done(done: Iterable[Applied], how: str, as_json: bool) -> None:
    """What became of each object, as it becomes it: what has been done is known where a later one fails."""
    if as_json:
        say_json([{"object": each.object, "did": each.did} for each in done])
        return
    for each in done:
        say([f"{each.object}: {each.did}{how}"])


def _tell_written(folder: Path, written: Sequence[Path], stale: Sequence[Path], as_json: bool) -> int:
    if as_json:
        say_json({"written": [str(path) for path in written], "removed": [str(path) for path in stale]})
        return 0
    print(f"{clean(str(folder))}: {plural(len(written), 'manifest')}")
    say(f"removed {clean(path.name)}: nothing asks for it any more" for path in stale)
    return 0


def _named(made: Rendered) -> str:
    from hostler.backends.kuberay.objects import named

    return named(made.main)


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        _tell(f"warning: {line}")


def _tell(line: str) -> None:
    """Beside the manifests, which may be on their way into a pipe."""
    print(f"hostler: {clean(line)}", file=sys.stderr)
