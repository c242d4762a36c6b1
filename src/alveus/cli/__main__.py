"""Run the command line: ``python -m alveus.cli``."""

from alveus.cli import main

main()
