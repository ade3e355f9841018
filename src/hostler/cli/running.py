"""Starting a controller, and checking a fleet file."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hostler.cli.common import Json, OwnStateDir, directory
from hostler.cli.configs import settings_json, settings_lines
from hostler.cli.declarations import Argument, Option
from hostler.cli.service import expect_none
from hostler.cli.show import clean, plural, say, say_json
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.cli.findings import Finding
    from hostler.settings import Loaded


FleetFile = Annotated[Path, Argument(metavar="FILE", help="A fleet file (YAML).")]


def up(
    fleet_file: Annotated[
        Path | None, Argument(metavar="FILE", help="A fleet file (YAML); without one, this machine alone.")
    ] = None,
    until_idle: Annotated[
        bool, Option("--until-idle", help="End when everything asked for is done; exit status 0 only then.")
    ] = False,
    host: Annotated[
        str | None, Option(metavar="ADDRESS", help="Address of the HTTP interface; by default that of loopback.")
    ] = None,
    port: Annotated[
        int | None, Option(min=0, max=65535, help="Port of the HTTP interface; 0 takes any free one.")
    ] = None,
    detach: Annotated[bool, Option("--detach", help="Run it in the background; return once it is ready.")] = False,
    state_dir: OwnStateDir = None,
) -> int:
    """Run a controller in the foreground, or with --detach in the background.

    SIGTERM or Ctrl-C drains it, a second one leaves at once; what runs on the nodes runs on and is adopted by the next
    `hostler up`. `hostler down` drains it, too.

    Example:
      hostler up
      hostler up fleet.yaml --detach
      hostler up --until-idle examples/laptop.yaml
    """
    expect_none(_own_directory(fleet_file, state_dir))
    if detach:
        return _detached(fleet_file, host, port, state_dir, until_idle=until_idle)
    # What is made as modules are imported stays: to search it for garbage, over and over, is a sixth of the start.
    gc.disable()
    from hostler.runtime.up import run

    gc.freeze()
    gc.enable()
    _warn(fleet_file)
    chosen = None if state_dir is None else directory(state_dir)
    return run(fleet_file, state_dir=chosen, host=host, port=port, until_idle=until_idle)


def check(
    fleet_file: FleetFile,
    offline: Annotated[
        bool, Option("--offline", help="Ask nobody: look at the file alone, and at what lies beside it.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Validate a fleet file; tell where each value comes from, and what it may not have meant.

    Ray clusters are asked what they have. Of a training on many machines (`rl`) it proves that all is there that this
    needs: the cluster and its version, the game with its ROM and state, the folder for checkpoints and the stores, the
    language model, and what Kubernetes allows. Nothing is left behind, and nothing waited for for ever.

    Exit status 1 where it contradicts itself, or asks for what its nodes or a cluster cannot do; 10 to 17 for the first
    of such proofs that fails, 9 where only some could not be made (docs/guides/rl.md). With --json both are told on
    standard error.

    Example:
      hostler check examples/laptop.yaml
      hostler check examples/rl.yaml --offline
    """
    from hostler.cli.findings import findings
    from hostler.settings import config_specs, describe, load, specs

    loaded = load(fleet_file, os.environ)
    asked, configs = specs(loaded), config_specs(loaded, until_idle=False)
    settings = describe(loaded)
    found = [*findings(loaded, time.time(), asked), *([] if offline else _of_rays(loaded))]
    failed = int(any(each.wrong for each in found))
    if as_json:
        say_json(settings_json(settings))
        for each in found:
            print(clean(each), file=sys.stderr)
        status = _proved(loaded, offline=offline, as_json=True)
        return failed or status
    say(settings_lines(settings))
    say(clean(each) for each in found)
    sweeps = sum(spec.payload.kind == "sweep" for spec in asked)
    counts = plural(len(asked) - sweeps, "job"), plural(sweeps, "sweep"), plural(len(configs), "training config")
    status = _proved(loaded, offline=offline, as_json=False)
    print(f"{'has faults' if failed else 'good' if not status else 'not proved'}: {', '.join(counts)}")
    return failed or status


def _own_directory(fleet_file: Path | None, state_dir: Path | None) -> Path:
    """The state directory; the fleet file is read only where it may name one, as that takes a second."""
    if state_dir is not None or fleet_file is None:
        return directory(state_dir)
    try:
        names_none = b"state_dir" not in fleet_file.read_bytes()
    except OSError:
        names_none = False  # reading it as a fleet file has the message
    if names_none:
        return directory(None)
    from hostler.settings import load

    return load(fleet_file, os.environ).state_dir


def _detached(
    fleet_file: Path | None, host: str | None, port: int | None, state_dir: Path | None, *, until_idle: bool
) -> int:
    from hostler.cli.service import detached
    from hostler.settings import load

    if until_idle:
        raise UsageError("--until-idle waits for the end, and --detach does not; leave out one of them")
    chosen = load(fleet_file, os.environ).state_dir if state_dir is None else directory(state_dir)
    words = [] if fleet_file is None else [str(fleet_file.absolute())]
    words += [] if host is None else ["--host", host]
    words += [] if port is None else ["--port", str(port)]
    return detached([*words, "--state-dir", str(chosen)], chosen)


def _of_rays(loaded: Loaded) -> list[Finding]:
    """What Ray clusters of a fleet file answer."""
    if all(node.backend != "ray" for node in loaded.fleet.nodes):
        return []
    import asyncio

    from hostler.cli.findings import Finding
    from hostler.model.errors import SettingsError
    from hostler.runtime.rays import examined

    try:
        return [Finding(each.wrong, each.says) for each in asyncio.run(examined(loaded))]
    except SettingsError as error:
        return [Finding(True, str(error))]


def _proved(loaded: Loaded, *, offline: bool, as_json: bool) -> int:
    """Look whether all is there that a training on many machines needs; the exit status."""
    if loaded.fleet.rl is None or offline:
        return 0
    from hostler.cli import rl

    proofs = rl.proved(loaded, os.environ)
    if as_json:
        for each in proofs:
            print(
                clean(f"{each.health}: {each.code}: {each.says}" + (f"; {each.fix}" if each.fix else "")),
                file=sys.stderr,
            )
    else:
        say(rl.proof_lines(proofs))
    return rl.status_of(proofs)


def _warn(fleet_file: Path | None) -> None:
    """Tell what `hostler check` would call wrong; none of it keeps a controller from starting."""
    from hostler.cli.findings import findings
    from hostler.settings import load, specs

    loaded = load(fleet_file, os.environ)
    for each in findings(loaded, time.time(), specs(loaded)):
        if each.wrong:
            print(f"hostler: warning: {clean(each.text)}", file=sys.stderr)
