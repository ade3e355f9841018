"""Attempts and workers that run as another user than the agent, which has to be root for that (setting ``job_user``).

The agent checks that the user is there and can come to the folders of the agent; it lets the user pass through these,
and read none. A small program, begun as root, gives the folders of the attempt to the user, becomes that user for good
and then becomes the command: same pid, same session. The user can read neither the agent's socket, its journal and its
token, nor the folders of other users.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
from contextlib import suppress
from typing import Dict, List, NamedTuple, NoReturn, Optional

from . import compiled, procs
from .procs import SpawnError
from .setup import FAILED

_PASS = 0o711
_OTHERS_PASS = 0o001
_START = (
    "import sys; sys.path[:0] = sys.argv[1].split(':'); from hostler.agent.dropping import main; main(sys.argv[2:])"
)


class User(NamedTuple):
    """Who to become; ``name`` is None for a number that has none."""

    uid: int
    gid: int
    name: Optional[str]
    home: Optional[str]


def user_of(text: str) -> User:
    """A user by name or number; a number need not be in the system's list. Raises SpawnError."""
    try:
        entry = pwd.getpwuid(int(text)) if text.isdigit() else pwd.getpwnam(text)
    except KeyError:
        if not text.isdigit():
            raise SpawnError("there is no user %.64r on this machine (`job_user`)" % text, permanent=True) from None
        return User(int(text), int(text), None, None)
    return User(entry.pw_uid, entry.pw_gid, entry.pw_name, entry.pw_dir)


def command(code: str, text: str, directory: str, folder: str, cwd: Optional[str]) -> List[str]:
    """What is put before the command of work that runs as that user. Raises SpawnError where it cannot be.

    ``code`` is the agent's program, ``directory`` its folder, ``folder`` that of the work, ``cwd`` where it starts.
    """
    if os.geteuid() != 0:
        words = "the agent runs as user %d and not as root: it cannot run work as %.64r (`job_user`)"
        raise SpawnError(words % (os.geteuid(), text), permanent=True)
    user = user_of(text)
    if user.uid == 0:
        raise SpawnError("`job_user` is root, whom nothing is kept from; name another user", permanent=True)
    owned = [folder] + ([cwd] if cwd is not None and cwd.startswith(directory + "/") else [])
    _let_pass(directory, owned)
    blocked = _blocked(directory, user)
    if blocked is not None:
        words = "user %.64r cannot enter %s, in which the agent's folder is; `chmod o+x` it, or set `dir` of the node"
        raise SpawnError(words % (text, blocked), permanent=True)
    told = {"user": text, "owned": owned, "folder": folder}
    return [sys.executable, "-I", "-S", "-c", _START, compiled.search_path(code), json.dumps(told)]


def main(arguments: List[str]) -> None:
    """Become the user, and then the command. Does not return."""
    told, argv, env = json.loads(arguments[0]), arguments[1:], dict(os.environ)
    try:
        user = user_of(told["user"])
        for folder in told["owned"]:
            _give(folder, user)
        if user.name is None:
            os.setgroups([])
        else:
            os.initgroups(user.name, user.gid)
        os.setgid(user.gid)
        os.setuid(user.uid)
        env.update(_named(user, told["folder"]))
        program = procs.Programs().find(argv[0], env.get("PATH", os.defpath))
        os.execve(program, argv, env)  # noqa: S606 - no shell is what is wanted
    except (OSError, SpawnError) as error:
        _fail("cannot run %.200r as user %.64r: %s" % (argv[0], told["user"], error))


def _named(user: User, folder: str) -> Dict[str, str]:
    name = user.name or str(user.uid)
    home = user.home if user.home is not None and os.path.isdir(user.home) else folder
    return {"HOME": home, "USER": name, "LOGNAME": name}


def _let_pass(directory: str, owned: List[str]) -> None:
    """Let others pass through the agent's folder, and list none of it. Raises SpawnError."""
    try:
        os.chmod(directory, _PASS)
        for folder in owned:
            above = os.path.dirname(folder)
            while above.startswith(directory + "/"):
                os.chmod(above, _PASS)
                above = os.path.dirname(above)
    except OSError as error:
        raise SpawnError("cannot let `job_user` come to its folder: %s" % error) from None


def _blocked(directory: str, user: User) -> Optional[str]:
    """The topmost folder above the agent's that a user cannot enter; by its mode alone."""
    above, found = os.path.dirname(directory), None
    while above != "/":
        state = os.stat(above)
        bits = 0o100 if state.st_uid == user.uid else 0o010 if state.st_gid == user.gid else _OTHERS_PASS
        found = found if state.st_mode & bits else above
        above = os.path.dirname(above)
    return found


def _give(folder: str, user: User) -> None:
    """Make a folder, and all that is in it, the user's. Links are not followed."""
    os.lchown(folder, user.uid, user.gid)
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            with suppress(FileNotFoundError):
                os.lchown(os.path.join(parent, name), user.uid, user.gid)


def _fail(error: str) -> NoReturn:
    with suppress(OSError):
        os.write(2, ("hostler: %s\n" % error).encode("utf-8", "replace"))
    os._exit(FAILED)
