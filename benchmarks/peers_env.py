"""The peers' own environments, `benchmarks/.venv-NAME` of `requirements-NAME.txt`, apart from Hostler's dependencies.

By hand: `python benchmarks/peers_env.py [NAME]` makes one if need be and prints the path of its python.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
USUAL = "peers"


def ensure(name: str = USUAL) -> Path:
    """Return the environment's python; make the environment first unless its stamp says that it is up to date.

    Raises subprocess.CalledProcessError when venv or pip fails; the next call then starts from an empty directory.
    """
    requirements, venv = HERE / f"requirements-{name}.txt", HERE / f".venv-{name}"
    python, stamp = venv / "bin" / "python", venv / "stamp"
    wanted = _fingerprint(requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making {venv.name} from {requirements.name} (hundreds of MB, once)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
    subprocess.run([python, "-m", "pip", "install", "-qq", "-r", requirements], check=True, stdout=sys.stderr)
    stamp.write_text(wanted)
    return python


def _fingerprint(requirements: Path) -> str:
    return hashlib.sha256(sys.version.encode() + requirements.read_bytes()).hexdigest()


if __name__ == "__main__":
    print(ensure(*sys.argv[1:2]))
