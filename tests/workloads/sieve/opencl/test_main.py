"""The program that tests and measures the device of a machine."""

import sys

import pytest

from hostler.workloads.sieve.opencl import __main__ as program

from .support import device


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["opencl", *arguments])
    return program.main()


def test_it_says_how_fast_the_device_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    kind = "gpu" if device().is_gpu else "cpu"
    monkeypatch.setenv("HOSTLER_SIEVE_CACHE", str(tmp_path))
    monkeypatch.setattr(program, "SECONDS", 0.01)
    monkeypatch.setattr(program, "QUESTIONS", [each for each in program.QUESTIONS if each[0] == "xorshift32"])
    assert run(monkeypatch, "--device", kind) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert device().name in first
    assert "M seeds/s" in second
    assert "found, 1 candidates" in second


def test_without_a_device_it_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOSTLER_SIEVE_OPENCL", "off")
    assert run(monkeypatch) == 1
    assert "switched off" in capsys.readouterr().err
