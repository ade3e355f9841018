"""What the machine is that this runs on, as about.json: a file that a job leaves, and that Hostler fetches."""

import json
import os
import platform
import shutil
from pathlib import Path


def main() -> None:
    """Write the file."""
    usage = shutil.disk_usage(".")
    about = {
        "host": platform.node(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "disk_free_gb": round(usage.free / 1e9, 1),
    }
    Path("about.json").write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
