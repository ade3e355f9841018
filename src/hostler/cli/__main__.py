"""``python -m hostler.cli``."""

from hostler.cli.entry import main

main()
