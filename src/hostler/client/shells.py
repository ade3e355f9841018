"""The submitter's shell: programs and Python environment of jobs that run on the machine they are submitted from."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

SHELL = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
"""Variables that say which programs and which Python environment a shell runs."""


def with_shells(
    specs: Sequence[Mapping[str, Any]], environ: Mapping[str, str]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The specs of scripts with PATH and Python environment of a shell; and the programs that it finds, by name."""
    # A value that is not UTF-8 cannot be written as JSON; such a job has the variables of its node.
    env = {name: value for name in SHELL if (value := environ.get(name)) and value.isprintable()}
    scripts = [spec["payload"] for spec in specs if spec["payload"]["kind"] == "script"]
    words = dict.fromkeys(payload["argv"][0] for payload in scripts)  # many jobs have few programs
    found = {word: _found(word, environ.get("PATH")) for word in words}
    programs = {word: os.path.abspath(path) for word, path in found.items() if path is not None}
    made = []
    for spec in specs:
        payload = dict(spec["payload"])
        if payload["kind"] == "script":
            payload["submitter"] = {"program": programs.get(payload["argv"][0]), "env": env}
        made.append({**spec, "payload": payload})
    return made, programs


def of_this_program(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of a shell in which `python` is the Python of this program, also where nobody activated it.

    Notebooks and `env/bin/python script.py` run in a virtual environment that is not first in their PATH.
    """
    if sys.prefix == sys.base_prefix or environ.get("CONDA_PREFIX"):
        return environ
    scripts = os.path.join(sys.prefix, "bin")
    path = os.pathsep.join(filter(None, (scripts, environ.get("PATH"))))
    return {**environ, "VIRTUAL_ENV": sys.prefix, "PATH": path}


def _found(word: str, path: str | None) -> str | None:
    """The program that a shell finds for the first word of a command."""
    if "/" in word or word.startswith("{"):
        return None
    from shutil import which

    return which(word, path=path)
