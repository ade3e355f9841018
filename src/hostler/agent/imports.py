"""The modules that a script imports and its interpreter lacks, found before the script is started."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Dict, List, NamedTuple, Optional

_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*")
_WITH_VALUE = ("-W", "-X")
_ANSWER_S = 60.0
_PROBE = """
import ast, importlib.util, json, os, sys
script, module = json.loads(sys.argv[1])
sys.path[0] = os.path.dirname(os.path.abspath(script)) if module is None else os.getcwd()
names, known = [], []
if module is not None:
    places = [module.replace(".", "/") + end for end in (".py", "/__main__.py")]
    script = next((place for place in places if os.path.exists(place)), None)
    if script is None:
        names.append(module)
try:
    with open(script or os.devnull, "rb") as source:
        text = source.read()
    # What a script adds to its path, only the script knows.
    body = [] if b"sys.path" in text else ast.parse(text).body
except (OSError, SyntaxError, ValueError):
    body = []
for node in body:
    if isinstance(node, ast.Import):
        names += [each.name for each in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        names.append(node.module)
for name in (each.partition(".")[0] for each in names):
    try:
        found = name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        found = True
    if not found and name not in known:
        known.append(name)
# A script may add a folder of the project to its path first: whatever is in the project counts as found.
seen, own = 0, set()
for _, folders, files in os.walk(".") if known else ():
    own.update(folders)
    own.update(each.partition(".")[0] for each in files if each.endswith((".py", ".so", ".pyd", ".pyi")))
    seen += len(folders) + len(files)
    if seen > 50000:
        break
known = [name for name in known if name not in own]
print(json.dumps(["python%d.%d" % sys.version_info[:2], known]))
"""


class Missing(NamedTuple):
    """What an interpreter, by its name with its version, lacks."""

    interpreter: str
    modules: List[str]


def is_python(program: str) -> bool:
    """Whether a program is an interpreter of Python, by its name."""
    return _INTERPRETER.fullmatch(os.path.basename(program)) is not None


def missing(program: str, argv: List[str], env: Dict[str, str]) -> Optional[Missing]:
    """The modules that the script of a command imports at its top level and that the interpreter cannot find.

    None where nothing is missing, the command runs no script, or the interpreter does not tell: then the script itself
    will. The script and what is beside it are looked for in the working directory. Standard library of any version: it
    is the interpreter that reads the script.
    """
    target = _target(argv)
    if target is None:
        return None
    try:
        said = subprocess.check_output(
            [program, "-c", _PROBE, json.dumps(target)],
            env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_ANSWER_S,
        )  # fmt: skip
        name, modules = json.loads(said.decode("utf-8").splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return Missing(str(name), [str(each) for each in modules]) if modules else None


def _target(argv: List[str]) -> "Optional[tuple[Optional[str], Optional[str]]]":
    """The script or the module that an interpreter is given, as (script, module)."""
    words = iter(argv[1:])
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word == "-m":
            module = next(words, None)
            return None if module is None else (None, module)
        elif word.startswith("-"):
            if word.startswith("-c") or word == "-":
                return None
        else:
            return word, None
    return None
