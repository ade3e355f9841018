"""``python -m hostler.cli``."""

from hostler.cli.main import main

main()
