"""docs/guides/slurm.md makes a cluster: its files and commands are taken from it and used, in their order.

Seven machines are one here, without systemd and GPUs, so some lines become others (`_settings`, `_folders`,
`_commands`), and some commands are left out (`LEFT_OUT`). All of them are named, and none may be there for nothing.
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.slurm import database
from tests.slurm.config import CONTROLLER_PORT, DATABASE_PORT, DBD_PORT, NODE_PORT, NODES
from tests.slurm.daemons import Daemon, until
from tests.slurm.lab import PATH, Lab, available

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/slurm.md"
BLOCK = re.compile(r"^```(\w+)[ ]?(.*?)\n(.*?)^```$", re.M | re.S)
LACKING = available(accounting=True)
WITHIN_S = 300.0

LEFT_OUT = {
    "packages": "they are here already, or there is no Slurm and no test",
    "machines": "nothing is copied from one machine to another where there is only one, and users are not root",
    "gpu": "there is no GPU, and no nvidia-smi",
    "index": "a test fetches nothing from the network",
    "hostler": "its own tests show what it does with a cluster",
}


@dataclass(frozen=True)
class Block:
    """One fenced block: `ini` files, `sh` commands, or the `text` that the commands before it print."""

    language: str
    what: dict[str, str]
    text: str
    line: int


@dataclass
class Words:
    """What stands in the guide, and what stands for it here; all of it has to be used."""

    pairs: dict[str, str]
    used: set[str] = field(default_factory=set)

    def __call__(self, text: str) -> str:
        for old, new in self.pairs.items():
            if old in text:
                self.used.add(old)
                text = text.replace(old, new)
        return text

    @property
    def unused(self) -> set[str]:
        return set(self.pairs) - self.used


def blocks() -> list[Block]:
    text = GUIDE.read_text()
    found = []
    for match in BLOCK.finditer(text):
        what = dict(word.split("=", 1) for word in match[2].split())
        found.append(Block(match[1], what, match[3], text.count("\n", 0, match.start()) + 1))
    return found


def test_every_block_is_used_or_left_out_for_a_reason() -> None:
    kinds = {"sh": {"run", "start", "skip"}, "ini": {"file"}, "text": set[str]()}
    for block in blocks():
        assert set(block.what) <= kinds[block.language], f"line {block.line}"
        assert len(block.what) == (block.language != "text"), f"line {block.line}"
    reasons = {block.what["skip"] for block in blocks() if "skip" in block.what}
    assert reasons == set(LEFT_OUT)


@pytest.mark.slurm
@pytest.mark.skipif(LACKING is not None, reason=LACKING or "")
def test_the_guide_makes_a_cluster() -> None:
    with _new() as lab:
        settings, folders, commands = _settings(lab), _folders(lab), _commands(lab)
        said = ""
        for block in blocks():
            where = f"{GUIDE.name}, line {block.line}"
            if "file" in block.what:
                _write(lab, block.what["file"], folders(settings(block.text)))
            elif "start" in block.what:
                _start(lab, block.text)
            elif "run" in block.what:
                done = lab.run("bash", "-euo", "pipefail", "-c", commands(folders(block.text)), within_s=WITHIN_S)
                assert done.returncode == 0, f"{where}: {done.stderr}\n{lab.logs()}"
                said = done.stdout
            elif block.language == "text":
                assert said.splitlines() == block.text.splitlines(), f"{where}\n{lab.logs()}"
        assert [words.unused for words in (settings, folders, commands)] == [set(), set(), set()]


class _new:
    """A lab with empty hands: its files come from the guide."""

    def __enter__(self) -> Lab:
        self.lab = Lab(accounting=True)
        for name in ("slurm.conf", "slurmdbd.conf", "gres.conf", "cgroup.conf"):
            (self.lab.folder / "etc" / name).unlink()
        (self.lab.folder / "shared").mkdir()
        return self.lab

    def __exit__(self, *_: object) -> None:
        self.lab.close()


def _settings(lab: Lab) -> Words:
    """One machine plays all: it has ports for names, an ordinary user's rights, no cgroups, fewer cores."""
    nodes = {
        f"NodeName={name} CPUs": f"NodeName={name} NodeHostname={lab.place.host} NodeAddr=127.0.0.1 Port={ports} CPUs"
        for name, ports in _ports(lab)
    }
    here = {
        "ReturnToService=1": "ReturnToService=1\nSlurmdParameters=config_overrides",
        "proctrack/cgroup": "proctrack/linuxproc",
        "task/affinity,task/cgroup": "task/none",
        "jobacct_gather/cgroup": "jobacct_gather/linux",
        "CgroupPlugin=cgroup/v2": "CgroupPlugin=cgroup/v1",
        "innodb_buffer_pool_size = 1G": "innodb_buffer_pool_size = 64M",
    }
    return Words({**_addresses(lab), **here, **nodes})


def _addresses(lab: Lab) -> dict[str, str]:
    place = lab.place
    user, munge, dbd = place.user, place.munge, place.port + DBD_PORT
    controller = f"SlurmctldHost={place.host}(127.0.0.1)\nSlurmctldPort={place.port + CONTROLLER_PORT}"
    plugins = f"PlugStackConfig={lab.folder}/etc/plugstack.conf"
    storage = "StorageHost=127.0.0.1\n"
    return {
        "SlurmctldHost=head": controller,
        "SlurmUser=slurm": f"SlurmUser={user}\nAuthInfo=socket={munge}\nPluginDir={place.plugins}",
        "StateSaveLocation=": f"SlurmdUser={user}\n{plugins}\nStateSaveLocation=",
        "AccountingStorageHost=head": f"AccountingStorageHost=127.0.0.1\nAccountingStoragePort={dbd}\n"
        f"AccountingStoragePass={munge}",
        "DbdHost=head": f"DbdHost={place.host}\nDbdAddr=127.0.0.1\nDbdPort={dbd}",
        f"{storage}StorageUser": f"{storage}StoragePort={place.port + DATABASE_PORT}\nStorageUser",
    }


def _ports(lab: Lab) -> Iterator[tuple[str, str]]:
    first = lab.place.port + NODE_PORT
    ports = {node.name: first + at for at, node in enumerate(NODES)}
    yield "gpu-h[1-2]", f"[{ports['gpu-h1']}-{ports['gpu-h2']}]"
    yield "gpu-a1", str(ports["gpu-a1"])
    yield "gh-1", str(ports["gh-1"])
    yield "cpu-[1-2]", f"[{ports['cpu-1']}-{ports['cpu-2']}]"


def _folders(lab: Lab) -> Words:
    folder = lab.folder
    return Words(
        {
            "/etc/munge/munge.key": f"{folder}/munge/key",
            "/etc/slurm": f"{folder}/etc",
            "/var/spool/slurmctld": f"{folder}/state",
            "/var/spool/slurmd": f"{folder}/spool.%n",
            "/run/slurmd.pid": f"{folder}/run/slurmd.%n.pid",
            "/run/": f"{folder}/run/",
            "/var/log/slurm/slurmd.log": f"{folder}/log/slurmd.%n.log",
            "/var/log/slurm": f"{folder}/log",
            "File=/dev/nvidia": f"File={folder}/dev/nvidia",
            "/shared": f"{folder}/shared",
        }
    )


def _commands(lab: Lab) -> Words:
    munge = f"--socket={lab.place.munge}"
    return Words(
        {
            "munge --no-input | unmunge": f"munge --no-input {munge} | unmunge {munge}",
            "mariadb -e": f"mariadb --no-defaults -uroot --socket={lab.folder}/db.s -e",
            "install -d -o slurm -g slurm": "install -d",
            "user hostler": f"user {lab.place.user}",
        }
    )


def _write(lab: Lab, name: str, text: str) -> None:
    path = lab.folder / "etc" / name
    path.write_text(text)
    if name == "slurmdbd.conf":
        path.chmod(0o600)


def _start(lab: Lab, commands: str) -> None:
    """What systemd would start: the last word of each line."""
    for line in commands.splitlines():
        assert re.fullmatch(r"systemctl (restart|enable --now) \w+", line), line
        unit = line.split()[-1]
        if unit == "munge":
            lab.start_munged()
        elif unit == "mariadb":
            _start_mariadb(lab)
        elif unit == "slurmdbd":
            lab.slurmdbd.start()  # which no command can ask yet: all of them read slurm.conf
            until(lambda: _listens(lab.place.port + DBD_PORT), "slurmdbd listens", WITHIN_S, lab.logs)
        elif unit == "slurmctld":
            lab.start_slurmctld()
        else:
            assert unit == "slurmd"
            for slurmd in lab.slurmds.values():
                slurmd.start()
            lab.wait_idle()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _start_mariadb(lab: Lab) -> None:
    database.install(lab)
    others = [word for word in database.words(lab.place)[1:] if not word.startswith(("--no-defaults", "--innodb"))]
    program = shutil.which("mariadbd", path=PATH) or "mariadbd"
    words = (program, f"--defaults-file={lab.folder}/etc/mariadb.cnf", *others, "--innodb-flush-method=nosync")
    lab.mariadbd = Daemon("mariadbd", *words, env=lab.env, log=lab.mariadbd.log)
    lab.start_mariadbd()
