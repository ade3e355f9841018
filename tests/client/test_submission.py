"""Options of a submission from Python to specs, and what is said of those that cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hostler.client.grids import jobs_of, python_axes
from hostler.client.jobs import _until
from hostler.client.notes import file_notes
from hostler.client.refusals import in_callers_words
from hostler.client.specs import JobOptions, expect_options, expect_types, script_spec
from hostler.client.submission import _plain, _specs, submit
from hostler.model.codec import load_specs
from hostler.model.errors import SpecError, UsageError

ARGV = ["python", "train.py"]
OPTIONS: Mapping[str, Any] = {
    "name": "a",
    "key": "k",
    "after": ["j1"],
    "priority": 3,
    "cwd": "/data",
    "in_place": True,
    "files": ("*.py",),
    "outputs": ["*.pt"],
    "env": {"SEED": 1, "HF_TOKEN": {"secret": "hf"}},
    "plain": True,
    "python_env": "none",
    "walltime_s": 5,
    "device": "gpu",
    "gpus": 2,
    "vram_gb": 10.0,
    "memory_gb": 3,
    "cpus": 2,
    "shards": True,
    "shared": False,
    "tiers": [1, 2],
    "nodes": "rig",
    "exclude_nodes": ["cpu"],
    "gpu_models": ["4090"],
    "exclude_gpu_models": ("T4",),
    "providers": "vast",
    "labels": {"zone": "a"},
    "max_attempts": {"exit": 3},
    "require_result": True,
    "work": "training",
    "config": "hex8_2p",
    "expected_s": {"*": 60},
    "checkpoints": True,
}
"""A value for each option."""
WRONG: Mapping[str, tuple[Any, str]] = {
    "name": (1, "name is 1. Give a text"),
    "gpus": (True, "gpus is True. Give a whole number"),
    "vram_gb": ("ten", "vram_gb is 'ten'. Give a number"),
    "shards": (1, "shards is 1. Give True or False"),
    "outputs": (True, "outputs is True. Give a text or a list of texts"),
    "nodes": ([True], r"nodes is \[True\]. Give a text or a list of texts"),
    "cwd": (3, "cwd is 3. Give a folder, or None to send no files"),
    "tiers": (1, "tiers is 1. Give a list of 1, 2 or 3"),
    "env": (["A=1"], r"env is \['A=1'\]. Give variables with their values, texts or numbers, as \{'SEED': '1'\}"),
    "labels": ({"zone": True}, r"labels is \{'zone': True\}. Give labels with their values"),
    "max_attempts": ({"exit": 1.5}, "Give numbers of attempts by class of failure"),
    "expected_s": ("1h", "expected_s is '1h'. Give seconds"),
    "device": ("cuda", "device is 'cuda'. Give one of any, cpu, gpu"),
    "work": ("play", "work is 'play'. Give one of script, selfplay, training"),
    "after": ([1], r"after has 1. Give jobs, groups, or their ids"),
    "walltime_s": ("5 min", "walltime_s is '5 min'. Give a number"),
}


def refused(argv: Any, **options: Any) -> str:
    """The error of a submission that is refused before anything is asked of a controller."""
    with pytest.raises(UsageError) as error:
        next(submit(argv, options, None))
    return str(error.value)


def test_every_option_reaches_the_spec() -> None:
    assert OPTIONS.keys() == JobOptions.__annotations__.keys()
    (spec,) = load_specs([script_spec(ARGV, OPTIONS)])  # type: ignore[arg-type]
    need, payload = spec.resources, spec.payload
    assert (spec.name, spec.key, spec.after, spec.priority, spec.walltime_s) == ("a", "k", ("j1",), 3, 5.0)
    assert (spec.config, spec.checkpoints, spec.work.value, spec.expected_s) == ("hex8_2p", True, "training", {"*": 60})
    assert spec.retry.max_attempts == {"exit": 3}
    assert (need.device, need.gpus, need.vram_gb, need.memory_gb, need.cpus) == ("gpu", 2, 10.0, 3.0, 2.0)
    assert (need.shards, need.shared, need.tiers) == (True, False, (1, 2))
    assert (need.nodes, need.exclude_nodes, need.providers) == (("rig",), ("cpu",), ("vast",))
    assert (need.gpu_models, need.exclude_gpu_models, need.labels) == (("4090",), ("T4",), ("zone=a",))
    assert payload.kind == "script"
    assert (payload.cwd, payload.in_place, payload.files, payload.outputs) == ("/data", True, ("*.py",), ("*.pt",))
    assert (payload.argv, payload.env, payload.python_env, payload.require_result) == (
        tuple(ARGV),
        {"SEED": "1"},
        "none",
        True,
    )
    assert (payload.secrets, payload.plain) == ({"HF_TOKEN": "hf"}, True)


def test_spec_without_options_is_that_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (spec,) = load_specs([script_spec(ARGV, {})])
    assert spec.payload.kind == "script"
    assert (spec.name, spec.key, spec.payload.cwd) == ("python train.py", None, str(tmp_path))
    assert spec.resources.device is None
    assert load_specs([script_spec(ARGV, {"gpus": 2})])[0].resources.device == "gpu"
    assert load_specs([script_spec(ARGV, {"gpus": 2, "device": "any"})])[0].resources.device == "any"


@pytest.mark.parametrize("field", ["outputs", "files"])
@pytest.mark.parametrize("pattern", ["../x", "/x", "a\0b", ""])
def test_patterns_that_lead_out_of_the_folder_are_refused_before_files_are_sent(field: str, pattern: str) -> None:
    with pytest.raises(UsageError, match=f"^{field}: "):
        script_spec(ARGV, {field: ["good/*", pattern]})  # type: ignore[misc]


@pytest.mark.parametrize("gpus", [1, 2])
def test_gpus_on_a_cpu_are_refused_by_both_names(gpus: int) -> None:
    with pytest.raises(UsageError, match=f"gpus={gpus} asks for GPUs, and device is cpu; leave one of the two out"):
        script_spec(ARGV, {"gpus": gpus, "device": "cpu"})


@pytest.mark.parametrize("name", WRONG)
def test_value_of_a_wrong_type_is_named_as_it_was_written(name: str) -> None:
    value, message = WRONG[name]
    with pytest.raises(UsageError, match=message):
        next(submit(ARGV, {name: value}, None))


def test_every_option_is_checked() -> None:
    for name in OPTIONS.keys() - {"after"}:
        with pytest.raises(UsageError, match=f"^{name} is <object"):
            expect_types({name: object()})
    expect_types(OPTIONS)


def test_unknown_option_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match=r"submit\(\) has no option 'gpu'. Did you mean 'gpus'\?"):
        next(submit(ARGV, {"gpu": 1}, None))
    with pytest.raises(TypeError, match="The options are after, checkpoints, "):
        expect_options({"xyzzy": 1})


@pytest.mark.parametrize(
    ("argv", "options", "message"),
    [
        ("python train.py", {}, "argv is 'python train.py'. Give a list of words, as ['python', 'train.py'"),
        ([], {}, "argv is empty. Give a program"),
        (["python", None], {}, "argv[1] is None. Each word of a command is a text, a number or a path"),
        (["python", True], {}, "argv[1] is True."),
        (ARGV, {"cwd": None, "files": ["a"]}, "files is about the folder of the job, and cwd is None"),
        (ARGV, {"cwd": None, "in_place": True}, "in_place is about the folder of the job, and cwd is None"),
        (ARGV, {"in_place": True, "files": ["a"]}, "files are sent, and in_place runs in the folder itself"),
        (ARGV, {"max_running": 2}, "max_running limits the jobs of a group, and this is one job. Give grid or repeat"),
        (ARGV, {"repeat": 0}, "repeat is 0. Give a whole number, 1 or more"),
        (ARGV, {"grid": {}}, "grid is empty. Give parameters"),
        (ARGV, {"grid": []}, "grid is empty. Give parameters"),
        (ARGV, {"grid": "lr=1"}, "grid is 'lr=1'. Give parameters with their values"),
        (ARGV, {"grid": {"lr": "0.1"}}, "grid['lr'] is '0.1'. Give a list of the values of lr"),
        (ARGV, {"grid": {"lr": 0.1}}, "grid['lr'] is 0.1. Give a list of the values of lr"),
        (ARGV, {"grid": {"lr": []}}, "grid['lr'] is empty. Give a list"),
        (ARGV, {"grid": {"l r": [1]}}, "'l r' is not the name of a parameter. Use letters, digits and _"),
        (ARGV, {"grid": {"lr": [1, [2]]}}, "grid['lr'] has the value [2]. A value is a number, or a text"),
        (ARGV, {"grid": {"lr": [1, None]}}, "grid['lr'] has the value None."),
        (ARGV, {"grid": {"lr": [1, 1]}}, "grid['lr']: lr has the value 1 twice. Give each value once; repeat=N"),
        (ARGV, {"grid": {"repeat": [1]}}, "repeat is the parameter of the option repeat"),
        (ARGV, {"grid": {"lr": [1]}}, "grid['lr']: no text has the placeholder {lr}, so its jobs would be the same"),
        ([*ARGV, "{l}"], {"grid": {"lr": [1]}}, "the command has the placeholder {l}, which is not a parameter"),
        ([*ARGV, "{a}"], {"grid": [{"a": 1}, {"b": 1}]}, "grid[1] has the parameters ['b'], and grid[0] has ['a']"),
        ([*ARGV, "{a}"], {"grid": [{"a": 1}, {"a": 1}]}, "grid has the same parameters twice"),
        ([""], {}, "argv[0] is empty. Give a program"),
        (["a\0"], {}, "argv[0] is 'a\\x00', which has a NUL"),
        (["a", "\udcff"], {}, "argv[1] is '\\udcff', which has a NUL or half a character"),
        (ARGV, {"walltime_s": float("nan")}, "walltime_s is nan. Give a number"),
        (ARGV, {"vram_gb": float("inf")}, "vram_gb is inf. Give a number"),
        ([*ARGV, "{a}"], {"grid": {"a": range(10_001)}}, "makes 10,001 jobs: a group has at most 10,000"),
    ],
)
def test_submission_that_cannot_be_is_refused_with_the_remedy(argv: Any, options: Any, message: str) -> None:
    assert message in refused(argv, **options)


def test_numbers_of_numpy_are_numbers_everywhere() -> None:
    options = {"gpus": np.int64(2), "walltime_s": np.float32(5), "shared": np.bool_(True), "env": {"A": np.int64(4)}}
    with pytest.raises(UsageError, match="after has 1"):  # everything before it was accepted
        next(submit(["echo", np.float32(0.5), np.int64(3)], {**options, "after": 1}, None))
    specs, _ = _specs(["echo"], {name: _plain(value) for name, value in options.items()}, {})  # type: ignore[arg-type]
    (spec,) = load_specs(specs)
    assert (spec.resources.gpus, spec.walltime_s, spec.resources.shared) == (2, 5.0, True)
    assert spec.payload.kind == "script"
    assert spec.payload.env == {"A": "4"}


NAMES = st.from_regex(r"[a-z]{1,4}", fullmatch=True).filter(lambda name: name not in ("repeat", "index", "line"))
VALUES = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(st.characters(codec="utf-8"), min_size=1)
).filter(lambda value: "\0" not in str(value))
GRIDS = st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=3, unique_by=str), min_size=1, max_size=3)


@given(GRIDS)
def test_grid_has_the_text_of_each_value_in_each_combination(grid: dict[str, list[Any]]) -> None:
    from hostler.client.grids import Template

    template = Template(["p", *(f"{{{name}}}" for name in grid)], {}, None, (), in_python=True)
    jobs = jobs_of(template, python_axes(grid))
    assert len({tuple(job.argv) for job in jobs}) == len(jobs)
    for name, values in grid.items():
        assert {job.parameters[name] for job in jobs} == set(map(str, values))
    assert all(job.argv[1:] == list(job.parameters.values()) for job in jobs)


@pytest.mark.parametrize(
    ("argv", "noted"),
    [
        (["true", "--lr", "{lr}"], ["{lr} is sent as it is: this is a single job. A grid would give it a value"]),
        (["true", "--lr={lr}", "{bs}"], ["{lr}, {bs} are sent as they are: this is a single job. A grid would give"]),
        (["true", "-c", "print(f'{x}')"], []),
        (["true", "${HOME}", "{{lr}}", "{}", "{0}", "{print $1}"], []),
        (["{python}", "-V"], []),
    ],
)
def test_placeholder_that_nothing_fills_is_a_note(argv: list[str], noted: list[str]) -> None:
    spec = {"name": "n", "payload": {"kind": "script", "argv": argv}}
    found = file_notes([spec], strict=False, here=False)
    assert [each[: len(begin)] for each, begin in zip(found, noted, strict=True)] == noted
    assert file_notes([{**spec, "parameters": {"lr": "1"}}], strict=False, here=False) == []


@pytest.mark.parametrize(
    ("argv", "noted"),
    [
        (["python3", "-u", "gone.py"], "there is no file 'gone.py' in "),
        (["{python}", "-X", "dev", "gone"], "there is no file 'gone' in "),
        (["bash", "gone"], "there is no file 'gone' in "),
        (["bash", "-eo", "pipefail", "gone.sh"], "there is no file 'gone.sh' in "),
        (["bash", "folder"], "'folder' in "),
        (["python3", "/gone/train.py"], "there is no file '/gone/train.py' on this machine"),
        (["/gone/program"], "there is no program '/gone/program' on this machine"),
        (["./plain.py"], "'./plain.py' in "),
        (["./shebang"], "the first line of './shebang' names '/gone/shell'"),
        (["./found"], "the first line of './found' names 'gone-shell'"),
        (["python3", "-u", "plain.py"], None),
        (["python3", "folder"], None),
        (["bash", "true"], None),
        (["python3", "-m", "gone", "gone.py"], None),
        (["./good"], None),
    ],
)
def test_program_or_script_that_is_missing_is_a_note(argv: list[str], noted: str | None, tmp_path: Path) -> None:
    first_lines = {
        "shebang": "#!/gone/shell",
        "found": "#!/usr/bin/env gone-shell",
        "good": "#!/bin/sh",
        "plain.py": "",
    }
    for name, line in first_lines.items():
        (tmp_path / name).write_text(line + "\n")
        (tmp_path / name).chmod(0o644 if name == "plain.py" else 0o755)
    (tmp_path / "folder").mkdir()
    spec = {"name": "n", "payload": {"kind": "script", "argv": argv, "cwd": str(tmp_path)}}
    found = file_notes([spec], strict=False, here=True)
    assert (found[0][: len(noted)] if noted and found else None, len(found)) == (noted, noted is not None)
    if noted is not None:
        with pytest.raises(UsageError, match="Nothing was submitted"):
            file_notes([spec], strict=True, here=True)


@pytest.mark.parametrize(("name", "noted"), [("gone", "there is no folder '"), ("file", "' is a file, and the job is")])
def test_missing_folder_of_a_job_in_place_is_a_note(name: str, noted: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    payload = {"kind": "script", "argv": ["ls"], "cwd": str(tmp_path / name), "in_place": True}
    (found,) = file_notes([{"name": "n", "payload": payload}], strict=False, here=True)
    assert noted in found
    with pytest.raises(UsageError, match="Nothing was submitted"):
        file_notes([{"name": "n", "payload": payload}], strict=True, here=True)
    payload["cwd"] = str(tmp_path)
    assert file_notes([{"name": "n", "payload": payload}], strict=True, here=True) == []


def test_refused_field_is_named_as_its_caller_named_it() -> None:
    told = "the jobs were refused, none was submitted: " + "; ".join(
        f"jobs[{n}].{field}: should be more" for n in range(2) for field in ("resources.gpus", "walltime_s")
    )
    with pytest.raises(SpecError) as caught, in_callers_words():
        raise SpecError(told)
    assert str(caught.value) == "nothing was submitted: gpus: should be more; walltime_s: should be more"
    with pytest.raises(SpecError, match="nothing was submitted: --gpus: should"), in_callers_words("--{}".format):
        raise SpecError(told)
    with pytest.raises(SpecError, match=r"^another$"), in_callers_words():
        raise SpecError("another")


def test_numbers_stand_for_their_digits_and_one_text_for_a_list() -> None:
    short = script_spec(
        ["echo"],
        {"nodes": "rig-1", "gpu_models": 4090, "labels": "zone=a", "outputs": "*.pt", "env": {"A": 3}},  # type: ignore[typeddict-item]
    )
    long = script_spec(
        ["echo"],
        {"nodes": ["rig-1"], "gpu_models": ["4090"], "labels": {"zone": "a"}, "outputs": ["*.pt"], "env": {"A": "3"}},
    )
    assert short == long
    for name, value in {"nodes": "a", "gpu_models": [4090], "labels": ["zone=a"], "env": {"A": 3}}.items():
        expect_types({name: value})


@pytest.mark.parametrize("options", [{"env": {"A": True}}, {"nodes": True}, {"outputs": ["a", False]}])
def test_booleans_are_no_texts(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"Give .*text"):
        expect_types(options)


@pytest.mark.parametrize("timeout", ["x", True, -1, [1]])
def test_time_limit_that_is_no_number_is_named(timeout: Any) -> None:
    with pytest.raises(UsageError, match=r"timeout_s is .*Give a number of seconds"):
        next(_until(cast(Any, None), lambda: False, cast(Any, None), timeout))
