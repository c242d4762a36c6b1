"""Shell completion: the script that a shell loads."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from fornix.cli.options import command
from fornix.cli.session import Session

SHELLS = ("bash", "zsh", "fish")


@command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(_session: Session, *, shell: str) -> None:
    """Print the completion script of a shell.

    \b
      bash   eval "$(fornix completion bash)"   in ~/.bashrc
      zsh    eval "$(fornix completion zsh)"    in ~/.zshrc, after compinit
      fish   fornix completion fish > ~/.config/fish/completions/fornix.fish
    """  # noqa: D301 - click reads the \\b: do not wrap
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click knows all three
    script = kind(root, {}, "fornix", "_FORNIX_COMPLETE")
    click.echo(script.source_template % script.source_vars())
