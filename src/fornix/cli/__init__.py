"""The command line: `fornix`, or ``python -m fornix``. docs/cli.md has every command."""

import sys
from typing import TYPE_CHECKING, NoReturn

from fornix.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from fornix.cli.app import fornix

__all__ = ["fornix", "main"]

_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line of this process; Ctrl-C ends it also while it is imported."""
    try:
        from fornix.cli.app import main as run
    except KeyboardInterrupt:
        print("fornix: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    run()


if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(__name__, {"fornix.cli.app": ["fornix"]})
