"""`python -m hostler`: the command line."""

from hostler.cli.main import main

main()
