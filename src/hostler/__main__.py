"""`python -m hostler`: the command line."""

from hostler.cli.entry import main

main()
