"""`hostler train` in front of made-up configs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.cli import completing
from hostler.cli.completing import complete_config
from hostler.model import codec
from tests.cli.conftest import Hostler
from tests.test_client import announce
from tests.web.core_desk import Window, window
from tests.web.loops import LoopDesk, busy, empty, losing

SHOWN = ["train list", "train history hex8_2p", "train history square8_2p", "train history old", "model list hex8_2p"]


@pytest.fixture
def desk() -> LoopDesk:
    return LoopDesk(busy("hex8_2p"), empty("square8_2p"), losing("old"))


@pytest.fixture
def served(desk: LoopDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    """Three configs: one has learnt, one has nothing yet, one gets worse and uses hostile words."""
    for name, value in {"HOSTLER_STATE_DIR": str(tmp_path / "state"), "COLUMNS": "80", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    with window(desk) as made:
        announce(tmp_path / "state", made.port)
        yield made
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("command", SHOWN)
def test_what_is_shown_is_printable_and_fits(hostler: Hostler, command: str) -> None:
    said = hostler(*command.split())
    assert (said.status, said.err) == (0, "")
    assert said.out
    assert all(line.isprintable() and len(line) <= 80 for line in said.out.splitlines())


@pytest.mark.usefixtures("served")
def test_status_is_a_table_of_configs(hostler: Hostler) -> None:
    lines = hostler("train", "list").out.splitlines()
    assert lines[:6] == [
        "CONFIG      GEN      ELO    ELO/DAY  GAMES  GAMES/H  DATA  TRIAL / NEXT",
        "hex8_2p      10  826 ±53  +812 ±157  12.3k      187   21m  LLR 1.23, 37 groups",
        "square8_2p    ?        ?          ?      0        ?     ?",
        "    training: there is no model yet",
        "old           4  180 ±60    -42 ±78  12.3k      187   56h",
        "    export rests: x\\x1b[2J\\n</title><script>alert(1)</script>\\u202e; rm -rf ~",
    ]
    told = "\n".join(lines[6:])
    assert "hex8_2p: trial of " in told
    assert "37 groups, score 0.554, LLR 1.23 in" in told
    assert "(-2.94, 2.94)" in told
    assert "square8_2p: training: there is no model yet" in told
    assert "old: retired: export rests: x\\x1b" in told
    assert "after 3 failures" in told


def test_json_holds_the_views(served: Window, desk: LoopDesk, hostler: Hostler) -> None:
    assert hostler("train", "list", "--json").json == [codec.plain(each) for each in desk.configs()]
    assert hostler("train", "history", "old", "--json").json == codec.plain(desk.history("old"))
    assert hostler("model", "list", "old", "--json").json == [codec.plain(each) for each in desk.models("old")]


@pytest.mark.usefixtures("served")
def test_history_draws_the_rating_and_lists_the_models(hostler: Hostler) -> None:
    lines = hostler("train", "history", "hex8_2p").out.splitlines()
    assert lines[0].startswith("hex8_2p: model 10 (")
    assert lines[0].endswith("Elo 826, 95 % in [773, 879], from 200 games")
    assert lines[1] == "+812 Elo/day, 95 % in [+655, +970]"
    picture = lines[3 : lines.index("", 3)]
    assert sum(line.count("●") for line in picture) == 8
    assert sum(line.count("▲") for line in picture) == 7
    assert [name for line in picture for name in ("mc-200", "greedy", "random") if line.endswith(name)] == [
        "mc-200",
        "greedy",
        "random",
    ]
    assert picture[-1].split() == ["2025-06-15", "12:30", "2025-06-15", "22:30"]
    titles = next(line for line in lines if "VERDICT" in line)
    assert titles.split() == ["#", "MODEL", "VERDICT", "ELO", "POLICY", "VALUE", "WHY"]
    below = [line for line in lines[lines.index(titles) + 1 :] if not line.startswith("    ")]
    rows = {line.split()[0]: line.split()[2:] for line in below[:12]}
    assert rows["*10"][:5] == ["promoted", "826", "±53", "3.30→3.10", "0.560→0.540"]
    assert rows["8"][:5] == ["rejected", "688", "±57", "3.46→3.26", "0.580→0.560"]
    assert rows["0"][:5] == ["promoted", "0", "±235", "-", "-"]
    assert rows["11"] == ["candidate", "?", "3.22→3.02", "0.550→0.530"]


@pytest.mark.usefixtures("served")
def test_what_is_not_known_yet_is_said(hostler: Hostler) -> None:
    assert hostler("train", "history", "square8_2p").out.splitlines() == [
        "square8_2p: no model yet",
        "",
        "no model has been rated yet",
        "",
        "no models yet",
        "square8_2p: training: there is no model yet",
    ]


def test_no_configs_are_no_error_but_no_report_either(
    served: Window, desk: LoopDesk, hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    desk.histories.clear()
    assert hostler("train", "list").out == "no training configs; a fleet file asks for them under `configs:`\n"
    said = hostler("train", "report")
    assert (said.status, said.err) == (
        2,
        "hostler: error: no training configs; a fleet file asks for them under `configs:`\n",
    )
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    "command", ["train history chess", "train report chess", "model list chess", "model play chess"]
)
def test_an_unknown_config_is_refused(hostler: Hostler, command: str) -> None:
    said = hostler(*command.split())
    assert said.status == 2
    assert "there is no training config 'chess'" in said.err


@pytest.mark.usefixtures("served")
def test_a_report_is_written_as_a_whole(hostler: Hostler, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    said = hostler("train", "report", "square8_2p", "hex8_2p", "hex8_2p", "-o", str(file))
    assert (said.status, said.out) == (0, f"{file} written\n")
    text = file.read_text(encoding="utf-8")
    assert text.index('<section id="square8_2p">') < text.index('<section id="hex8_2p">')
    assert text.count("<section") == 2
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]


@pytest.mark.long
@pytest.mark.usefixtures("served")
def test_a_report_of_all_configs_takes_the_place_of_another(hostler: Hostler, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("another")
    said = hostler("train", "report", "-o", str(file), "--json")
    assert said.json == {"file": str(file), "bytes": file.stat().st_size}
    assert file.read_text(encoding="utf-8").count("<section") == 3
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]


@pytest.mark.usefixtures("served")
def test_a_report_that_cannot_be_written_says_where(hostler: Hostler, tmp_path: Path) -> None:
    said = hostler("train", "report", "square8_2p", "-o", str(tmp_path / "nowhere" / "page.html"))
    assert said.status == 2
    assert "nowhere/page.html cannot be written (No such file or directory); choose another file" in said.err


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_its_libraries_a_report_names_the_extra(
    hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("hostler.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    said = hostler("train", "report", "-o", str(tmp_path / "page.html"))
    assert said.status == 2
    assert f"a report needs {missing}, which is not installed" in said.err
    assert "pip install 'hostler[report]'" in said.err


def test_shell_completion_knows_configs(served: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "TIMEOUT_S", 60.0)  # how long a shell waits is not what is tried here

    assert complete_config("s", {"state_dir": tmp_path / "state"}) == ["square8_2p"]
    assert complete_config("s", {"state_dir": tmp_path / "nowhere"}) == []


def test_check_shows_training_configs(hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "fleet.yaml"
    file.write_text("configs:\n- name: hex8_2p\n  evaluation: {groups: 12, max_groups: 24}\n")
    said = hostler("check", str(file))
    lines = said.out.splitlines()
    assert said.status == 0
    assert lines[-1] == "good: 0 jobs, 0 sweeps, 1 training config"
    rows = {line.split()[0]: line.split()[1] for line in lines if len(line.split()) > 1}
    assert rows["configs[0].evaluation.groups"] == "12"
    assert rows["configs[0].evaluation.precision_elo"] == "75.0"
    assert all(len(line) <= 80 for line in lines)
    file.write_text("configs: [{name: chess_2p}]")
    said = hostler("check", str(file))
    assert said.status == 2
    assert f"{file}:1:11: configs[0].params: 'chess_2p' names no board" in said.err
