"""Run the command line: ``python -m alveus``."""

from alveus.cli import main

main()
