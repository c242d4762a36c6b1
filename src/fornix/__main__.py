"""Run the command line: ``python -m fornix``."""

from fornix.cli import main

main()
