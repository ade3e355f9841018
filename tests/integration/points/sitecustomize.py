"""Has a controller die at one point of its work, as by `kill -9`; other processes pass: see `faultpoints.py`."""

import os
import sys

if os.environ.get("FAULT_POINT") and "hostler" in sys.orig_argv and "up" in sys.orig_argv:
    import faultpoints

    faultpoints.install(os.environ["FAULT_POINT"])
