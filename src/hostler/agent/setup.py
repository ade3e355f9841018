"""The step before the process of an attempt: its Python environment is built, or the imports of its script are checked.

It is a process that becomes that of the attempt: same pid, same session, same limits. So it is adopted, stopped and
lost as the attempt is. What it prints is the stream ``setup`` of the attempt; ``setup.json`` says how it ended.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Dict, List, NamedTuple, NoReturn, Optional

from . import cgroups, environments, evidence, imports, logs, procs
from .procs import PERMANENT, Programs, SpawnError
from .protocol import Json

STREAM = "setup"
"""The stream of what is printed meanwhile."""
ENVIRONMENT, IMPORTS, COMMAND, REFUSED, SPAWN = "environment", "imports", "command", "refused", "spawn"
"""Reasons of an attempt that came no further: the environment could not be built, modules are missing, the command
cannot be run here, no process can be started from the order anywhere, or none can be now."""
SCRIPT = "script"
"""As `COMMAND`, by the fault of a file in the job's own folder."""
_REASONS = (ENVIRONMENT, IMPORTS, COMMAND, REFUSED, SPAWN)
_OUTCOME = "setup.json"
_OUTCOME_BYTES = 1 << 16
_ERROR_MOST = 4000
_LAST_LINES = 20
_TAIL_BYTES = 8192
FAILED = 125
"""The exit status of the step when it has failed."""
_START = "import sys; sys.path[:0] = sys.argv[1].split(':'); from hostler.agent.setup import main; main(sys.argv[2:])"


class Outcome(NamedTuple):
    """How the step ended: when the attempt's own process began; or why it never did."""

    ready_at: Optional[float]
    reason: Optional[str]
    error: Optional[str]
    key: Optional[str]
    """Of the environment that it runs in."""


def command(search_path: str, wanted: Json, root: str, folder: str, cgroup: str = "") -> List[str]:
    """What is put before the command of an attempt; ``search_path`` is where the agent's code is.

    ``wanted`` is the field ``setup`` of the attempt, with its ``build_s``, ``root`` the folder of the agent, ``folder``
    the attempt's; ``cgroup`` is what the command begins in, empty where that is not stated.
    """
    told = {**wanted, "root": root, "folder": folder, "cgroup": cgroup}
    return [sys.executable, "-I", "-S", "-c", _START, search_path, json.dumps(told)]


def is_silent(folder: str, code: Optional[int]) -> bool:
    """Whether the step has failed by its exit status and could not say why."""
    was_started = os.path.exists("%s/%s" % (folder, STREAM))
    return code == FAILED and was_started and not os.path.exists("%s/%s" % (folder, _OUTCOME))


def outcome(folder: str) -> Optional[Outcome]:
    """How the step of the attempt in that folder ended; None where it has not, or there was none."""
    try:
        with open("%s/%s" % (folder, _OUTCOME), "rb") as source:
            told = json.loads(source.read(_OUTCOME_BYTES).decode("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(told, dict):
        return None
    at, reason, error, key = (told.get(name) for name in ("ready_at", "reason", "error", "key"))
    if reason is not None and (reason not in _REASONS or not isinstance(error, str)):
        return None
    return Outcome(
        float(at) if isinstance(at, (int, float)) and not isinstance(at, bool) else None,
        reason,
        None if error is None else str(error)[:_ERROR_MOST],
        key if isinstance(key, str) else None,
    )


def began_at(folder: str, started_at: Optional[float]) -> Optional[float]:
    """When the command of the attempt in that folder began, which was started then; None while it is set up."""
    if not os.path.exists("%s/%s" % (folder, STREAM)):
        return started_at
    found = outcome(folder)
    return None if found is None else found.ready_at


def reason_of(error: Exception) -> str:
    """The reason of an attempt whose process could not be started."""
    if not isinstance(error, SpawnError):
        return SPAWN
    if error.permanent:
        return SCRIPT if error.own else COMMAND
    return REFUSED if error.refused else SPAWN


def main(arguments: List[str]) -> None:
    """Set up, and become the command. Does not return."""
    told = json.loads(arguments[0])
    argv, folder, key = arguments[1:], str(told["folder"]), None
    env = dict(os.environ)
    targets = [os.open("%s/%s" % (folder, name), procs.LOG_FLAGS, 0o600) for name in ("out", "err")]
    try:
        if told["file"] is not None:
            root = "%s/%s" % (told["root"], environments.FOLDER)
            made = environments.ready(root, os.getcwd(), told["file"], told["python"], env, told["build_s"])
            env, key = made.applied(env), made.key
        program = Programs().find(argv[0], env.get("PATH", os.defpath))
        if told["file"] is None and (argv[0] == told["python"] or imports.is_python(program)):
            _expect_imports(program, argv, env)
    except environments.BuildError as error:
        _fail(folder, ENVIRONMENT, "%s\n%s" % (error, _last_lines(folder)))
    except SpawnError as error:
        _fail(folder, reason_of(error), str(error))
    except OSError as error:
        _fail(folder, SPAWN, "cannot set up the attempt: %s" % error)
    if told["cgroup"]:
        with suppress(OSError):  # the agent measures what is not in its cgroup
            cgroups.enter(told["cgroup"])
    _become(program, argv, env, targets, folder, key)


def _expect_imports(program: str, argv: List[str], env: Dict[str, str]) -> None:
    found = imports.missing(program, argv, env)
    if found is not None:
        folder = os.environ["HOSTLER_ATTEMPT_DIR"]
        _fail(folder, IMPORTS, "%s lacks %s" % (found.interpreter, ", ".join(found.modules)))


def _become(
    program: str,
    argv: List[str],
    env: Dict[str, str],
    targets: List[int],
    folder: str,
    key: Optional[str],
) -> NoReturn:
    """The rest of this process is the command's. Its own output begins here, and so does its time."""
    ours = os.dup(1)
    os.set_inheritable(ours, False)
    for number, target in enumerate(targets, 1):
        os.dup2(target, number)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # this interpreter ignores them, and what is ignored stays so
    try:
        _note(folder, {"ready_at": time.time(), "key": key})
        os.execve(program, argv, env)  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        reason = REFUSED if error.errno == errno.E2BIG else COMMAND if error.errno in PERMANENT else SPAWN
        _fail(folder, reason, "cannot start %.200r: %s" % (argv[0], error.strerror), ours)
    except ValueError as error:
        _fail(folder, REFUSED, "cannot start %.200r: %s" % (argv[0], error), ours)


def _fail(folder: str, reason: str, error: str, output: int = 1) -> NoReturn:
    with suppress(OSError):
        os.write(output, ("hostler: %s\n" % error.partition("\n")[0]).encode("utf-8", "replace"))
    with suppress(OSError):  # on a full disk nothing can be left but the exit status
        _note(folder, {"reason": reason, "error": error[:_ERROR_MOST]})
    os._exit(FAILED)


def _note(folder: str, told: Json) -> None:
    path = "%s/%s" % (folder, _OUTCOME)
    with open(path + ".new", "w", encoding="utf-8") as target:
        json.dump(told, target)
    os.rename(path + ".new", path)


def _last_lines(folder: str) -> str:
    text = evidence.cleaned(logs.tail("%s/%s" % (folder, STREAM), _TAIL_BYTES))
    return "\n".join(text.splitlines()[-_LAST_LINES:])
