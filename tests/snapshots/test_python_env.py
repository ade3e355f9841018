"""The file of a folder that states its Python environment, and what of such files cannot be built elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.model.errors import FilesError
from hostler.snapshots.python_env import FoundFile, found_in

PROJECT = '[project]\nname = "mine"\nversion = "1"\n'
NEEDS = f'{PROJECT}dependencies = ["numpy"]\n'
TEXTS = {
    "uv.lock": "version = 1\n",
    "pyproject.toml": NEEDS,
    "requirements.txt": "numpy\n",
    "environment.yml": "dependencies: [numpy]\n",
}


def found(folder: Path, files: dict[str, str], asked: str | None = None) -> FoundFile | None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return found_in(folder, set(files), asked)


def test_first_file_of_the_order_counts(tmp_path: Path) -> None:
    left = dict(TEXTS)
    for name in TEXTS:
        file = found(tmp_path, left)
        assert file is not None
        assert file.file == name
        del left[name]
    assert found(tmp_path, {"train.py": ""}) is None


@pytest.mark.parametrize(
    "text", [PROJECT, "[tool.ruff]\nline-length = 100\n", f"{PROJECT}dependencies = []\n", 'project = "x"\n']
)
def test_pyproject_without_dependencies_is_passed_over(tmp_path: Path, text: str) -> None:
    files = {"pyproject.toml": text, "requirements.txt": "numpy\n"}
    assert found(tmp_path, files) == found(tmp_path, {"requirements.txt": "numpy\n"})


def test_lock_file_without_its_project_is_passed_over(tmp_path: Path) -> None:
    assert found(tmp_path, {"uv.lock": "version = 1\n"}) is None


def test_none_and_files_that_are_not_sent(tmp_path: Path) -> None:
    assert found(tmp_path, TEXTS, "none") is None
    (tmp_path / "requirements.txt").write_text("numpy\n")
    assert found_in(tmp_path, {"train.py"}, None) is None


def test_digest_follows_the_file_and_all_that_it_includes(tmp_path: Path) -> None:
    files = {
        "requirements.txt": "-r req/more.txt\nnumpy\n",
        "req/more.txt": "-c pins.txt\nscipy\n",
        "req/pins.txt": "x==1",
    }
    first = found(tmp_path, files)
    assert first is not None
    assert found(tmp_path, {**files, "other.txt": "x"}) == first
    for path in files:
        changed = found(tmp_path, {**files, path: files[path] + "\n# more\n"})
        assert changed is not None
        assert changed.sha256 != first.sha256


@pytest.mark.parametrize("asked", ["needs.txt", "conf/env.yaml", "./needs.txt", "sub/pyproject.toml"])
def test_file_that_is_asked_for_counts(tmp_path: Path, asked: str) -> None:
    files = {**TEXTS, "needs.txt": "numpy\n", "conf/env.yaml": "dependencies: []\n", "sub/pyproject.toml": NEEDS}
    file = found(tmp_path, files, asked)
    assert file is not None
    assert file.file == asked.removeprefix("./")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("nowhere.txt", "is not among the files"),
        ("../needs.txt", "leads out"),
        ("/etc/needs.txt", "leads out"),
        ("train.py", "states no environment"),
        ("bare/pyproject.toml", "no dependencies"),
    ],
)
def test_file_that_states_no_environment_is_refused(tmp_path: Path, asked: str, reason: str) -> None:
    with pytest.raises(FilesError, match=reason):
        found(tmp_path, {"train.py": "", "bare/pyproject.toml": PROJECT}, asked)


@pytest.mark.parametrize(
    "line",
    [
        "-e .",
        "-e git+https://example.org/x.git#egg=x",
        "--editable ./x",
        "--editable=./x",
        ".",
        "./libs/mine",
        "../mine[extra]",
        "/home/me/mine",
        "~/mine",
        "file:///home/me/mine",
        "mine @ file:///home/me/mine",
        "mine @ ./mine",
        "wheels/mine-1.0-py3-none-any.whl",
        "mine-1.0.tar.gz ; python_version > '3'",
        "numpy \\\n",
    ],
)
def test_path_of_this_machine_is_refused(tmp_path: Path, line: str) -> None:
    if line.startswith("numpy"):  # a continued line is one line
        line += " @ file:///home/me/numpy"
    with pytest.raises(FilesError, match="--python-env none"):
        found(tmp_path, {"requirements.txt": f"scipy\n{line}\n"})
    with pytest.raises(FilesError, match="--python-env none"):
        found(tmp_path, {"requirements.txt": "-r more.txt\n", "more.txt": line})


@pytest.mark.parametrize(
    "line",
    [
        "numpy>=1.2 # ./not a path",
        "# -e .",
        "mine @ https://example.org/mine-1.0.tar.gz",
        "git+https://example.org/x.git",
        "--find-links /shared/wheels",
        "--extra-index-url https://example.org/simple",
        "-r https://example.org/more.txt",
        "torch==2.1 --hash=sha256:abc",
        "",
    ],
)
def test_packages_and_options_are_taken(tmp_path: Path, line: str) -> None:
    assert found(tmp_path, {"requirements.txt": f"{line}\n"}) is not None


@pytest.mark.parametrize("line", ["-r gone.txt", "-rgone.txt", "--requirement=gone.txt", "-c ../gone.txt"])
def test_included_file_that_is_not_sent_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(FilesError, match=r"gone\.txt, which is not among"):
        found(tmp_path, {"requirements.txt": f"{line}\n"})


@pytest.mark.parametrize(
    ("name", "data"),
    [("pyproject.toml", b"[project\n"), ("requirements.txt", b"\xff\xfe"), ("pyproject.toml", b"\xff")],
)
def test_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FilesError, match=f"{name} cannot be read"):
        found_in(tmp_path, {name}, None)


def test_project_that_depends_on_a_path_is_refused(tmp_path: Path) -> None:
    text = f'{PROJECT}dependencies = ["mine @ file:///home/me/mine"]\n'
    with pytest.raises(FilesError, match="file:///home/me/mine"):
        found(tmp_path, {"pyproject.toml": text})
