"""The script that a command names, behind the options of its interpreter."""

from __future__ import annotations

import pytest

from hostler.agent.scripts import script_of


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python3 a.py", "a.py"),
        ("/opt/x/bin/python3.12 -u a.py --lr 1", "a.py"),
        ("python -W ignore -Xdev -X utf8 -OO a", "a"),
        ("python -Wignore a.py", "a.py"),
        ("python --check-hash-based-pycs never a.py", "a.py"),
        ("python -- -a.py", "-a.py"),
        ("python -c pass a.py", None),
        ("python -uc pass a.py", None),
        ("python -m pkg a.py", None),
        ("python -um pkg a.py", None),
        ("python - a.py", None),
        ("python --unknown a.py", None),
        ("python", None),
        ("bash a", "a"),
        ("bash -x a", "a"),
        ("bash -euo pipefail a", "a"),
        ("bash +x -o errexit -- a", "a"),
        ("bash --norc --rcfile b a", "a"),
        ("sh - a", "a"),
        ("sh -ec exit a", None),
        ("sh -s a", None),
        ("perl -w -I lib a", "a"),
        ("perl -Ilib -MData::Dumper a", "a"),
        ("perl -ne print a", None),
        ("ruby -I lib -w a.rb", "a.rb"),
        ("ruby -e 1 a.rb", None),
        ("node --require ./b.js a.js", "a.js"),
        ("node --max-old-space-size=4096 a.mjs", "a.mjs"),
        ("node a", None),
        ("node -e 1 a.js", None),
        ("Rscript --vanilla a.R", "a.R"),
        ("Rscript -e 1", None),
        ("julia --project=. -t 4 a.jl", "a.jl"),
        ("julia -e 1 a.jl", None),
        ("make a.py", None),
        ("./a.py b.py", None),
    ],
)
def test_script_is_found_behind_options(command: str, script: str | None) -> None:
    assert script_of(command.split()) == script
