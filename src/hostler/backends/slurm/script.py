"""The batch script: it prepares the environment of its node, and becomes the agent."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from hostler.model.record import record

UNUSABLE = 78
"""Exit status where the node is not what the settings say (`EX_CONFIG`): another try there comes to the same."""
TOKEN = re.compile(r"[A-Za-z0-9._-]+")
Runtime: TypeAlias = Literal["apptainer", "singularity", "docker", "pyxis"]


@record
class Site:
    """In what environment agents run on the nodes of a cluster."""

    folder: str
    """On the shared file system: where work starts, and what containers see of the machine's files."""
    python: str = "python3"
    setup: tuple[str, ...] = ()
    """Lines of shell, such as `module load cuda`; they are run before anything else."""
    venv: str | None = None
    """Script that activates a virtual environment, on x86-64."""
    venv_arm64: str | None = None
    runtime: Runtime | None = None
    image: str | None = None
    """Of a container, on x86-64."""
    image_arm64: str | None = None
    container_args: tuple[str, ...] = ()
    rocm: bool = False
    """Whether its GPUs are AMD's: containers are shown those, then."""


@record
class Script:
    """One batch script."""

    site: Site
    agent: str
    """The agent's zipapp."""
    root: str
    """Folder of the pool."""
    token: str
    idle_s: Annotated[float, Field(ge=0)]
    """How long the agent stays without work."""


def render(script: Script) -> str:
    """The text of the script. Raises `ValueError` at a token that is none."""
    if not TOKEN.fullmatch(script.token):
        raise ValueError(f"{script.token!r} is no token of a batch")
    return "\n".join([*_head(script), *_setup(script.site), *_machine(script), *_tail(script)]) + "\n"


def _head(script: Script) -> Iterator[str]:
    yield "#!/bin/bash"
    yield f"# Written by Hostler for its batch {script.token}; it is not read again after submission."
    yield "set -euo pipefail"
    yield """trap 'echo "hostler: line $LINENO of the batch script has failed: $BASH_COMMAND" >&2' ERR"""
    yield ""
    yield "refuse() {"
    yield """    echo "hostler: $(hostname): $1" >&2"""
    yield f"    exit {UNUSABLE}"
    yield "}"
    yield ""
    yield "# It keeps srun from handing on this environment; sbatch leaves it behind."
    yield "unset SLURM_EXPORT_ENV"
    yield "run=()"


def _setup(site: Site) -> Iterator[str]:
    """Modules and activation scripts use variables that are not set."""
    if not site.setup:
        return
    yield ""
    yield "set +u"
    yield from site.setup
    yield "set -u"


def _machine(script: Script) -> Iterator[str]:
    """What depends on the architecture; nothing where the settings say nothing of any."""
    site = script.site
    if not any((site.venv, site.venv_arm64, site.image, site.image_arm64)):
        return
    yield ""
    yield 'case "$(uname -m)" in'
    yield "x86_64 | amd64)"
    yield from _indented(_environment(script, site.venv, site.image, "x86_64", "venv_activate"))
    yield "    ;;"
    yield "aarch64 | arm64)"
    yield from _indented(_environment(script, site.venv_arm64, site.image_arm64, "arm64", "venv_activate_arm64"))
    yield "    ;;"
    yield "*)"
    yield '    refuse "is a $(uname -m), which nobody has made an environment for"'
    yield "    ;;"
    yield "esac"


def _environment(script: Script, venv: str | None, image: str | None, machine: str, setting: str) -> Iterator[str]:
    if venv is not None:
        place = _path(venv)
        missing = shlex.quote(f"there is no {venv}, which slurm.{setting} names")
        yield f"[ -r {place} ] || refuse {missing}"
        yield "set +u"
        yield f"source {place}"
        yield "set -u"
        return
    if image is None:
        wanted = f"is a $(uname -m), and neither slurm.{setting} nor slurm.container_image_{machine} is set"
        yield f'refuse "{wanted}"'
        return
    yield from _CONTAINERS[script.site.runtime or "apptainer"](script, image)


def _apptainer(script: Script, image: str) -> Iterator[str]:
    site = script.site
    program = site.runtime or "apptainer"
    binds = " ".join(f"--bind {shlex.quote(folder)}" for folder in _folders(script))
    yield f"command -v {program} >/dev/null || refuse {shlex.quote(f'there is no {program} on PATH')}"
    yield f"run=({program} exec {binds} --pwd {shlex.quote(site.folder)})"
    yield f"{_HAS_GPUS} && run+=({'--rocm' if site.rocm else '--nv'})"
    yield f"run+=({_words(*site.container_args, image)})"


def _docker(script: Script, image: str) -> Iterator[str]:
    """Docker's daemon knows nothing of the allocation: it is told the GPUs, which count from 0 inside."""
    site = script.site
    volumes = " ".join(f"-v {shlex.quote(f'{folder}:{folder}')}" for folder in _folders(script))
    yield "command -v docker >/dev/null || refuse 'there is no docker on PATH'"
    yield f'run=(docker run --rm --init --network host -u "$(id -u):$(id -g)" {volumes} -w {shlex.quote(site.folder)})'
    yield "run+=(-e HOME=/tmp)"
    yield 'for name in "${!SLURM_@}"; do'
    yield '    run+=(-e "$name")'
    yield "done"
    if site.rocm:
        yield f"{_HAS_GPUS} && run+=(--device /dev/kfd --device /dev/dri -e ROCR_VISIBLE_DEVICES)"
    else:
        yield f"if {_HAS_GPUS}; then"
        yield "    gpus=${SLURM_JOB_GPUS:-${CUDA_VISIBLE_DEVICES:-}} commas=${gpus//[!,]/}"
        yield '    run+=(--gpus "\\"device=$gpus\\"" -e "CUDA_VISIBLE_DEVICES=$(seq -s , 0 "${#commas}")")'
        yield "fi"
    yield f"run+=({_words(*site.container_args, image)})"


def _pyxis(script: Script, image: str) -> Iterator[str]:
    site = script.site
    mounts = shlex.quote(f"--container-mounts={','.join(f'{folder}:{folder}' for folder in _folders(script))}")
    yield "command -v srun >/dev/null || refuse 'there is no srun on PATH'"
    yield "# Since 22.05 srun does not take the CPUs of a task from its job."
    yield 'run=(srun --export=ALL --nodes=1 --ntasks=1 "--cpus-per-task=${SLURM_CPUS_PER_TASK:-1}")'
    yield f"run+=({_words(f'--container-image={image}')} {mounts})"
    yield f"run+=({_words(f'--container-workdir={site.folder}', *site.container_args)})"


def _tail(script: Script) -> Iterator[str]:
    folder = shlex.quote(script.site.folder)
    missing = shlex.quote(f"there is no {script.site.folder}; slurm.shared_root is to be the same folder on every node")
    berth = _words("berth", "--root", script.root, "--token", script.token, "--idle-s", f"{script.idle_s:g}")
    agent = f"{_path(script.site.python)} {shlex.quote(script.agent)} {berth}"
    yield ""
    yield f"cd -- {folder} || refuse {missing}"
    if script.site.runtime == "pyxis":
        yield from _stay(agent)
    else:
        # Bash before 4.4 takes an empty array for one that is not set.
        yield f'exec ${{run[@]+"${{run[@]}}"}} {agent}'


def _stay(agent: str) -> Iterator[str]:
    """For srun, which takes SIGTERM for the end of its step: the script stays, and has Slurm tell the agent instead."""
    yield f'[ "${{#run[@]}}" -gt 0 ] || exec {agent}'
    yield "child="
    yield "ended="
    yield "pass_on() {"
    yield """    [ -z "$child" ] || scancel --signal=TERM "$SLURM_JOB_ID" || kill -TERM "$child\""""
    yield "}"
    yield "# Before the step starts: a signal that comes first is passed on once there is one."
    yield "trap 'ended=1; pass_on' TERM"
    yield f'"${{run[@]}}" {agent} &'
    yield "child=$!"
    yield '[ -z "$ended" ] || pass_on'
    yield "while true; do"
    yield "    status=0"
    yield '    wait "$child" || status=$?'
    yield '    kill -0 "$child" 2>/dev/null || break'
    yield "done"
    yield 'exit "$status"'


_CONTAINERS = {"apptainer": _apptainer, "singularity": _apptainer, "docker": _docker, "pyxis": _pyxis}
_HAS_GPUS = '[ -n "${SLURM_JOB_GPUS:-${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}}" ]'


def _folders(script: Script) -> list[str]:
    """What a container must see: the shared root, and the folder of the pool where that is elsewhere."""
    shared = script.site.folder
    return [shared] if script.root.startswith(f"{shared.rstrip('/')}/") else [shared, script.root]


def _path(text: str) -> str:
    """A path as a word of shell; `~/` is the home there."""
    return f'"$HOME"/{shlex.quote(text[2:])}' if text.startswith("~/") else shlex.quote(text)


def _words(*words: str) -> str:
    return shlex.join(words)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
