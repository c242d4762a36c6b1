"""Run the command line: ``python -m fornix.cli``."""

from fornix.cli import main

main()
