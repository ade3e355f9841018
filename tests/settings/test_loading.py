"""Fleet files: what they say, what is wrong with them, and where each value comes from."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.model.codec import load_specs, plain
from hostler.model.errors import SettingsError
from hostler.model.work import ScriptPayload, SweepPayload
from hostler.settings import describe, load, specs
from hostler.settings.loading import Loaded

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_text(text: str) -> Path:
        path = tmp_path / "fleet.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_text


def origins(loaded: Loaded) -> dict[str, str]:
    return {setting.path: setting.origin for setting in describe(loaded)}


FAULTS = [
    ("[1]", "1:1", "the whole: should be a mapping (found [1])"),
    ("~", "1:1", "the whole: should be a mapping (found nothing)"),
    ("api:\n  prot: 1\n", "2:3", "api.prot: is no setting; did you mean 'port'? (allowed here: host, port, names,"),
    (
        "colour: red\n",
        "1:1",
        "colour: is no setting (allowed here: name, state_dir, store, api, ssh, dialin, nodes, classes,",
    ),
    ("api: {port: '9'}", "1:13", "api.port: should be a valid integer (found '9')"),
    ("api: {port: true}", "1:13", "api.port: should be a valid integer (found True)"),
    ("api: {port: 70000}", "1:13", "api.port: should be less than or equal to 65535 (found 70000)"),
    ("api: {host: 0.0.0.0}", "1:6", "api: on 0.0.0.0 other machines can connect"),
    ("name: " + "x" * 1_000_000, "1:7", "name: the text should have at most 256 characters (found 'xxx"),
    ("name: 5", "1:7", "name: should be a text (put it in quotes) (found 5)"),
    ("journal:\n", "1:9", "journal: should be a mapping (found nothing)"),
    ("limits: {log_bytes: 0}", "1:21", "limits.log_bytes: should be greater than or equal to 1 (found 0)"),
    ("nodes: 5", "1:8", "nodes: should be a list (found 5)"),
    ("nodes: []", "1:8", "nodes: the list should have at least 1 item, not 0 (found [])"),
    ("nodes:\n- {backend: ssh}", "2:3", "nodes[0].name: is missing"),
    ("nodes:\n- name: a/b\n", "2:9", "nodes[0].name: the text should match pattern"),
    ("nodes: [{name: a, cpu_slots: x}]", "1:30", "nodes[0].cpu_slots: should be 'auto' or a valid integer (found 'x')"),
    ("nodes: [{name: a}, {name: b}, {name: a}]", "1:38", "the name 'a' is used twice; the first is at "),
    ("nodes: [{name: a, env: {A: true}}]", "1:28", "nodes[0].env.A: should be a text or a number (put it in quotes)"),
    ("nodes: [{name: a, env: {A=: x}}]", "1:29", "nodes[0].env.A=: the text should match pattern"),
    ("sweeps:\n- {name: a, worker: [x], range: [0, 2^32]}", "2:37", "sweeps[0].range[1]: cannot be read at '^32'"),
    ("sweeps:\n- {name: a, worker: [x], range: [0]}", "2:33", "sweeps[0].range[1]: is missing"),
    ("sweeps:\n- {name: a, worker: [x], range: [5, 5]}", "2:3", "sweeps[0]: range [5, 5] is empty"),
    ("sweeps:\n- {name: a, range: [0, 1]}", "2:3", "sweeps[0]: give exactly one of program and worker"),
    (
        "sweeps:\n- {name: a, range: [0, 1], program: sieve, chance: 0.5}",
        "2:3",
        "sweeps[0]: chance and kernel go with worker",
    ),
    (
        "sweeps:\n- {name: a, range: [0, 1], worker: [x], min_chunk: 2**20, max_chunk: 5}",
        "2:3",
        "sweeps[0]: max_chunk 5 is below min_chunk 1048576",
    ),
    (
        "jobs:\n- name: a\n  argv: [x]\n  resources: {devce: gpu}",
        "4:15",
        "jobs[0].resources.devce: is no setting; did you mean 'device'? (allowed here: device, vram_gb, memory_gb,",
    ),
    (
        "jobs:\n- name: a\n  argv: [x]\n  retry: {max_attempts: {crash: 3}}",
        "4:33",
        "jobs[0].retry.max_attempts.crash: should be 'exit', 'signal',",
    ),
]


@pytest.mark.parametrize(("text", "place", "message"), FAULTS, ids=[message[:40] for _, _, message in FAULTS])
def test_a_fault_is_told_with_its_place(write: Write, text: str, place: str, message: str) -> None:
    path = write(text)
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{path}:{place}: {message}")
    assert len(first) < 500


def test_all_faults_are_told_at_once_in_the_order_of_the_settings(write: Write) -> None:
    path = write("limits: {log_bytes: x}\napi: {port: x, hots: y}\n")
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == [
        "api.port",
        "api.hots",
        "limits.log_bytes",
    ]


def test_a_flood_of_faults_is_cut(write: Write) -> None:
    with pytest.raises(SettingsError, match=r"\.\.\. and 80 more"):
        load(write("nodes: [" + "5, " * 99 + "5]"), {})


def test_defaults_need_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = load(None, {"XDG_STATE_HOME": "/state"})
    assert [node.name for node in loaded.fleet.nodes] == ["here"]
    assert loaded.state_dir == Path("/state/hostler")
    assert set(origins(loaded).values()) == {"default"}
    assert specs(loaded) == ()


def test_every_value_has_its_origin(write: Write) -> None:
    path = write("api:\n  port: 1\nlimits: {log_bytes: 2**20}\nnodes:\n- name: a\n")
    environ = {"HOSTLER_API__PORT": "9000", "HOSTLER_LIMITS__RESULT_BYTES": "2**10", "HOME": "/home/x", "OTHER": "1"}
    loaded = load(path, environ, {"journal.snapshot_every": 10, "limits.result_bytes": 7})
    settings = {setting.path: setting for setting in describe(loaded)}
    assert (settings["api.port"].value, settings["api.port"].origin) == (9000, "environment variable HOSTLER_API__PORT")
    assert (settings["limits.log_bytes"].value, settings["limits.log_bytes"].origin) == (1 << 20, f"{path}:3:21")
    assert (settings["limits.result_bytes"].value, settings["limits.result_bytes"].origin) == (7, "command line")
    assert settings["nodes[0].name"].origin == f"{path}:5:9"
    assert settings["nodes[0].gpus"].origin == "default"
    assert settings["journal.snapshot_every"].origin == "command line"
    assert (settings["state_dir"].value, settings["state_dir"].origin) == ("/home/x/.local/state/hostler", "default")
    assert all(setting.doc for setting in settings.values())


def test_what_is_not_written_in_a_list_is_not_described(write: Write) -> None:
    path = write("jobs:\n- {name: a, run: [x], env: {}}\nsweeps:\n- {name: s, worker: [w], range: [0, 9]}\n")
    described = origins(load(path, {}))
    assert "jobs[0].argv" not in described
    assert described["jobs[0].run"] == f"{path}:2:18"
    assert described["jobs[0].env"] == f"{path}:2:28"
    assert described["sweeps[0].min_chunk"] == "default"
    assert described["jobs[0].retry.backoff_s"] == "default"


def test_the_environment_sets_texts_as_they_are_and_lists_as_yaml() -> None:
    environ = {"HOSTLER_NAME": "123", "HOSTLER_NODES": "[{name: b, cpu_slots: 2}]", "HOSTLER_ATTEMPT": "j1.1"}
    fleet = load(None, environ).fleet
    assert fleet.name == "123"
    assert [(node.name, node.cpu_slots) for node in fleet.nodes] == [("b", 2)]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "HOSTLER_API__PROT",
            "1",
            "environment variable HOSTLER_API__PROT: sets nothing; did you mean 'HOSTLER_API__PORT'",
        ),
        ("HOSTLER_API", "{}", "environment variable HOSTLER_API: sets nothing"),
        ("HOSTLER_api__port", "1", "environment variable HOSTLER_api__port: sets nothing"),
        (
            "HOSTLER_API__PORT",
            "x",
            "environment variable HOSTLER_API__PORT: api.port: should be a valid integer (found 'x')",
        ),
        ("HOSTLER_NODES", "[{", "environment variable HOSTLER_NODES:2:1: is no YAML"),
        ("HOSTLER_NODES", "[{nme: z}]", "environment variable HOSTLER_NODES: nodes[0].name: is missing"),
    ],
)
def test_a_variable_that_is_wrong_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        load(None, {name: value})


def test_variables_of_programs_are_let_be() -> None:
    load(None, {"HOSTLER_SIEVE_OPENCL": "off", "HOSTLER_SIEVE_CACHE": "/tmp/sieve"})


def test_an_override_that_sets_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"command line: api\.prot: is no setting"):
        load(None, {}, {"api.prot": 1})


def test_the_state_directory_starts_where_it_is_named(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    path = write("state_dir: state")
    assert load(path, {}).state_dir == tmp_path / "state"
    assert load(path, {"HOSTLER_STATE_DIR": "mine"}).state_dir == tmp_path / "elsewhere" / "mine"
    assert load(Path(os.path.relpath(path)), {}).base_dir.samefile(tmp_path)


def test_everything_asked_for_becomes_a_spec_with_a_key(write: Write, tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text('[{"name": "c", "argv": ["true"]}]')
    path = write(
        "sweeps:\n- {name: s, worker: ['{python}', w.py], range: [1, 2**64], params: {x: 1}, priority: 3, kernel: k}\n"
        "jobs:\n- {name: a, argv: [ls, -l]}\n- {name: b, key: kb, script: b.py, args: [x], after: [a]}\n"
        "jobs_files: [more.json]\n"
    )
    made = specs(load(path, {}))
    assert [spec.key for spec in made] == ["s", "a", "kb", "c"]
    sweep, job = made[0].payload, made[2].payload
    assert isinstance(sweep, SweepPayload)
    assert (sweep.start, sweep.stop, sweep.kernel) == (1, 1 << 64, "k")
    assert isinstance(job, ScriptPayload)
    assert (job.argv, job.cwd) == (("{python}", "b.py", "x"), str(tmp_path))
    assert specs(load(path, {})) == made
    assert load_specs([plain(spec) for spec in made]) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs: [{name: a, argv: [x]}, {name: b, key: a, argv: [x]}]", "fleet.yaml:1:30: the key 'a' is used twice"),
        ("jobs: [{name: a, argv: [x]}]\njobs_files: [j.yaml]", "j.yaml:1:3: the key 'a' is used twice"),
        ("jobs_files: [nowhere.yaml]", "nowhere.yaml: cannot be read"),
        (
            "sweeps:\n- {name: s, program: nope, range: [0, 1]}",
            "fleet.yaml:2:3: sweeps[0]: no program 'nope' is installed",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_told_with_its_place(write: Write, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "j.yaml").write_text("- {name: a, argv: [x]}")
    loaded = load(write(text), {})
    with pytest.raises(SettingsError, match=re.escape(message)):
        specs(loaded)
