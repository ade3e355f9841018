"""``python -m hostler.workloads.sieve``."""

import sys

from hostler.workloads.sieve.cli import main

sys.exit(main())
