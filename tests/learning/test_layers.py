"""The controller's core imports this folder: nothing in it but `ratings` may load openskill, and nothing numpy."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import hostler.learning


def test_only_ratings_needs_what_is_not_always_there() -> None:
    names = {module.name for module in pkgutil.iter_modules(hostler.learning.__path__)} - {"ratings"}
    assert {"elo", "matches", "plan", "sprt", "velocity"} <= names
    imports = "\n".join(f"import hostler.learning.{name}" for name in sorted(names))
    check = "assert not {'openskill', 'numpy', 'hostler.learning.ratings'} & sys.modules.keys(), sys.modules.keys()"
    ours = "assert {n.split('.')[1] for n in sys.modules if n.startswith('hostler.')} <= {'learning', 'model'}"
    program = f"import sys\n{imports}\n{check}\n{ours}\n"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
