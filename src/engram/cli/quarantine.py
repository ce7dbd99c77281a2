"""`engram quarantine`: memories that were set apart, and what becomes of them."""

from __future__ import annotations

import click

from engram.cli.formatting import escaped, format_time, one_line
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, agent_option
from engram.cli.render import preview, print_fields, print_json, print_table, to_json
from engram.errors import NotFound


@click.group("quarantine", cls=CommandGroup)
def command() -> None:
    """Review what was set apart.

    A memory from a tool, a page or a file that reads like an instruction to the agent is kept, but nothing finds it
    until somebody releases it. What was derived from a grant that was revoked is set apart, too.
    """


@command.command("list")
@agent_option
@click.pass_obj
def list_(cli: Invocation, agent: str | None) -> None:
    """List what is set apart, the newest first."""
    with cli.brain() as brain:
        found = cli.writer(brain, agent).quarantine.list()
    if cli.json:
        print_json(to_json(found))
    elif not found:
        click.echo("Nothing is set apart.")
    else:
        rows = [[each.id, format_time(each.at), one_line(each.reason), preview(each.memory.text)] for each in found]
        print_table(["ID", "SINCE", "WHY", "TEXT"], rows)


@command.command("show")
@click.argument("id")
@agent_option
@click.pass_obj
def show(cli: Invocation, id: str, agent: str | None) -> None:
    """Show one memory that is set apart, and why."""
    with cli.brain() as brain:
        found = cli.writer(brain, agent).quarantine.get(id)
    if cli.json:
        print_json(found.model_dump(mode="json"))
        return
    memory = found.memory
    print_fields(
        {"id": found.id, "why": found.reason, "since": format_time(found.at), "origin": memory.provenance.origin}
    )
    click.echo(escaped(memory.text))


@command.command("release")
@click.argument("id")
@agent_option
@click.pass_obj
def release(cli: Invocation, id: str, agent: str | None) -> None:
    """Give a memory back: it can be found again."""
    with cli.brain() as brain:
        memory = cli.writer(brain, agent).quarantine.release(id)
    if cli.json:
        print_json(memory.model_dump(mode="json"))
    else:
        click.echo(f"Released {memory.id}.")


@command.command("discard")
@click.argument("id")
@agent_option
@click.pass_obj
def discard(cli: Invocation, id: str, agent: str | None) -> None:
    """Forget a memory that is set apart."""
    with cli.brain() as brain:
        receipt = cli.writer(brain, agent).quarantine.discard(id)
    if not receipt.forgotten:
        raise NotFound(f"nothing called {id!a} is set apart; `engram quarantine list` shows what is")
    if cli.json:
        print_json(receipt.model_dump(mode="json"))
    else:
        click.echo(f"Forgot {receipt.id}.")
