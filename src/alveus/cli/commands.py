"""The commands of `alveus`, in alphabetical order, and where each is defined.

A command's module is imported when the command is used: `alveus --version` needs no memory, and
`alveus --help` no command.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import NamedTuple, cast

import click


class Listed(NamedTuple):
    """A command: its name, its module, and its line of help."""

    name: str
    module: str
    help: str

    def load(self) -> click.Command:
        """Import the command, which is called ``NAME_command`` in its module."""
        if self.name not in EMBEDDING_MANY:
            # Before NumPy is imported: starting a second OpenBLAS thread takes 60 ms of CPU.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        module = import_module(f"alveus.cli.{self.module}")
        return cast("click.Command", getattr(module, f"{self.name.replace('-', '_')}_command"))


COMMANDS = (
    Listed("about", "facts", "Show what is known of a person, a place or a thing."),
    Listed("add", "items", "Add an item to a set."),
    Listed("backup", "maintenance", "Write a copy of the memory to a file."),
    Listed("chat", "chat", "Talk with a model that remembers."),
    Listed("compact", "compaction", "Compact the sets that have reached their mark."),
    Listed("compactions", "compaction", "List the compactions of a set, the latest first."),
    Listed("completion", "app", "Print the completion script of a shell."),
    Listed("context", "items", "Make a prompt for a question, within a budget of tokens."),
    Listed("delete", "items", "Delete items; their history is kept."),
    Listed("demo", "demo.command", "Show in a minute what alveus does."),
    Listed("diff", "exact_memory", "Show what changed in a key's memory between two moments."),
    Listed("doctor", "maintenance", "Check the memory; say what is wrong and what to do."),
    Listed("export", "import_export", "Write the memory as JSON lines, which import reads."),
    Listed("facts", "facts", "List the facts of a key, explain, check and undo them."),
    Listed("flink", "flink", "Run agents on Apache Flink."),
    Listed("forget", "forgetting", "Erase a key, or items of it, for good."),
    Listed("get", "exact_memory", "Print one value of exact memory."),
    Listed("grant", "maintenance", "Let a user of PostgreSQL use a space, or a knowledge."),
    Listed("grants", "maintenance", "List which users of PostgreSQL may use which spaces."),
    Listed("import", "import_export", "Import an export, chats, or another system's memories."),
    Listed("keys", "listing", "List the keys of the space."),
    Listed("learn", "facts", "Learn facts from a conversation of a key."),
    Listed("lineage", "compaction", "Draw what an item was derived from, as a tree."),
    Listed("list", "items", "List the items of a set by time."),
    Listed("mcp", "serve", "Serve the memory of a key to clients of MCP, until it is stopped."),
    Listed("migrate", "maintenance", "Copy a memory, with its history, into an empty one."),
    Listed("profile", "facts", "Print the facts about somebody, within a budget of tokens."),
    Listed(
        "prune-history", "exact_memory", "Remove the values that exact memory had before a time."
    ),
    Listed("quarantine", "items", "Review the items that rules of admission held back."),
    Listed("receipts", "forgetting", "List what was forgotten, or show one receipt."),
    Listed("recent", "items", "List the last items of a set, the latest at the end."),
    Listed("recover", "run_agents", "Finish the runs that a crash left."),
    Listed("reindex", "maintenance", "Change the embedder of the space."),
    Listed("replay", "runs", "Show what each action of a run read, wrote and sent."),
    Listed("restore", "maintenance", "Replace the memory by a backup."),
    Listed("revoke", "maintenance", "Take back the rights that grant gave."),
    Listed("rm", "exact_memory", "Remove a value or an object from exact memory."),
    Listed("run", "run_agents", "Run an agent on inputs, each input once."),
    Listed("runs", "runs", "Look at runs; retry or discard those that failed."),
    Listed("scrub", "forgetting", "Remove what was erased from the files of the memory."),
    Listed("search", "items", "Find the items that answer a question best."),
    Listed("serve", "serve", "Serve the memory over HTTP, until it is stopped."),
    Listed("set", "exact_memory", "Set one value of exact memory."),
    Listed("sets", "listing", "List the sets of a key, of knowledge, or of the space."),
    Listed("show", "items", "Show an item with all its fields."),
    Listed("shrink", "maintenance", "Give free space in the file back to the disk."),
    Listed("stats", "listing", "Show the size of the memory and the work that is pending."),
    Listed("token", "serve", "Make, list, rotate and revoke the tokens of a server."),
    Listed("tree", "exact_memory", "Show the exact memory of a key, or a part of it."),
    Listed("ui", "serve", "Show the memory in a browser, until the command is stopped."),
    Listed("undo", "compaction", "Undo a compaction."),
    Listed("upgrade", "maintenance", "Bring the memory to the schema that this alveus needs."),
    Listed("version", "listing", "Show the versions of alveus and its dependencies."),
)
"""Every command. A test compares each line of help with the docstring of the command."""

EMBEDDING_MANY = frozenset(
    ("chat", "compact", "demo", "flink", "import", "learn", "mcp", "recover", "reindex", "run")
) | {"serve", "ui"}
"""Commands that may embed many texts. More threads make these faster."""

BY_NAME = {listed.name: listed for listed in COMMANDS}


class LazyGroup(click.Group):
    """A group that knows its commands by name, and imports only the command that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        _ = ctx
        return [listed.name for listed in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command. Return None if no command has this name."""
        _ = ctx
        listed = BY_NAME.get(cmd_name)
        return None if listed is None else listed.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that *args* begin with.

        The error of a wrong name suggests the nearest.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # only needed for a wrong name

            near = get_close_matches(args[0], BY_NAME, n=1)
            if not near:
                raise
            ctx.fail(f"{error.format_message().rstrip('.')}; did you mean {near[0]!r}?")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, without importing a command."""
        _ = ctx
        with formatter.section("Commands"):
            formatter.write_dl([(listed.name, listed.help) for listed in COMMANDS])
