"""The command line: `fornix`, or ``python -m fornix``. docs/cli.md has every command."""

from fornix.cli.app import fornix, main

__all__ = ["fornix", "main"]
