"""The command line of a plain installation: what needs a package of an extra names the extra."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.cli import commands, extras
from hostler.cli.extras import extras_of, missing_package
from tests.cli.without_extras import EXTRAS

REPOSITORY = Path(__file__).parents[2]
LAPTOP = "examples/laptop.yaml"


def plain(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.cli.without_extras", *words], cwd=REPOSITORY, capture_output=True, text=True
    )


def functions() -> Iterator[str]:
    for each in commands.COMMANDS.values():
        found = each.commands.values() if isinstance(each, commands.Group) else [each.function]
        yield from map(str, found)


def test_plan_of_a_plain_installation_needs_no_extra() -> None:
    ran = plain("plan", LAPTOP)
    assert "Traceback" not in ran.stderr
    assert "hex8_2p" in ran.stdout, ran.stderr


def test_check_names_the_packages_that_work_lacks_on_this_machine() -> None:
    """The first example of the tour was called good, and each of its sweeps failed."""
    ran = plain("check", LAPTOP)
    assert ran.returncode == 1
    said = " ".join(ran.stdout.split())
    assert (
        "sweep 'java-random': this machine lacks the Python packages numpy, numba; `pip install 'hostler[kernels]'`"
        in said
    )
    assert "training config 'hex8_2p': this machine lacks the Python packages numpy, numba, torch" in said
    assert "has faults: 8 jobs, 2 sweeps" in said


def test_check_finds_nothing_missing_where_the_extras_are_installed() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "hostler", "check", LAPTOP], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (ran.returncode, "lacks the Python packages" in ran.stdout) == (0, False)


def test_modules_of_all_commands_load_without_any_extra() -> None:
    names = sorted({each.partition(":")[0] for each in functions()})
    assert len(names) > 20
    loads = "; ".join(f"import hostler.cli.{name}" for name in names)
    setup = "import sys; from tests.cli.without_extras import Without; sys.meta_path[:] = map(Without, sys.meta_path)"
    ran = subprocess.run([sys.executable, "-c", f"{setup}; {loads}"], cwd=REPOSITORY, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("package", sorted(EXTRAS - {"scipy"}))
def test_missing_package_of_an_extra_is_named_with_its_remedy(package: str) -> None:
    error = ModuleNotFoundError(f"No module named {package!r}", name=f"{package}.inner")
    said = missing_package(error)
    assert said is not None
    assert f"the Python package {package}, which is not installed: `pip install 'hostler[" in said


def test_smallest_extra_is_named() -> None:
    assert extras_of("openskill")[0] == "eval"
    assert extras_of("numpy")[0] == "kernels"
    assert extras_of("jsonschema-rs") == ["k8s"]


@pytest.mark.parametrize("name", ["hostler.nosuch", "nosuch", "", None, "pytest"])
def test_other_missing_modules_are_faults_of_the_program(name: str | None) -> None:
    assert missing_package(ModuleNotFoundError("No module", name=name)) is None


def test_package_that_is_not_installed_has_no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise extras.PackageNotFoundError

    monkeypatch.setattr(extras, "requires", absent)
    assert extras_of("numpy") == []
