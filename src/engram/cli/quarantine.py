"""`engram quarantine`: memories that were set apart, and what becomes of them."""

from __future__ import annotations

import click

from engram.cli.options import Group, agent_option
from engram.cli.render import dump, glance, print_facts, print_json, print_table
from engram.cli.state import State
from engram.cli.text import block, inline, moment
from engram.errors import NotFound


@click.group("quarantine", cls=Group)
def command() -> None:
    """Review what was set apart.

    A memory from a tool, a page or a file that reads like an instruction to the agent is kept, but nothing finds it
    until somebody releases it. What was derived from a grant that was revoked is set apart, too.
    """


@command.command("list")
@agent_option
@click.pass_obj
def list_(state: State, agent: str | None) -> None:
    """List what is set apart, the newest first."""
    with state.brain() as brain:
        found = state.writer(brain, agent).quarantine.list()
    if state.json:
        print_json(dump(found))
    elif not found:
        click.echo("Nothing is set apart.")
    else:
        rows = [[each.id, moment(each.at), inline(each.reason), glance(each.memory.text)] for each in found]
        print_table(["ID", "SINCE", "WHY", "TEXT"], rows)


@command.command("show")
@click.argument("id")
@agent_option
@click.pass_obj
def show(state: State, id: str, agent: str | None) -> None:
    """Show one memory that is set apart, and why."""
    with state.brain() as brain:
        found = state.writer(brain, agent).quarantine.get(id)
    if state.json:
        print_json(found.model_dump(mode="json"))
        return
    memory = found.memory
    print_facts({"id": found.id, "why": found.reason, "since": moment(found.at), "origin": memory.provenance.origin})
    click.echo(block(memory.text))


@command.command("release")
@click.argument("id")
@agent_option
@click.pass_obj
def release(state: State, id: str, agent: str | None) -> None:
    """Give a memory back: it can be found again."""
    with state.brain() as brain:
        memory = state.writer(brain, agent).quarantine.release(id)
    if state.json:
        print_json(memory.model_dump(mode="json"))
    else:
        click.echo(f"Released {memory.id}.")


@command.command("discard")
@click.argument("id")
@agent_option
@click.pass_obj
def discard(state: State, id: str, agent: str | None) -> None:
    """Forget a memory that is set apart."""
    with state.brain() as brain:
        receipt = state.writer(brain, agent).quarantine.discard(id)
    if not receipt.forgotten:
        raise NotFound(f"nothing called {id!a} is set apart; `engram quarantine list` shows what is")
    if state.json:
        print_json(receipt.model_dump(mode="json"))
    else:
        click.echo(f"Forgot {receipt.id}.")
