"""One host: namespaces, an SSH server, a disk, GPUs that somebody made up, and everything that can befall it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.backends.ssh import sshd
from tests.lab.disks import Disk
from tests.lab.network import Place, firewall, plug_in
from tests.lab.tools import command, succeeds, until
from tests.patience import PATIENCE_S

HERE = Path(__file__).parent
PORT = 22
ANSWER_S = 5.0
"""Until its server says something; then it is asked again."""
LAB, HOME = "/run/lab", "/mnt/home"
"""What a host calls the folder of its settings, and its user's home."""
PYTHON = os.path.realpath(sys.executable)
"""An interpreter without anything of this project."""
INIT = """
set -e
hostname {name}
mount --bind {folder}/boot_id /proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir -p /run/sshd {lab}
mount --bind {folder} {lab}
mount --bind {folder}/disk /mnt
mount --bind /mnt/tmp /tmp
set +e
while :; do
    [ -e {lab}/no-sshd ] || {sshd} -D -e -f {lab}/sshd.conf
    sleep 0.1
done
"""
"""Process 1 of a host: it keeps the server up, and reaps."""


@dataclass(frozen=True)
class Gpu:
    """What `nvidia-smi` tells of a card."""

    model: str
    memory_mib: int = 8192


class Host:
    """A machine of its own as far as SSH, processes, files and the network go; `below` gets a folder for it.

    Its `clock` can be set only where it is asked for: every Python on the host has to be told.
    """

    def __init__(self, place: Place, below: Path, gpus: Sequence[Gpu] = (), *, clock: bool = False) -> None:
        self.place = place
        self._has_clock = clock
        self.name = f"rig-{place.at}"
        self.folder = below / self.name
        self._init: subprocess.Popen[bytes] | None = None
        self._prepare(below, gpus)

    @property
    def home(self) -> Path:
        """The home of its user, seen from here."""
        return self.folder / "disk" / "home"

    def settings(self, identity: Path) -> dict[str, object]:
        """The node of a fleet file."""
        return {
            "name": self.name,
            "backend": "ssh",
            "host": self.place.address,
            "port": PORT,
            "user": "root",
            "identity": str(identity),
            "python": PYTHON,
        }

    def plug_in(self) -> None:
        """Make its network, with a link to the bridge."""
        plug_in(self.place)

    def start(self) -> None:
        """Switch it on: another boot, with what is on its disk."""
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        self._new_boot()

    def wait_for_sshd(self) -> None:
        """Until its server answers."""
        until(self._answers, f"{self.name} answers: {(self.folder / 'log').read_text()[-1000:]}")

    def power_off(self) -> None:
        """End all of its processes at once. Its kernel being this machine's, connections end with a reset."""
        if self._init is None:
            return
        left = self.processes()
        self._init.kill()  # process 1 dies with it, and the kernel ends the others
        self._init.wait()
        psutil.wait_procs(left, PATIENCE_S)
        self._init = None

    def reboot(self) -> None:
        """All processes gone, and another boot."""
        self.power_off()
        self.start()
        self.wait_for_sshd()

    def destroy(self) -> None:
        """Another machine comes in its place: everything that ran is gone, and all that was on its disk."""
        self.power_off()
        for name in ("home", "tmp"):
            shutil.rmtree(self.folder / "disk" / name)
            (self.folder / "disk" / name).mkdir()
        self.start()
        self.wait_for_sshd()

    def close(self) -> None:
        """Take it away."""
        self.power_off()

    def processes(self, *words: str) -> list[psutil.Process]:
        """What runs on it and has these words in its command line."""
        return [each for each in self._all() if all(word in _line(each) for word in words)]

    def kill(self, *words: str) -> int:
        """`kill -9` what has these words in its command line; how many that were."""
        found = self.processes(*words)
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(found, PATIENCE_S)
        return len(found)

    def kill_agent(self) -> int:
        """The waiter, the keeper and the supervisor, at once: what ends then is lost."""
        return self.kill("agent-", ".pyz")

    def kill_supervisor(self) -> int:
        """The supervisor alone, which its keeper starts again; how many that were."""
        found = self.processes("agent-", ".pyz")
        parents: dict[int, psutil.Process] = {}
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                parents[process.ppid()] = process
        for process in parents.values():  # a waiter's child is a keeper, and a keeper's a supervisor
            if process.pid not in parents and any(process.ppid() == each.pid for each in found):
                process.kill()
                return 1
        return 0

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """The cable is out: nothing goes through, and both sides' cards know."""
        command("ip", "link", "set", self.place.name, "down")
        try:
            yield
        finally:
            command("ip", "link", "set", self.place.name, "up")

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Packets are dropped both ways, without a word to anybody: connections look whole from both ends."""
        firewall(self.place, "add table inet cut")
        for hook in ("input", "output"):
            firewall(self.place, f"add chain inet cut {hook} {{ type filter hook {hook} priority -300; policy drop; }}")
        try:
            yield
        finally:
            firewall(self.place, "delete table inet cut")

    @contextmanager
    def slow(self, bits_per_s: float, delay_s: float) -> Iterator[None]:
        """Every packet takes its time, and its turn."""
        name, near, far = self.place.name, f"{self.place.name}a", f"{self.place.name}b"
        command("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        for each in (near, far):
            command("ip", "link", "set", each, "up")
        wire = subprocess.Popen(
            [sys.executable, HERE / "wire.py", self.place.name, far, str(bits_per_s), str(delay_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert wire.stdout is not None
            assert wire.stdout.readline() == b"ready\n"
            command("ip", "link", "set", name, "nomaster")
            command("ip", "link", "set", near, "master", self.place.bridge)
            yield
        finally:
            wire.communicate()
            command("ip", "link", "del", near)
            command("ip", "link", "set", name, "master", self.place.bridge)

    @contextmanager
    def without_sshd(self) -> Iterator[None]:
        """The server and all its connections are gone; what they have started runs on."""
        (self.folder / "no-sshd").touch()
        self._kill_sshd()
        try:
            yield
        finally:
            (self.folder / "no-sshd").unlink()
            self.wait_for_sshd()

    @contextmanager
    def other_key(self) -> Iterator[None]:
        """It shows another host key, as if somebody stood in between; connections of before are gone."""
        key, kept = self.folder / "host", self.folder / "host.kept"
        shutil.copy(key, kept)
        key.unlink()
        _make_key(key)
        self._kill_sshd()
        self.wait_for_sshd()
        try:
            yield
        finally:
            kept.replace(key)
            self._kill_sshd()
            self.wait_for_sshd()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Nothing more can be written."""
        with self.disk.full():
            yield

    @contextmanager
    def wrong_clock(self, by_s: int) -> Iterator[None]:
        """Its clock is this far ahead of everybody else's."""
        assert self._has_clock, "a host has a clock of its own only if that is asked for"
        (self.folder / "clock").write_text(str(by_s))
        try:
            yield
        finally:
            (self.folder / "clock").write_text("0")

    def _prepare(self, below: Path, gpus: Sequence[Gpu]) -> None:
        for name in ("bin", "site"):
            (self.folder / name).mkdir(parents=True)
        self.disk = Disk(self.folder / "disk", self.place.name)
        for name in ("home", "tmp"):
            (self.folder / "disk" / name).mkdir()
        shutil.copy(below / "client.pub", self.folder)
        _make_key(self.folder / "host")
        (self.folder / "sshd.conf").write_text("\n".join(self._sshd_lines()) + "\n")
        (self.folder / "clock").write_text("0")
        shutil.copy(HERE / "clock.py", self.folder / "site" / "sitecustomize.py")
        if gpus:
            self._put_in(gpus)

    def _put_in(self, gpus: Sequence[Gpu]) -> None:
        program = self.folder / "bin" / "nvidia-smi"
        program.write_text(f"#!{PYTHON} -S\n{(HERE / 'nvidia_smi.py').read_text()}")
        program.chmod(0o755)
        rows = [f"{at}|{gpu.model}|{gpu.memory_mib}|GPU-{self.name}-{at}" for at, gpu in enumerate(gpus)]
        (self.folder / "gpus").write_text("".join(f"{row}\n" for row in rows))

    def _sshd_lines(self) -> Iterator[str]:
        yield from (f"Port {PORT}", f"ListenAddress {self.place.address}", f"HostKey {LAB}/host", "PidFile none")
        yield from (f"AuthorizedKeysFile {LAB}/client.pub", "StrictModes no", "UsePAM no", "PermitRootLogin yes")
        yield from ("PasswordAuthentication no", "KbdInteractiveAuthentication no", "UseDNS no")
        yield from ("MaxStartups 100:30:200", "Subsystem sftp internal-sftp")
        env = {"HOME": HOME, "PATH": f"{LAB}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LAB_GPUS": f"{LAB}/gpus"}
        if self._has_clock:
            env |= {"PYTHONPATH": f"{LAB}/site", "LAB_CLOCK": f"{LAB}/clock"}
        yield "SetEnv " + " ".join(f"{name}={value}" for name, value in env.items())

    def _new_boot(self) -> None:
        enter = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net=/run/netns/{self.place.name}"]
        spaces = ["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
        script = INIT.format(
            name=self.name, folder=shlex.quote(str(self.folder)), lab=LAB, sshd=shlex.quote(sshd.BINARY)
        )
        with (self.folder / "log").open("ab") as log:
            # Should this process be killed, its hosts die with it.
            self._init = subprocess.Popen(
                [*enter, "unshare", *spaces, "/bin/sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )

    def _answers(self) -> bool:
        assert self._init is not None
        assert self._init.poll() is None, (self.folder / "log").read_text()
        with contextlib.suppress(OSError), socket.create_connection((self.place.address, PORT), ANSWER_S) as peer:
            return peer.recv(4) == b"SSH-"
        return False

    def _kill_sshd(self) -> None:
        found = [each for each in self._all() if _name(each).startswith("sshd")]
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(found, PATIENCE_S)

    def _all(self) -> list[psutil.Process]:
        """Every process of it but the first."""
        assert self._init is not None
        try:
            first = psutil.Process(self._init.pid).children()
        except psutil.NoSuchProcess:
            return []
        space = _space(first[0].pid) if first else None
        found = []
        for pid in psutil.pids() if space else ():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since it was listed
                if pid != first[0].pid and _space(pid) == space:
                    found.append(psutil.Process(pid))
        return found


def no_firewall() -> str | None:
    """Why packets cannot be dropped here; `None`: they can."""
    if shutil.which("nft") is None:
        return "nft not found, which drops packets; `apt-get install nftables` brings it"
    return None if succeeds("nft", "list", "tables") else "this kernel has no nftables, which drops packets"


def _make_key(path: Path) -> None:
    command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "host", "-f", str(path))


def _space(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:  # gone
        return None


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""
