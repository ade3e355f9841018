"""`hostler init`: a fleet file from the machines that are found, and what follows it."""

from __future__ import annotations

import http.server
import os
import pty
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from hostler.agent import probe
from hostler.backends.slurm.parsing import END, NODE_FIELDS, SEPARATOR
from hostler.runtime import surveying
from tests.agent.toolbox import put
from tests.integration.cards import Cards
from tests.integration.conftest import Said, a_fleet, typed, until
from tests.patience import PATIENCE_S

CONFIG = """
Host rig-1 rig-2
  User miner
Host "odd one"
  HostName 192.0.2.9
Host *.example.org
  User someone
"""

Init = Callable[..., Said]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with an ssh configuration, in a shell without GPUs, Slurm and Ray."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh/config").write_text(CONFIG)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:9")
    for name in ("RAY_API_SERVER_ADDRESS", "CUDA_VISIBLE_DEVICES", "HOSTLER_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    hide(tmp_path / "bin", "sinfo")
    return folder


@pytest.fixture
def init(home: Path) -> Init:
    return lambda *words: typed("init", *words, cwd=home)


def hide(folder: Path, program: str) -> None:
    """A program that fails, in front of a real one."""
    put(folder, program, "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2\nexit 1\n")


def nodes(file: Path) -> list[dict[str, object]]:
    return list(yaml.safe_load(file.read_text())["nodes"])


def test_init_writes_this_machine_and_the_hosts_that_are_named(init: Init, home: Path, tmp_path: Path) -> None:
    said = init("--ssh", "rig-2", "--ssh", "ann@192.0.2.7")
    assert said.status == 0, said.err
    cpus = probe.cpus()
    first, blank, *rest = said.out.splitlines()
    assert first == f"fleet.yaml: this machine ({cpus} CPU{'s' * (cpus > 1)}), rig-2 over SSH, ann@192.0.2.7 over SSH"
    assert [blank, *(line.split("#")[0].rstrip() for line in rest)] == [
        *["", "Next:", "  hostler node trust fleet.yaml", "  hostler doctor fleet.yaml", "  hostler up fleet.yaml"]
    ]
    assert "note: sinfo is here and did not answer: slurm_load_partitions: Unable to contact" in said.err
    text = (home / "fleet.yaml").read_text()
    assert "# No GPU was found" in text
    assert "# Further hosts of your ssh configuration: rig-1" in text
    assert nodes(home / "fleet.yaml") == [
        {"name": "here"},
        {"name": "rig-2", "backend": "ssh"},
        {"name": "192.0.2.7", "backend": "ssh", "host": "192.0.2.7", "user": "ann"},
    ]
    checked = typed("check", "fleet.yaml", "--offline", cwd=home)
    assert (checked.status, checked.out.splitlines()[-1]) == (0, "good: 0 jobs, 0 sweeps, 0 training configs")
    assert max(map(len, text.splitlines())) <= 120


def test_init_never_overwrites_a_file(init: Init, home: Path) -> None:
    (home / "fleet.yaml").write_text("mine")
    said = init()
    assert (said.status, said.out) == (2, "")
    assert "fleet.yaml is there already and is not overwritten. Give another name: hostler init other.yaml" in said.err
    assert (home / "fleet.yaml").read_text() == "mine"
    (home / "link.yaml").symlink_to(home / "nowhere")
    assert init("link.yaml").status == 2
    assert not (home / "nowhere").exists()
    assert "there is no folder" in init("none/fleet.yaml").err
    assert init("other.yaml").status == 0


def test_init_writes_the_cards_that_the_driver_reports(
    init: Init, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Cards(tmp_path / "cards").tools
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    said = init()
    assert said.status == 0, said.err
    assert said.out.startswith("fleet.yaml: this machine (2 x Fake 4090 24 GB, ")
    text = (home / "fleet.yaml").read_text()
    assert "  # GPU 0: Fake 4090, 24 GB\n  # GPU 1: Fake 4090, 24 GB\n" in text
    assert "    # gpus: {exclude: [0]} " in text
    (home / "without.yaml").write_text(text.replace("    # gpus: {exclude: [0]} ", "    gpus: {exclude: [0]} "))
    assert typed("check", "without.yaml", "--offline", cwd=home).status == 0


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("rig-3", "--ssh 'rig-3' is not a host of your ssh configuration"),
        ("rig-3", "did you mean 'rig-"),
        ("a b@c d", "Give a host of it, or USER@ADDRESS"),
        ("", "--ssh '' is not a host"),
        ("-oProxyCommand=x@y", "is not a host of your ssh configuration"),
    ],
)
def test_host_that_is_unknown_is_an_error_and_nothing_is_written(
    init: Init, home: Path, word: str, message: str
) -> None:
    said = init("--ssh", word)
    assert said.status == 2
    assert message in said.err
    assert not (home / "fleet.yaml").exists()


def test_init_asks_for_hosts_on_a_terminal(init: Init, home: Path) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        process = subprocess.Popen(
            [sys.executable, "-m", "hostler", "init"], cwd=home, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        terminal.write(b"rig-1, rig-2\n")
        shown = b""
        while True:
            try:
                piece = terminal.read(4096)
            except OSError:  # the other end is closed
                break
            shown += piece
        assert process.wait(PATIENCE_S) == 0, shown
    assert b"Hosts of your ssh configuration: rig-1 rig-2" in shown
    assert [node["name"] for node in nodes(home / "fleet.yaml")] == ["here", "rig-1", "rig-2"]


def sinfo_row(node: str, partition: str, gres: str, **more: str) -> str:
    """What `sinfo -O` prints of a node in a partition."""
    values = {"NodeList": node, "Partition": partition, "Available": "up", "StateLong": "idle", "Gres": gres}
    values |= {
        "CPUsState": "0/8/0/8",
        "Memory": "1000",
        "AllocMem": "0",
        "GresUsed": "gpu:0",
        "Time": "1:00:00",
        **more,
    }
    return "".join(f"{values.get(name, 'none')}{SEPARATOR}" for name in NODE_FIELDS) + END + "\n"


def test_init_writes_the_partitions_that_sinfo_reports(init: Init, home: Path, tmp_path: Path) -> None:
    found = [("n1", "gpu*", "gpu:h100:4(S:0-1)"), ("n2", "gpu*", "gpu:h100:4"), ("c1", "cpu+eval", "(null)")]
    (tmp_path / "rows").write_text("".join(sinfo_row(*each) for each in found))
    put(tmp_path / "bin", "sinfo", f"cat {tmp_path}/rows\n")
    said = init()
    assert said.status == 0, said.err
    assert "2 Slurm partitions" in said.out
    assert "  hostler slurm check fleet.yaml " in said.out
    text = (home / "fleet.yaml").read_text()
    assert "  # gpu: 2 nodes, 8 x h100\n" in text
    made = yaml.safe_load(text)
    assert made["classes"] == {"cluster": {"backend": "slurm", "slurm": {"shared_root": str(home)}}}
    assert made["nodes"][1:] == [
        {"name": "gpu", "class": "cluster"},
        {"name": "cpu-eval", "partition": "cpu+eval", "class": "cluster"},
    ]
    assert typed("check", "fleet.yaml", "--offline", cwd=home).status == 0


def test_init_comments_out_partitions_that_start_no_job(init: Init, home: Path, tmp_path: Path) -> None:
    rows = [
        sinfo_row("n1", "good", "(null)"),
        sinfo_row("n2", "good", "(null)", StateLong="drained"),
        sinfo_row("n3", "closed", "(null)", Available="inact"),
        sinfo_row("n4", "off", "(null)", Available="down"),
        sinfo_row("n5", "drain", "gpu:h100:4", StateLong="drained", Reason="fan: 0 rpm"),
        sinfo_row("n6", "drain", "gpu:h100:4", StateLong="down*"),
    ]
    (tmp_path / "rows").write_text("".join(rows))
    put(tmp_path / "bin", "sinfo", f"cat {tmp_path}/rows\n")
    said = init()
    assert "4 Slurm partitions (3 of them as a comment: no job can start there now)" in said.out
    text = (home / "fleet.yaml").read_text()
    assert [node["name"] for node in yaml.safe_load(text)["nodes"]] == ["here", "good"]
    assert "  # good: 2 nodes, no GPUs, 1 of them not usable now\n" in text
    assert "now: the partition is INACTIVE\n  # - {name: closed, class: cluster}\n" in text
    assert "now: the partition is DOWN\n  # - {name: " in text
    assert "now: n5 is drained (fan: 0 rpm), n6 is down\n  # - {name: drain, class: cluster}\n" in text
    assert typed("check", "fleet.yaml", "--offline", cwd=home).status == 0
    (tmp_path / "rows").write_text("".join(rows[2:]))
    assert init("other.yaml").status == 0
    assert [node["name"] for node in yaml.safe_load((home / "other.yaml").read_text())["nodes"]] == ["here"]
    assert typed("check", "other.yaml", "--offline", cwd=home).status == 0


class Dashboard(http.server.BaseHTTPRequestHandler):
    """The dashboard of a Ray cluster, as far as its version."""

    answer = b'{"ray_version": "2.44.0"}'

    def do_GET(self) -> None:
        assert self.path == "/api/version"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def dashboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Dashboard) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("RAY_API_SERVER_ADDRESS", address)
        yield address
        server.shutdown()
        thread.join()


def test_ray_cluster_of_this_machine_is_a_comment(init: Init, home: Path, dashboard: str) -> None:
    said = init()
    assert f"Ray at {dashboard} (as a comment)" in said.out
    text = (home / "fleet.yaml").read_text()
    assert f"# The Ray cluster at {dashboard} (Ray 2.44.0)." in text
    assert nodes(home / "fleet.yaml") == [{"name": "here"}]


def test_answer_that_is_not_of_ray_is_passed_over(
    init: Init, home: Path, dashboard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dashboard, "answer", b"<html>hello</html>" * 10_000)
    assert init().status == 0
    assert "Ray" not in (home / "fleet.yaml").read_text()


def test_controller_starts_from_the_file_that_init_has_written(init: Init, home: Path, tmp_path: Path) -> None:
    assert init().status == 0
    folder = tmp_path / "fleet"
    folder.mkdir()
    with a_fleet(folder) as made:
        made.file = home / "fleet.yaml"
        made.start()
        assert [node["name"] for node in made.client.nodes()] == ["here"]


def test_init_leaves_no_process_and_no_folder_behind(
    init: Init, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    assert init().status == 0
    words = f"{own}/hostler-init-".encode()
    until(lambda: not any(words in _read(line) for line in Path("/proc").glob("[0-9]*/cmdline")), "the agent's end")
    assert list(own.iterdir()) == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_host_with_the_name_of_another_node_keeps_its_address(init: Init, home: Path) -> None:
    (home / ".ssh/config").write_text("Host here\n  HostName 192.0.2.1\nHost rig\n  HostName 192.0.2.2\n")
    assert init("--ssh", "here", "--ssh", "root@rig.example.org", "--ssh", "rig").status == 0
    made = nodes(home / "fleet.yaml")
    assert made[1] == {"name": "here-2", "backend": "ssh", "host": "here"}
    assert [node["name"] for node in made] == ["here", "here-2", "rig.example.org", "rig"]
    assert typed("check", "fleet.yaml", "--offline", cwd=home).status == 0


@pytest.mark.parametrize("address", ["http://[::1", "http://x:99999", "http://a b/", "http://user:secret@127.0.0.1:9"])
def test_address_of_ray_that_is_none_is_passed_over(
    init: Init, home: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert init().status == 0
    assert "secret" not in (home / "fleet.yaml").read_text()


def test_sinfo_that_prints_without_end_or_garbage_is_a_note(
    init: Init, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "SINFO_MAX", 1 << 20)
    put(tmp_path / "bin", "sinfo", "exec yes\n")
    said = init("one.yaml")
    assert (said.status, "gave no answer of at most 1 MiB" in said.err) == (0, True)
    put(tmp_path / "bin", "sinfo", f"printf 'what is this{END}\\n'\n")
    said = init("two.yaml")
    assert (said.status, "lines that were not understood" in said.err) == (0, True)
