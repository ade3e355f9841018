"""Batch scripts: as they are meant to be (golden/), and run by bash on machines that pretend to be others."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.backends.slurm.script import UNUSABLE, Script, Site, render
from tests.patience import PATIENCE_S

GOLDEN = Path(__file__).parent / "golden"
BARE = Script(
    site=Site(folder="/shared/lab"),
    agent="/shared/lab/.hostler/code/agent.pyz",
    root="/shared/lab/.hostler",
    token="hostler-a1",
    idle_s=0.0,
)
IMAGES: dict[str, Any] = {"image": "/images/x86.sif", "image_arm64": "/images/arm.sif"}
SITES: dict[str, Site] = {
    "plain": BARE.site,
    "modules": replace(BARE.site, setup=("module purge", "module load python/3.11 cuda/12"), python="~/bin/python"),
    "venv": replace(BARE.site, venv="~/venvs/x86/bin/activate", venv_arm64="/shared/lab/arm/bin/activate"),
    "venv-and-container": replace(BARE.site, venv="/v/bin/activate", runtime="apptainer", image_arm64="/i/arm.sif"),
    "apptainer": replace(BARE.site, runtime="apptainer", container_args=("--cleanenv", "--env", "A=b c"), **IMAGES),
    "singularity-rocm": replace(BARE.site, runtime="singularity", rocm=True, **IMAGES),
    "docker": replace(BARE.site, runtime="docker", image="nvcr.io/nvidia/pytorch:25.01", image_arm64="our/arm:1"),
    "docker-rocm": replace(BARE.site, runtime="docker", image="rocm/pytorch:6", rocm=True),
    "pyxis": replace(BARE.site, runtime="pyxis", image="nvcr.io#nvidia/pytorch:25.01", container_args=("--mpi=none",)),
}


def script(name: str) -> str:
    return render(replace(BARE, site=SITES[name], idle_s=60.0))


@pytest.mark.parametrize("name", SITES)
def test_scripts_are_as_they_were_agreed_on(name: str) -> None:
    assert script(name) == (GOLDEN / f"{name}.sh").read_text(encoding="utf-8")


def test_there_is_no_golden_script_that_nobody_makes() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sh")} == set(SITES)


@pytest.mark.parametrize("name", SITES)
def test_bash_reads_them(name: str) -> None:
    done = subprocess.run(["bash", "-n", str(GOLDEN / f"{name}.sh")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", SITES)
def test_shellcheck_finds_nothing(name: str) -> None:
    found = shutil.which("shellcheck")
    if found is None:
        pytest.skip("shellcheck is not installed")
    # SC1090, SC1091: it cannot follow what is sourced. SC2016: BASH_COMMAND is meant to be read later.
    command = [found, "--exclude=SC1090,SC1091,SC2016", str(GOLDEN / f"{name}.sh")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


TELL = """#!{python}
import json, os, sys
open({out!r}, "w").write(json.dumps({{"argv": [os.path.basename(sys.argv[0]), *sys.argv[1:]], "env": dict(os.environ),
    "cwd": os.getcwd()}}))
sys.exit(int(os.environ.get("STATUS", "0")))
"""


class Machine:
    """A machine of any architecture; programs that are put on it tell how they were called."""

    def __init__(self, folder: Path, machine: str = "x86_64") -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.out = folder / "told.json"
        self.env = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(folder), "SLURM_JOB_ID": "823"}
        self.put("uname", f"#!/bin/sh\necho {machine}\n")

    def put(self, name: str, text: str | None = None) -> None:
        path = self.bin / name
        path.write_text(TELL.format(python=sys.executable, out=str(self.out)) if text is None else text)
        path.chmod(0o755)

    def run(self, text: str, **env: str) -> subprocess.CompletedProcess[str]:
        path = self.folder / "script.sh"
        path.write_text(text)
        return subprocess.run(
            ["/bin/bash", str(path)],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def told(self) -> Any:
        return json.loads(self.out.read_text())


HOSTILE = "a 'b' \"c\" $(touch x) `touch y` ;|&\n%s*é"


@pytest.fixture
def here(tmp_path: Path) -> Script:
    """A script for a folder that is there, with a name to be afraid of."""
    shared = tmp_path / HOSTILE
    shared.mkdir()
    root = f"{shared}/.hostler/p"
    return Script(site=Site(folder=str(shared)), agent=f"{root}/agent.pyz", root=root, token="t-1", idle_s=2.5)


def berth(made: Script) -> list[str]:
    return [made.agent, "berth", "--root", made.root, "--token", "t-1", "--idle-s", "2.5"]


def test_it_becomes_the_agent_in_the_shared_folder(tmp_path: Path, here: Script) -> None:
    machine = Machine(tmp_path)
    machine.put("python3")
    done = machine.run(render(here), STATUS="3", SLURM_EXPORT_ENV="NONE")
    assert (done.returncode, done.stderr) == (3, "")
    told = machine.told()
    assert told["argv"] == ["python3", *berth(here)]
    assert told["cwd"] == here.site.folder
    assert "SLURM_EXPORT_ENV" not in told["env"]
    assert sorted(path.name for path in (tmp_path / HOSTILE).iterdir()) == []


def test_a_folder_that_is_not_there_is_told_by_its_name(tmp_path: Path, here: Script) -> None:
    machine = Machine(tmp_path)
    machine.put("python3")
    os.rmdir(here.site.folder)
    done = machine.run(render(here))
    assert done.returncode == UNUSABLE
    assert f"there is no {here.site.folder}; slurm.shared_root" in done.stderr
    assert not machine.out.exists()


def test_setup_may_use_what_is_not_set_and_its_failure_ends_the_job(tmp_path: Path, here: Script) -> None:
    machine = Machine(tmp_path)
    machine.put("python3")
    lenient = replace(here, site=replace(here.site, setup=('echo "modules: $MODULEPATH"', "export LOADED=yes")))
    done = machine.run(render(lenient))
    assert (done.returncode, done.stdout, machine.told()["env"]["LOADED"]) == (0, "modules: \n", "yes")
    machine.out.unlink()
    failing = replace(here, site=replace(here.site, setup=("module load nothing",)))
    done = machine.run(render(failing))
    assert done.returncode == 127
    assert "of the batch script has failed: module load nothing" in done.stderr
    assert not machine.out.exists()


@pytest.mark.parametrize(
    ("machine", "which"), [("x86_64", "x86"), ("aarch64", "arm"), ("arm64", "arm"), ("amd64", "x86")]
)
def test_the_environment_is_that_of_the_machine(tmp_path: Path, here: Script, machine: str, which: str) -> None:
    node = Machine(tmp_path, machine)
    node.put("python3")
    for name in ("x86", "arm"):
        (tmp_path / f"{name} of ours").write_text(f'export ENVIRONMENT={name} PS1="$PS1"\n')
    site = replace(here.site, venv="~/x86 of ours", venv_arm64=str(tmp_path / "arm of ours"))
    done = node.run(render(replace(here, site=site)))
    assert (done.returncode, done.stderr, node.told()["env"]["ENVIRONMENT"]) == (0, "", which)


@pytest.mark.parametrize(
    ("machine", "site", "why"),
    [
        (
            "aarch64",
            {"venv": "/dev/null"},
            "is a aarch64, and neither slurm.venv_activate_arm64 nor slurm.container_im",
        ),
        ("x86_64", {"venv_arm64": "/dev/null"}, "neither slurm.venv_activate nor slurm.container_image_x86_64 is set"),
        ("riscv64", {"venv": "/dev/null"}, "is a riscv64, which nobody has made an environment for"),
        ("x86_64", {"venv": "/nowhere/activate"}, "there is no /nowhere/activate, which slurm.venv_activate names"),
        ("x86_64", {"runtime": "apptainer", "image": "i"}, "there is no apptainer on PATH"),
        ("x86_64", {"runtime": "docker", "image": "i"}, "there is no docker on PATH"),
        ("x86_64", {"runtime": "pyxis", "image": "i"}, "there is no srun on PATH"),
    ],
)
def test_a_node_that_is_not_as_the_settings_say_says_so(
    tmp_path: Path, here: Script, machine: str, site: dict[str, str], why: str
) -> None:
    node = Machine(tmp_path, machine)
    node.env["PATH"] = str(node.bin)
    for name in ("hostname", "python3"):
        node.put(name, "#!/bin/sh\necho node-7\n")
    done = node.run(render(replace(here, site=replace(here.site, **site))))
    assert done.returncode == UNUSABLE
    assert done.stderr.startswith("hostler: node-7: ")
    assert why in done.stderr


@pytest.mark.parametrize(
    ("runtime", "rocm", "gpus", "flag"),
    [
        ("apptainer", False, "0,1", ["--nv"]),
        ("apptainer", True, "0", ["--rocm"]),
        ("singularity", False, None, []),
    ],
)
def test_apptainer_sees_the_shared_folder_and_the_gpus(
    tmp_path: Path, here: Script, runtime: str, rocm: bool, gpus: str | None, flag: list[str]
) -> None:
    node = Machine(tmp_path, "aarch64")
    node.put(runtime)
    if gpus is not None:
        node.env["SLURM_JOB_GPUS"] = gpus
    site: dict[str, Any] = {
        "runtime": runtime,
        "rocm": rocm,
        "image_arm64": HOSTILE,
        "container_args": ("--env", "A=b c"),
    }
    done = node.run(render(replace(here, site=replace(here.site, **site))))
    assert (done.returncode, done.stderr) == (0, "")
    bound = ["--bind", here.site.folder, "--pwd", here.site.folder]
    expected = [runtime, "exec", *bound, *flag, "--env", "A=b c", HOSTILE, "python3", *berth(here)]
    assert node.told()["argv"] == expected


def test_a_pool_outside_of_the_shared_folder_is_bound_too(tmp_path: Path, here: Script) -> None:
    node = Machine(tmp_path)
    node.put("apptainer")
    elsewhere = replace(here, root="/elsewhere/p", site=replace(here.site, runtime="apptainer", image="i.sif"))
    node.run(render(elsewhere))
    assert node.told()["argv"][2:6] == ["--bind", here.site.folder, "--bind", "/elsewhere/p"]


def test_docker_is_told_the_gpus_of_the_allocation(tmp_path: Path, here: Script) -> None:
    node = Machine(tmp_path)
    node.put("docker")
    site = replace(here.site, runtime="docker", image="our/image:1")
    done = node.run(
        render(replace(here, site=site)), SLURM_JOB_GPUS="2,5,7", CUDA_VISIBLE_DEVICES="0,1,2", SLURM_X="a b"
    )
    assert (done.returncode, done.stderr) == (0, "")
    argv = node.told()["argv"]
    mine = f"{os.getuid()}:{os.getgid()}"
    folder = here.site.folder
    assert argv[:11] == [
        "docker", "run", "--rm", "--init", "--network", "host", "-u", mine, "-v", f"{folder}:{folder}", "-w",
    ]  # fmt: skip
    passed = {argv[index + 1] for index, word in enumerate(argv) if word == "-e"}
    assert passed == {"HOME=/tmp", "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_X", "CUDA_VISIBLE_DEVICES=0,1,2"}
    assert argv[argv.index("--gpus") + 1] == '"device=2,5,7"'
    assert argv[argv.index("our/image:1") :] == ["our/image:1", "python3", *berth(here)]
    node.run(render(replace(here, site=site)))
    assert "--gpus" not in node.told()["argv"]


def test_pyxis_gives_the_step_the_cpus_of_the_job(tmp_path: Path, here: Script) -> None:
    node = Machine(tmp_path)
    node.put("srun")
    site = replace(here.site, runtime="pyxis", image="reg#our/image:1", container_args=("--mpi=none",))
    done = node.run(render(replace(here, site=site)), SLURM_CPUS_PER_TASK="8", STATUS="5")
    assert (done.returncode, done.stderr) == (5, "")
    folder = here.site.folder
    assert node.told()["argv"] == [
        "srun", "--export=ALL", "--nodes=1", "--ntasks=1", "--cpus-per-task=8", "--container-image=reg#our/image:1",
        f"--container-mounts={folder}:{folder}", f"--container-workdir={folder}", "--mpi=none", "python3", *berth(here),
    ]  # fmt: skip


def test_what_ends_a_job_of_pyxis_is_told_to_its_step_and_waited_for(tmp_path: Path, here: Script) -> None:
    node = Machine(tmp_path)
    node.put(
        "srun", '#!/bin/bash\ntrap "sleep 0.3; exit 9" USR1\necho $$ > "$HOME/step"\nwhile :; do sleep 0.05; done\n'
    )
    node.put("scancel", '#!/bin/bash\necho "$@" > "$HOME/signalled"\nkill -USR1 "$(cat "$HOME/step")"\n')
    path = tmp_path / "script.sh"
    path.write_text(render(replace(here, site=replace(here.site, runtime="pyxis", image="i"))))
    with subprocess.Popen(["/bin/bash", str(path)], env=node.env) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not (tmp_path / "step").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 9
    assert (tmp_path / "signalled").read_text() == "--signal=TERM 823\n"


def test_a_token_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no token"):
        render(replace(BARE, token="a\nrm -rf /"))
