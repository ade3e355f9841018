"""Python environments of a node: one folder for each key, built once under a lock, and used by all attempts after that.

``KEY/env`` is the environment, ``KEY/complete`` is written when its build has succeeded and is touched by each use.
``KEY.lock`` is locked by who builds, uses or removes it; the commands of a build inherit the lock, so that it is held
for as long as one of them runs, whatever becomes of the process that started them.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from shutil import which
from typing import Dict, Iterator, List, NamedTuple, Optional

from . import environment_files, procs
from .environment_files import CONDA, PYPROJECT, UV_LOCK
from .removal import remove

FOLDER = "environments"
"""Where they are, below the folder of the agent."""
UNUSED_S = 14 * 86400.0
"""An environment that no attempt has used for so long is removed."""
_COMPLETE = "complete"
_CONDA_PROGRAMS = ("micromamba", "mamba", "conda")
_UV_PLACES = ("~/.local/bin/uv", "~/.cargo/bin/uv")
_ABOUT = (
    "import json,platform,sys,sysconfig;"
    "print(json.dumps([sys.executable,platform.python_implementation()+' '+platform.python_version(),"
    "sysconfig.get_platform()+' '+'-'.join(platform.libc_ver())]))"
)
_DEPENDENCIES = """
import sys
try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib
with open(sys.argv[1], "rb") as source:
    wanted = tomllib.load(source).get("project", {}).get("dependencies", [])
with open(sys.argv[2], "w") as target:
    target.write("".join(each + "\\n" for each in wanted))
"""


class BuildError(Exception):
    """An environment could not be built; the message says why."""


class Python(NamedTuple):
    """An interpreter that environments are made from: its path, and a description of it and of its platform."""

    path: str
    about: str


class Environment(NamedTuple):
    """An environment that is ready: its key, its folder, and whether conda made it."""

    key: str
    path: str
    conda: bool

    def applied(self, env: Dict[str, str]) -> Dict[str, str]:
        """The variables of a process that runs in it."""
        path = "%s:%s" % (self.path + "/bin", env.get("PATH", os.defpath))
        kept = {name: value for name, value in env.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX")}
        return {**kept, "PATH": path, "CONDA_PREFIX" if self.conda else "VIRTUAL_ENV": self.path}


def ready(
    root: str, folder: str, path: str, python: str, env: Dict[str, str], limit_s: Optional[float] = None
) -> Environment:
    """The environment that a file of a folder states, built unless it is there. Raises BuildError and OSError.

    A build that takes longer than ``limit_s`` seconds is ended; waiting for another one is not counted.

    What the build prints goes to the standard output and error of this process.
    """
    try:
        files = environment_files.contents(folder, path)
    except environment_files.FileError as error:
        raise BuildError(str(error)) from None
    base = _described(python, env, limit_s)
    kind = environment_files.kind_of(path)
    key = environment_files.key_of(files, base.about)
    made = Environment(key, "%s/%s/env" % (root, key), kind == CONDA)
    os.makedirs(root, 0o700, exist_ok=True)
    with _locked(root, key) as lock:
        if not _is_complete(root, made):
            _say("building the Python environment of %s (%s)" % (path, base.about))
            began = time.monotonic()
            remove("%s/%s" % (root, key))
            os.mkdir("%s/%s" % (root, key), 0o700)
            _Build(made, folder, path, base, env, lock, limit_s).run(kind)
            _complete(root, made, path, base)
            _say("the Python environment of %s is ready after %.0f s" % (path, time.monotonic() - began))
        os.utime("%s/%s/%s" % (root, key, _COMPLETE))
    return made


def clean(root: str, in_use: List[str], unused_s: float = UNUSED_S) -> List[str]:
    """Remove the environments that no attempt has used for so long; returns their keys. Raises OSError."""
    gone = []
    for key in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        if not key.endswith(".lock") and key not in in_use and clean_one(root, key, unused_s):
            gone.append(key)
    return gone


def make_room(root: str, attempts: str, wanted_bytes: int, unused_s: float) -> "list[tuple[str, int]]":
    """Remove environments, what was not used for longest first, until the disk has so much more free space.

    Those stay that an attempt with a folder in ``attempts`` or any process runs in, and those that were used less long
    ago. Returns the keys that went, with the bytes that each has freed. Raises OSError.
    """
    busy = _keys_in_use(root, attempts)
    keys = [each for each in (os.listdir(root) if os.path.isdir(root) else []) if not each.endswith(".lock")]
    gone, free = [], _free_bytes(root) if keys else 0
    wanted = free + wanted_bytes
    for key in sorted(set(keys) - busy, key=lambda each: -_unused_for(root, each)):
        if free >= wanted:
            break
        if clean_one(root, key, unused_s):
            before, free = free, _free_bytes(root)
            gone.append((key, max(0, free - before)))
    return gone


def clean_one(root: str, key: str, unused_s: float) -> bool:
    """Remove an environment that nothing has used for so long; whether it went. Raises OSError."""
    if not _is_old(root, key, unused_s):
        return False
    with _locked(root, key, wait=False) as lock:
        if lock < 0 or not _is_old(root, key, unused_s):
            return False
        remove("%s/%s" % (root, key))
        os.unlink("%s/%s.lock" % (root, key))
        return True


def command(root: str, in_use: List[str]) -> List[str]:
    """What removes unused environments but these; the agent's code must be in its PYTHONPATH."""
    return [sys.executable, "-S", "-m", "hostler.agent.environments", root, *in_use]


class _Build:
    """One build, by the commands of the tools that are on the node."""

    def __init__(
        self,
        made: Environment,
        folder: str,
        path: str,
        base: Python,
        env: Dict[str, str],
        lock: int,
        limit_s: Optional[float],
    ) -> None:
        self._made = made
        self._limit_s = limit_s
        self._began = time.monotonic()
        self._file = os.path.join(folder, path)
        self._base = base
        self._env = {name: value for name, value in env.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
        self._lock = lock
        self._uv = _program("uv", env, _UV_PLACES)

    def run(self, kind: str) -> None:
        """Build it. Raises BuildError."""
        if kind == CONDA:
            self._with_conda()
        elif kind == UV_LOCK:
            self._with_lock_file()
        elif self._uv is not None:
            self._call(self._uv, "venv", "--python", self._base.path, self._made.path)
            self._call(self._uv, "pip", "install", "--python", self._made.path + "/bin/python", "-r", self._file)
        else:
            self._with_pip(kind)

    def _with_pip(self, kind: str) -> None:
        self._call(self._base.path, "-m", "venv", self._made.path)
        python, wanted = self._made.path + "/bin/python", self._file
        if kind == PYPROJECT:
            wanted = os.path.dirname(self._made.path) + "/requirements.txt"
            self._call(python, "-c", _DEPENDENCIES, self._file, wanted)
        self._call(python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "-r", wanted)

    def _with_lock_file(self) -> None:
        if self._uv is None:
            raise BuildError("uv.lock needs the program uv, which is not in the PATH of this node")
        env = {**self._env, "UV_PROJECT_ENVIRONMENT": self._made.path}
        sync = ("sync", "--frozen", "--no-install-project", "--no-install-workspace", "--python", self._base.path)
        self._call(self._uv, *sync, env=env)

    def _with_conda(self) -> None:
        found = next((each for each in (_program(name, self._env) for name in _CONDA_PROGRAMS) if each), None)
        if found is None:
            raise BuildError(
                "%s needs one of the programs %s, and none is in the PATH of this node"
                % (os.path.basename(self._file), ", ".join(_CONDA_PROGRAMS))
            )
        words = ("create",) if found.endswith("/micromamba") else ("env", "create")
        self._call(found, *words, "--yes", "--prefix", self._made.path, "--file", self._file)

    def _call(self, *command: str, env: Optional[Dict[str, str]] = None) -> None:
        folder = os.path.dirname(self._file)
        _say("$ " + " ".join("-c …" if "\n" in word else word for word in command))
        try:
            process = subprocess.Popen(
                command, env=env or self._env, cwd=folder, stdin=subprocess.DEVNULL, pass_fds=(self._lock,)
            )
        except OSError as error:
            raise BuildError("cannot start %s: %s" % (command[0], error.strerror)) from None
        try:
            status = process.wait(self._left_s())
        except subprocess.TimeoutExpired:
            _end(process)
            raise BuildError(_too_long(os.path.basename(self._file), self._limit_s or 0.0, command[0])) from None
        if status != 0:
            how = "was ended by signal %d" % -status if status < 0 else "ended with status %d" % status
            raise BuildError("%s %s" % (os.path.basename(command[0]), how))

    def _left_s(self) -> Optional[float]:
        return None if self._limit_s is None else max(0.0, self._began + self._limit_s - time.monotonic())


def _too_long(what: str, limit_s: float, program: str) -> str:
    return (
        "the build of %s took longer than %g s and was ended while %s ran. Raise limits.environment_build_s of the "
        "fleet file, or use `--python-env none` with an environment that is there"
        % (what, limit_s, os.path.basename(program))
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command and what it has started: all carry the folder of the attempt, as this process does."""
    folder = os.environ.get("HOSTLER_ATTEMPT_DIR")
    if folder is not None:
        procs.kill_tree("HOSTLER_ATTEMPT_DIR=" + folder, spared=os.getpid())
    process.kill()
    process.wait()


def _described(python: str, env: Dict[str, str], limit_s: Optional[float]) -> Python:
    """Raises BuildError where the interpreter does not answer."""
    program = _program(python, env)
    if program is None:
        raise BuildError("there is no program %s in the PATH of this node" % python)
    try:
        said = subprocess.check_output([program, "-c", _ABOUT], env=env, stdin=subprocess.DEVNULL, timeout=limit_s)
        path, version, platform = json.loads(said.decode("utf-8"))
    except subprocess.TimeoutExpired:
        raise BuildError(_too_long("the environment", limit_s or 0.0, program)) from None
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise BuildError("%s is not a Python that can be used: %s" % (program, error)) from None
    return Python(str(path), "%s on %s" % (version, platform))


def _program(name: str, env: Dict[str, str], others: "tuple[str, ...]" = ()) -> Optional[str]:
    found = which(name, path=env.get("PATH", os.defpath))
    places = (os.path.expanduser(each) for each in others)
    return found or next((each for each in places if os.access(each, os.X_OK)), None)


@contextmanager
def _locked(root: str, key: str, wait: bool = True) -> Iterator[int]:
    """The descriptor of the lock; -1 where another has it and it is not waited for. Raises OSError.

    A lock file that was removed while it was waited for protects nothing: then there is another.
    """
    path = "%s/%s.lock" % (root, key)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _has_lock(lock, key, wait):
                yield -1
                return
            if _is_same(lock, path):
                yield lock
                return
        finally:
            os.close(lock)


def _has_lock(lock: int, key: str, wait: bool) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            return False
        _say("another attempt builds the environment %s here; its build is waited for" % key[:12])
        fcntl.flock(lock, fcntl.LOCK_EX)
    return True


def _is_same(lock: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def _is_complete(root: str, made: Environment) -> bool:
    """Whether it was built to its end, and its interpreter is still there: that of the node may be gone."""
    marked = os.path.exists("%s/%s/%s" % (root, made.key, _COMPLETE))
    return marked and (made.conda or os.access(made.path + "/bin/python", os.X_OK))


def _complete(root: str, made: Environment, path: str, base: Python) -> None:
    with open("%s/%s/%s" % (root, made.key, _COMPLETE), "w") as target:
        json.dump({"file": path, "python": base.about, "at": time.time()}, target)
        target.flush()
        os.fsync(target.fileno())


def _is_old(root: str, key: str, unused_s: float) -> bool:
    """Whether it was last used, or its build was last begun, so long ago."""
    return _unused_for(root, key) >= unused_s


def _unused_for(root: str, key: str) -> float:
    """How long ago it was last used, or its build was last begun; less than nothing where there is none."""
    for name in ("%s/%s" % (key, _COMPLETE), key):
        try:
            return time.time() - os.stat("%s/%s" % (root, name)).st_mtime
        except (FileNotFoundError, NotADirectoryError):
            continue
    return -1.0


def _keys_in_use(root: str, attempts: str) -> "set[str]":
    """By what the setup of each attempt has noted, and by the variables of all processes."""
    from .setup import outcome  # which needs this module

    names = os.listdir(attempts) if os.path.isdir(attempts) else []
    noted = [outcome("%s/%s" % (attempts, name)) for name in names]
    found = {each.key for each in noted if each is not None and each.key is not None}
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        below = (each for each in procs.values_of(variable) if each.startswith(root + "/"))
        found.update(each[len(root) + 1 :].partition("/")[0] for each in below)
    return found


def _free_bytes(root: str) -> int:
    told = os.statvfs(root)
    return told.f_bavail * told.f_frsize


def _say(text: str) -> None:
    sys.stdout.write("hostler: %s\n" % text)
    sys.stdout.flush()


def main(arguments: List[str]) -> int:
    """Remove what is not used any more; returns the exit status."""
    try:
        gone = clean(arguments[0], arguments[1:])
    except OSError as error:
        sys.stderr.write("hostler agent: an unused Python environment cannot be removed: %s\n" % error)
        return 1
    if gone:
        sys.stderr.write("hostler agent: removed Python environments unused for 14 days: %s\n" % ", ".join(gone))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
