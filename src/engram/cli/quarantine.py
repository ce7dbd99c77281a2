"""`engram quarantine`: review quarantined memories."""

from __future__ import annotations

import click

from engram.cli.formatting import escaped, format_time, one_line
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup, agent_option
from engram.cli.render import preview, print_fields, print_list, print_model
from engram.errors import NotFound


@click.group("quarantine", cls=CommandGroup)
def command() -> None:
    """Review quarantined memories.

    A memory from a tool, a page or a file that reads like an instruction to the agent is stored in quarantine: no
    search, list or pattern includes it until it is released. What was derived from a revoked grant is quarantined too.
    """


@command.command("list")
@agent_option
@click.pass_obj
def list_(cli: Invocation, agent: str | None) -> None:
    """List the quarantined memories, newest first."""
    with cli.brain() as brain:
        found = cli.writer(brain, agent).quarantine.list()
    print_list(
        cli,
        found,
        ["ID", "SINCE", "WHY", "TEXT"],
        lambda each: [each.id, format_time(each.at), one_line(each.reason), preview(each.memory.text)],
        "Nothing is quarantined.",
    )


@command.command("show")
@click.argument("id")
@agent_option
@click.pass_obj
def show(cli: Invocation, id: str, agent: str | None) -> None:
    """Show one quarantined memory, and why it was quarantined."""
    with cli.brain() as brain:
        found = cli.writer(brain, agent).quarantine.get(id)
    memory = found.memory
    if not cli.json:
        origin = memory.provenance.origin
        print_fields({"id": found.id, "why": found.reason, "since": format_time(found.at), "origin": origin})
    print_model(cli, found, escaped(memory.text))


@command.command("release")
@click.argument("id")
@agent_option
@click.pass_obj
def release(cli: Invocation, id: str, agent: str | None) -> None:
    """Release a memory, so that it is found again."""
    with cli.brain() as brain:
        memory = cli.writer(brain, agent).quarantine.release(id)
    print_model(cli, memory, f"Released {memory.id}.")


@command.command("discard")
@click.argument("id")
@agent_option
@click.pass_obj
def discard(cli: Invocation, id: str, agent: str | None) -> None:
    """Delete a quarantined memory for good."""
    with cli.brain() as brain:
        receipt = cli.writer(brain, agent).quarantine.discard(id)
    if not receipt.forgotten:
        raise NotFound(f"{id!a} is not in quarantine; `engram quarantine list` shows what is")
    print_model(cli, receipt, f"Deleted {receipt.id}.")
