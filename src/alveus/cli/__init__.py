"""The command line: `alveus`, or ``python -m alveus``. docs/cli.md has every command."""

import sys
from typing import TYPE_CHECKING, NoReturn

from alveus.values.lazy import lazy_names

if TYPE_CHECKING:
    from alveus.cli.app import alveus

__all__ = ["alveus", "main"]

_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line of this process. Ctrl-C ends it even while modules are imported."""
    try:
        from alveus.cli.app import main as run
    except KeyboardInterrupt:
        print("alveus: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    run()


if not TYPE_CHECKING:  # otherwise any name would be an attribute of the package
    __getattr__ = lazy_names(__name__)
