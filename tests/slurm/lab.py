"""A real Slurm on this machine: six nodes that claim GPUs, in a folder and on ports of its own.

    with Lab.running(accounting=True) as lab:
        lab.run("sbatch", "--wrap", "hostname", check=True)

Whoever started it ends it: at the end no process of it is left, jobs included. What a killed test process has left
is cleared away by the next lab.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psutil

from tests.patience import PATIENCE_S
from tests.slurm import config, database
from tests.slurm.config import NODES, Place
from tests.slurm.daemons import Daemon, end_marked, marked, tail, until
from tests.slurm.ports import Ports
from tests.tiers import demand_services

PREFIX = "hsl-"  # short: names of sockets below it must stay under 108 characters
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb", "mariadb-install-db", "sacctmgr")
PACKAGES = "`apt-get install --no-install-recommends slurm-wlm slurmdbd mariadb-server` brings them"
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
NOISE = "pmix|MPI|state file|Trying backup|differs from hardware|Unauthorized credential"
# Plenty: on a machine with nothing else to do everything is there within two seconds.
COMMAND_S = PATIENCE_S


def available(accounting: bool = False) -> str | None:
    """Why there can be no Slurm here, and what helps; `None`: there can."""
    wanted = (*PROGRAMS, *ACCOUNTING) if accounting else PROGRAMS
    lacking = [name for name in wanted if shutil.which(name, path=PATH) is None]
    if lacking:
        return f"{', '.join(lacking)} not found; {PACKAGES}"
    if plugins() is None:
        return f"Slurm's plugins (auth_munge.so) not found; {PACKAGES}"
    if accounting and not (_plugins() / "accounting_storage_mysql.so").exists():
        return f"Slurm's plugin for databases not found; {PACKAGES}"
    return None


@cache
def plugins() -> Path | None:
    """Where this Slurm has its plugins."""
    patterns = ("lib*/slurm*/auth_munge.so", "lib*/*/slurm*/auth_munge.so")  # to search all of /usr takes a second
    found = [path.parent for pattern in patterns for path in Path("/usr").glob(pattern)]
    return found[0] if found else None


class Lab:
    """One Slurm. `env` is for whoever calls its commands."""

    def __init__(self, accounting: bool = False, cache: Path | None = None, extra: str = "") -> None:
        demand_services("Slurm")
        clear_abandoned()
        self.cache, self.extra = cache, extra
        # Not below a test's own folder, whose name is too long.
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
        self.folder.chmod(0o755)  # jobs of other users come in
        (self.folder / "owner").write_text(_owner(os.getpid()))
        self._ports = Ports()
        user = pwd.getpwuid(os.geteuid()).pw_name
        host = socket.gethostname().split(".")[0]
        self.place = Place(self.folder, user, host, _plugins(), self._ports.first, accounting)
        self.env = _environment(self.place.conf)
        self._prepare()
        self.munged = self._munged()
        self.mariadbd = self._daemon("mariadbd", *database.words(self.place))
        self.slurmdbd = self._daemon("slurmdbd", "slurmdbd", "-D")
        self.slurmctld = self._daemon("slurmctld", "slurmctld", "-D")
        self.slurmds = {
            each.name: self._daemon(f"slurmd-{each.name}", "slurmd", "-D", "-N", each.name) for each in NODES
        }

    @classmethod
    @contextmanager
    def running(cls, accounting: bool = False, cache: Path | None = None, extra: str = "") -> Iterator[Lab]:
        """A lab with all nodes idle.

        `cache`: a folder that keeps a prepared database for the next one. `extra`: more lines of slurm.conf.
        """
        lab = cls(accounting, cache, extra)
        try:
            lab.start()
            yield lab
        finally:
            lab.close()

    def start(self) -> None:
        """Everything, in the order in which one needs the other."""
        self.start_munged()
        if self.place.accounting:
            database.start(self)
        self.start_slurmctld()
        for slurmd in self.slurmds.values():
            slurmd.start()
        self.wait_idle()

    def close(self) -> None:
        """End every process, the jobs' own included, and take the folder away."""
        try:
            for slurmd in self.slurmds.values():
                slurmd.kill()
            self.slurmctld.kill()
            self.slurmdbd.kill()
            self.mariadbd.kill()
            self.munged.kill()
            end_marked(str(self.place.conf))
        finally:
            self._ports.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(
        self, *words: str, check: bool = False, within_s: float = COMMAND_S, stdin: str = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command of Slurm's, or any other, in this lab; `check`: an error tells what it said."""
        done = subprocess.run(
            words, env=self.env, capture_output=True, text=True, input=stdin, cwd=cwd, timeout=within_s, check=False
        )
        assert not check or done.returncode == 0, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def said(self, *words: str) -> str:
        """What a command that succeeds prints, without the last line end."""
        return self.run(*words, check=True).stdout.rstrip("\n")

    def submit(self, script: str, *options: str) -> str:
        """The id of a job with these lines; `output` has what it prints."""
        name = "%A_%a" if any(option.startswith("--array") for option in options) else "%A"
        words = ("sbatch", "--parsable", f"--output={self.folder}/out/{name}.out", *options)
        done = self.run(*words, stdin=f"#!/bin/bash\n{script}\n", check=True, cwd=self.folder / "out")
        return done.stdout.strip().split(";")[0]

    def output(self, job: str) -> str:
        """What a job, or a task of an array (`7_0`), has printed so far."""
        path = self.folder / f"out/{job}.out"
        return path.read_text() if path.exists() else ""

    def state(self, job: str) -> str:
        """Of a job that Slurm still knows of, RUNNING for one."""
        return self.fields(job)["JobState"]

    def fields(self, job: str) -> dict[str, str]:
        """What `scontrol show job` tells of one job."""
        words = self.said("scontrol", "-o", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_for(self, job: str, state: str, patience_s: float = PATIENCE_S) -> dict[str, str]:
        """Until the job has this state; its fields then."""
        until(lambda: self.state(job) == state, f"job {job} is {state}", patience_s, lambda: self._story(job))
        return self.fields(job)

    # Nodes.

    def node_states(self) -> dict[str, str]:
        """Every node's state, `idle` or `down*` for instance."""
        lines = self.said("sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        return dict(line.split() for line in lines)

    def is_idle(self) -> bool:
        """Whether every node is there and has nothing to do."""
        done = self.run("sinfo", "-h", "-N", "-o", "%N %T")
        states = dict(line.split() for line in done.stdout.splitlines())
        return done.returncode == 0 and len(states) == len(NODES) and set(states.values()) == {"idle"}

    def wait_idle(self) -> None:
        until(self.is_idle, "all nodes are idle", PATIENCE_S, self.logs)

    def node_down(self, name: str, why: str = "by the test") -> None:
        """Slurm takes the node for dead at once: its jobs get NODE_FAIL. The node itself runs on."""
        self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", f"Reason={why}", check=True)

    def node_up(self, name: str) -> None:
        """Slurm believes in it again."""
        self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=True)

    def reset(self) -> None:
        """As new, for who comes next: no jobs, all daemons there, all nodes idle."""
        self._revive()
        jobs = self.said("squeue", "-h", "-a", "-o", "%F").split()
        self.run("scancel", *sorted(set(jobs)))
        until(self._mended, "all nodes are idle again", PATIENCE_S, self.logs)

    # Daemons.

    def start_munged(self) -> None:
        self.munged.start()
        self._until(self.place.munge.exists, self.munged)

    def start_slurmctld(self) -> None:
        """After a `kill` it goes on from what it wrote last, which may be from before jobs started; see `relapse`."""
        self.slurmctld.start()
        self._until(self._answers, self.slurmctld)

    def remember(self, name: str = "before") -> None:
        """Keep what slurmctld knows now, for `relapse`."""
        self.slurmctld.stop()
        shutil.copytree(self.folder / "state", self.folder / name)
        self.start_slurmctld()
        self.wait_known()

    def relapse(self, name: str = "before") -> None:
        """Kill slurmctld, and let it go on from what it knew then: job ids given since are given again."""
        self.slurmctld.kill()
        shutil.rmtree(self.folder / "state")
        shutil.copytree(self.folder / name, self.folder / "state")
        self.start_slurmctld()
        self.wait_known()

    def wait_known(self) -> None:
        """Until a slurmctld that was started anew has heard of every node: before, no job starts."""
        until(lambda: "unk" not in " ".join(self.node_states().values()), "nodes", PATIENCE_S, self.logs)

    def start_slurmdbd(self) -> None:
        self.slurmdbd.start()
        self._until(self.accounts, self.slurmdbd)

    def start_mariadbd(self) -> None:
        self.mariadbd.start()
        self._until(lambda: database.answers(self), self.mariadbd)

    def start_slurmd(self, name: str) -> None:
        self.slurmds[name].start()
        self._until(lambda: not _is_lost(self.node_states()[name]), self.slurmds[name])

    @contextmanager
    def limited(self, qos: str, *limits: str) -> Iterator[None]:
        """A QOS with limits such as `MaxWall=10`, which sbatch denies to exceed."""
        self.run("sacctmgr", "-i", "modify", "qos", qos, "set", *limits, "flags=DenyOnLimit", check=True)
        try:
            yield
        finally:
            lifted = [f"{limit.rpartition('=')[0]}=-1" for limit in limits]
            self.run("sacctmgr", "-i", "modify", "qos", qos, "set", *lifted, "flags=-1", check=True)

    def accounts(self) -> bool:
        """Whether the accounting answers."""
        return self.run("sacctmgr", "-n", "list", "cluster").returncode == 0

    def processes(self) -> list[psutil.Process]:
        """All of this lab's: daemons, slurmstepds, and what jobs have started."""
        return marked(str(self.place.conf))

    def logs(self) -> str:
        """The last lines of everybody, for who reads why a test has failed."""
        return "\n".join(
            f"--- {path.name}\n{tail(path, without=NOISE)}" for path in sorted((self.folder / "log").glob("*"))
        )

    def _until(self, works: Callable[[], object], daemon: Daemon) -> None:
        """Wait for a daemon that was started; one that ends instead is not waited for."""
        until(lambda: works() or not daemon.runs, f"{daemon.name} answers", PATIENCE_S, self.logs)
        assert daemon.runs, f"{daemon.name} has ended by itself\n{self.logs()}"

    def _answers(self) -> bool:
        return self.run("scontrol", "ping").stdout.rstrip().endswith("is UP")

    def _story(self, job: str) -> str:
        return self.run("scontrol", "-o", "show", "job", job).stdout + self.logs()

    def _revive(self) -> None:
        if self.place.accounting and not self.mariadbd.runs:
            self.start_mariadbd()
        if self.place.accounting and not self.slurmdbd.runs:
            self.start_slurmdbd()
        if not self.slurmctld.runs:
            self.start_slurmctld()
        for name, slurmd in self.slurmds.items():
            if not slurmd.runs:
                self.start_slurmd(name)

    def _mended(self) -> bool:
        for name, state in self.node_states().items():
            if state.rstrip("*") in ("down", "drained", "draining"):
                self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")  # refused while it is in passing
        return self.is_idle()

    def _prepare(self) -> None:
        for name in ("etc", "munge", "log", "run", "state", "dev", "out", *(f"spool.{node.name}" for node in NODES)):
            (self.folder / name).mkdir()
        (self.folder / "out").chmod(0o1777)
        (self.folder / "munge").chmod(0o711)
        for at in range(max(node.gpus for node in NODES)):
            (self.folder / f"dev/nvidia{at}").symlink_to("/dev/null")  # a character device is asked for: here is one
        texts = {
            "slurm.conf": config.slurm_conf(self.place) + self.extra,
            "slurmdbd.conf": config.slurmdbd_conf(self.place),
            "gres.conf": config.gres_conf(self.place),
            "cgroup.conf": config.CGROUP_CONF,
            "plugstack.conf": "",
        }
        for name, text in texts.items():
            (self.folder / "etc" / name).write_text(text)
        (self.folder / "etc/slurmdbd.conf").chmod(0o600)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def _munged(self) -> Daemon:
        folder = self.folder / "munge"
        return self._daemon(
            "munged",
            *("munged", "--foreground", "--force", "--num-threads=10", f"--key-file={folder}/key"),
            *(f"--socket={folder}/s", f"--pid-file={folder}/pid", f"--seed-file={folder}/seed"),
        )

    def _daemon(self, name: str, *words: str) -> Daemon:
        program = shutil.which(words[0], path=PATH) or words[0]
        return Daemon(name, program, *words[1:], env=self.env, log=self.place.log(f"{name}.out"))


def clear_abandoned() -> None:
    """End the labs of processes that are gone, and take their folders away."""
    for folder in Path("/tmp").glob(f"{PREFIX}*"):
        if folder.is_dir() and folder.stat().st_uid == os.geteuid() and _is_abandoned(folder):
            end_marked(str(folder / "etc/slurm.conf"))
            shutil.rmtree(folder, ignore_errors=True)


def _is_lost(state: str) -> bool:
    return state.endswith("*") or state == "down"


def _is_abandoned(folder: Path) -> bool:
    try:
        said = (folder / "owner").read_text()
        return bool(said) and _owner(int(said.split()[0])) != said
    except psutil.NoSuchProcess:
        return True
    except OSError:  # just being made, or just going
        return False


def _owner(pid: int) -> str:
    """A process for good: its number may be another one's later."""
    return f"{pid} {psutil.Process(pid).create_time():.2f}"


def _plugins() -> Path:
    found = plugins()
    assert found is not None
    return found


def _environment(conf: Path) -> dict[str, str]:
    """Of this process, without what would change Slurm's commands."""
    prefixes = ("SLURM", "SBATCH", "SQUEUE", "SACCT", "SINFO", "SALLOC", "SRUN", "SCANCEL", "SCONTROL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return {**kept, "PATH": PATH, "SLURM_CONF": str(conf)}
