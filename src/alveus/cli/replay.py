"""What a run did, step by step: replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from alveus.cli import options, output
from alveus.cli.runs import RUN, require
from alveus.cli.session import Session
from alveus.server.run_traces import Fields, Trace, TraceStep, input_of


@options.command("replay")
@RUN
def replay_command(session: Session, *, number: int) -> None:
    """Show what each action of a run read, wrote and sent.

    Nothing is run again. Values and items are shown as they were then; values of sensory memory
    only until the run is done. With --json a line per step: {"step": …, "action": …,
    "commit": …, "time": …, "skipped": …, "read": {…}, "wrote": {…}, "calls": […], "sent": […],
    "outputs": […]}.

    Example: alveus replay 17
    """
    with session.open(mode="ro") as memory:
        row = require(session, memory, number)
        trace = Trace(memory, row)
        if not session.json:
            read = output.one_line(output.inline(output.wired(input_of(row))))
            click.echo(f"run {row.id} of {output.one_line(f'{row.agent}, key {row.scope.key}')}")
            click.echo(f"  input  {read}")
        for step in trace.steps():
            if session.json:
                output.document({**step})  # pyright: ignore[reportArgumentType] - JSON, with its fields typed
            else:
                _show(step)
        unfinished = trace.unfinished()
        if unfinished is not None and not session.json:
            click.echo(f"\n{unfinished['step']}  not done yet")
            for line in _calls(unfinished["calls"]):
                click.echo(line)


def _show(step: TraceStep) -> None:
    title = click.style(output.one_line(step["action"]), bold=True)
    skipped = "  failed, and was skipped" if step["skipped"] else ""
    click.echo(f"\n{step['step']}  {title}  commit {step['commit']}, {step['time']}{skipped}")
    for line in (*_read(step), *_wrote(step), *_calls(step["calls"]), *_sent(step)):
        click.echo(line)


def _line(verb: str, said: str) -> str:
    return f"  {click.style(verb.ljust(6), dim=True)} {output.one_line(said)}"


def _read(step: TraceStep) -> Iterator[str]:
    read = step["read"]
    for memory in ("short_term", "sensory"):
        for each in read[memory]:
            yield _line("read", f"{memory} {_node(each)}")
    for each in read["items"]:
        yield _line("read", _item(each))
    for search in read["searches"]:
        yield _line("search", f"{', '.join(search['sets'])}: {search['query']!r}")
        for hit in search["hits"]:
            yield _line("", f"  {_item(hit)}")


def _wrote(step: TraceStep) -> Iterator[str]:
    wrote = step["wrote"]
    for each in wrote["short_term"]:
        yield _line("wrote", f"short_term {_node(each)}")
    for each in wrote["sensory"] or ():
        yield _line("wrote", f"sensory {_node(each)}")
    for each in wrote["items"]:
        yield _line(str(each["change"]), _item(each))


def _calls(calls: Iterable[Fields]) -> Iterator[str]:
    for each in calls:
        came = {name: each[name] for name in ("result", "error") if each.get(name) is not None}
        told = "".join(f" {output.inline(value)}" for value in came.values())
        tries = f" at try {each['attempts']}" if each["attempts"] != 1 else ""
        yield _line("called", f"{each['function']}() {each['status']}{told}{tries}")


def _sent(step: TraceStep) -> Iterator[str]:
    for each in step["sent"]:
        then = each["sets_off"]
        following = f" -> {', '.join(map(str, then))}" if isinstance(then, list) and then else ""
        yield _line("sent", f"{each['event']} {output.inline(each['data'])}{following}")
    for each in step["outputs"]:
        yield _line("output", f"{each['event']} {output.inline(each['data'])}")


def _node(each: Fields) -> str:
    path = each["path"] if isinstance(each["path"], str) else output.inline(each["path"])
    if "value" in each:
        return f"{path} = {output.inline(each['value'])}"
    said = [name for name in ("object", "missing", "removed", "cleared") if each.get(name)]
    return f"{path or '(all of it)'} {' '.join(said)}"


def _item(each: Fields) -> str:
    text = each["text"]
    return f"{each['set']}/{each['id']}" + ("" if text is None else f": {text}")
