"""The commands of `fornix`, in alphabetical order, and where each is defined.

A command's module is imported when the command is used: `fornix --version` needs no memory, and
`fornix --help` no command.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, cast

import click


class Listed(NamedTuple):
    """A command: its name, the module and attribute that hold it, and its line of help."""

    name: str
    module: str
    attribute: str
    help: str

    def load(self) -> click.Command:
        """Import the command."""
        module = import_module(f"fornix.cli.{self.module}")
        return cast("click.Command", getattr(module, self.attribute))


COMMANDS = (
    Listed("add", "items", "add", 'Add an item: TEXT, or what stdin says if TEXT is "-".'),
    Listed(
        "backup", "maintenance", "backup", "Write a copy of the memory, as it is now, to TARGET."
    ),
    Listed(
        "chat",
        "chat",
        "chat",
        "Talk with a model that remembers: fornix chat --key ada --model gpt-4o.",
    ),
    Listed(
        "compact", "compaction", "compact", "Compact the sets of the space that are at their mark."
    ),
    Listed(
        "compactions",
        "compaction",
        "compactions",
        "List the compactions of a set, the latest first.",
    ),
    Listed("completion", "app", "completion", "Print the completion script of a shell."),
    Listed(
        "context",
        "prompts",
        "context",
        "Make a prompt for QUERY from the memory of KEY, within a budget of tokens.",
    ),
    Listed(
        "demo",
        "demo.command",
        "demo",
        "Show what fornix does, in a minute: recall, scores, exact memory, a kill, figures.",
    ),
    Listed(
        "diff",
        "history",
        "diff",
        "Show what changed in the memory of KEY from A to B: commits, or times; without B to now.",
    ),
    Listed(
        "doctor",
        "maintenance",
        "doctor",
        "Look at the memory and its surroundings; say what is wrong and what to do.",
    ),
    Listed(
        "export",
        "import_export",
        "export_file",
        "Write the memory to FILE (by default to stdout) as JSON lines, which import reads.",
    ),
    Listed(
        "forget",
        "forgetting",
        "forget",
        "Erase all of KEY, or items of it, for good; print the receipt.",
    ),
    Listed("get", "items", "get", "Show the item ID with all that is known of it."),
    Listed(
        "import",
        "import_export",
        "import_file",
        'Import FILE ("-": stdin): what export wrote, or chats or the memories of another system.',
    ),
    Listed("keys", "listing", "keys", "List the keys of the space, a line each."),
    Listed(
        "lineage",
        "compaction",
        "lineage",
        "Draw what an item was derived from, to any depth, as a tree.",
    ),
    Listed("list", "items", "list_items", "List the items of a set by time, all of them."),
    Listed(
        "prune-history",
        "history",
        "prune_history",
        "Remove what exact memory was before a time, for good, of all keys.",
    ),
    Listed(
        "quarantine",
        "quarantine",
        "quarantine",
        "Look at what rules of admission hold, and decide.",
    ),
    Listed(
        "receipts",
        "forgetting",
        "receipts",
        "List what was forgotten, the latest first; or show the receipt ID.",
    ),
    Listed("recent", "items", "recent", "Show the last items of a set, the latest at the end."),
    Listed(
        "recover",
        "run_agents",
        "recover",
        "Take up what a crash left: fornix recover my_agent.py:Shop.",
    ),
    Listed(
        "reindex",
        "maintenance",
        "reindex",
        "Give the space another embedder: fornix reindex --embedder NAME.",
    ),
    Listed("replay", "replay", "replay", "Show what each action of a run read, wrote and sent."),
    Listed("restore", "maintenance", "restore", "Replace the whole memory by what BACKUP holds."),
    Listed(
        "rm",
        "exact_memory",
        "remove",
        "Remove what is at PATH in the exact memory of KEY; or items, with --key and --item.",
    ),
    Listed(
        "run",
        "run_agents",
        "run",
        "Run an agent on inputs: fornix run my_agent.py:Shop --input events.jsonl.",
    ),
    Listed("runs", "runs", "runs", "Look at runs, and decide what becomes of those that failed."),
    Listed(
        "scrub",
        "forgetting",
        "scrub",
        "Remove from the files what was erased: rewrites the memory.",
    ),
    Listed(
        "search", "items", "search", "Find the items that answer QUERY best, by words and meaning."
    ),
    Listed("set", "exact_memory", "set_value", "Set VALUE at PATH in the exact memory of KEY."),
    Listed(
        "sets",
        "listing",
        "sets",
        "List the sets of a key, of knowledge, or of all keys of the space.",
    ),
    Listed(
        "shrink",
        "maintenance",
        "shrink",
        "Give free room back to the disk, and first remove what is kept no longer.",
    ),
    Listed("stats", "listing", "stats", "Show how much there is, what waits, and who is at work."),
    Listed(
        "tree", "exact_memory", "tree", "Show the exact memory of KEY, or what is at PATH in it."
    ),
    Listed(
        "undo",
        "compaction",
        "undo",
        "Undo a compaction: bring back what it retired, remove what it put in its place.",
    ),
    Listed(
        "version",
        "listing",
        "version",
        "Show the versions of fornix, its store schema, SQLite, numpy and Python.",
    ),
)
"""Every command. A test holds each line of help against that of the command itself."""

BY_NAME = {listed.name: listed for listed in COMMANDS}


class LazyGroup(click.Group):
    """A group that knows its commands by name, and imports the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        _ = ctx
        return [listed.name for listed in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of that name."""
        _ = ctx
        listed = BY_NAME.get(cmd_name)
        return None if listed is None else listed.load()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, importing none."""
        _ = ctx
        width = formatter.width - 6 - max(len(listed.name) for listed in COMMANDS)
        with formatter.section("Commands"):
            formatter.write_dl([(one.name, _cut(one.help, width)) for one in COMMANDS])


def _cut(text: str, width: int) -> str:
    """Return the first words of a line of help that fit, as click shortens them."""
    return click.Command(None, help=text).get_short_help_str(width)
