"""`python -m berth` is the `berth` command."""

from berth.cli.app import main

main()
