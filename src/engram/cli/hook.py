"""`engram hook`: the command that a coding agent runs at its events."""

from __future__ import annotations

from typing import NoReturn

import click

from engram.cli.invocation import Invocation
from engram.cli.options import CLIENTS, Command, agent_option, no_project_option


class Hook(Command):
    """A command that exits with 0 even after a usage error: to clients, exit code 2 means to block a tool call."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options; after a usage error, print it and do nothing."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            self._give_up(ctx, error)

    def _give_up(self, ctx: click.Context, error: click.UsageError) -> NoReturn:
        click.echo(f"engram hook: nothing was done: {error.format_message()}", err=True)
        ctx.exit(0)


@click.command("hook", cls=Hook)
@click.argument("event")
@click.option(
    "--client",
    type=click.Choice(CLIENTS),
    default="claude",
    show_default=True,
    help="The client; it decides the format of the answer.",
)
@agent_option
@click.option(
    "--seconds", type=float, default=2.0, show_default=True, help="The time limit; after it the answer is empty."
)
@click.option("--block", is_flag=True, help="Block a tool call that a check blocks; without it, only warn.")
@click.option("--wait", is_flag=True, help="Store before the command ends, instead of in the background.")
@no_project_option
@click.pass_context
def command(
    ctx: click.Context,
    event: str,
    client: str,
    agent: str | None,
    seconds: float,
    block: bool,
    wait: bool,
    no_project: bool,
) -> None:
    """Handle an event of a coding agent, given as JSON on standard input.

    SessionStart and UserPromptSubmit recall memories, PreToolUse checks the call, PostToolUse and PostToolUseFailure
    learn from its outcome, and PreCompact, Stop and SessionEnd store the turns of the session. The exit code is always
    0, so that the session goes on.
    """
    from engram.hooks.entry import main

    arguments = [event, f"--client={client}", f"--seconds={seconds}"]
    arguments += [f"--agent={agent}"] if agent is not None else []
    arguments += [f"--db={db}"] if (db := ctx.ensure_object(Invocation).db) is not None else []
    arguments += [f"--{name}" for name, on in {"block": block, "wait": wait, "no-project": no_project}.items() if on]
    ctx.exit(main(arguments))
