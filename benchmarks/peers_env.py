"""The peers' own environment, `benchmarks/.venv-peers`, kept apart from Hostler's dependencies.

By hand: `python benchmarks/peers_env.py` makes it if need be and prints the path of its python.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements-peers.txt"
VENV = HERE / ".venv-peers"


def ensure() -> Path:
    """Return the environment's python; make the environment first unless its stamp says that it is up to date.

    Raises subprocess.CalledProcessError when venv or pip fails; the next call then starts from an empty directory.
    """
    python, stamp = VENV / "bin" / "python", VENV / "stamp"
    wanted = _fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making {VENV.name} from {REQUIREMENTS.name} (about 400 MB, once)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
    subprocess.run([python, "-m", "pip", "install", "-qq", "-r", REQUIREMENTS], check=True, stdout=sys.stderr)
    stamp.write_text(wanted)
    return python


def _fingerprint() -> str:
    return hashlib.sha256(sys.version.encode() + REQUIREMENTS.read_bytes()).hexdigest()


if __name__ == "__main__":
    print(ensure())
