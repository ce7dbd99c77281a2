"""`engram hook`: what a coding agent runs at its events."""

from __future__ import annotations

from typing import NoReturn

import click

from engram.cli.invocation import Invocation
from engram.cli.options import Command


class Hook(Command):
    """A command that ends well whatever it is given: to clients, exit code 2 means to stop a tool call."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; what is wrong with them is said, and nothing is done."""
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
    type=click.Choice(["claude", "codex", "cursor"]),
    default="claude",
    show_default=True,
    help="Who asks, and in which form it wants the answer.",
)
@click.option("--agent", metavar="NAME", help="Whose memory. Default: the `agent` setting, else `default`.")
@click.option(
    "--seconds", type=float, default=2.0, show_default=True, help="How long it may take; then the answer is empty."
)
@click.option("--block", is_flag=True, help="Stop a tool call that a check blocks; without it, only warn.")
@click.option("--wait", is_flag=True, help="Store before it ends, instead of in the background.")
@click.option(
    "--no-project",
    is_flag=True,
    help="Take no settings from an engram.toml of the working folder, which somebody else may have written.",
)
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
    """Answer an event of a coding agent, told as JSON on standard input.

    SessionStart and UserPromptSubmit recall, PreToolUse checks, PostToolUse and PostToolUseFailure learn, PreCompact,
    Stop and SessionEnd keep the turns of the session. Whatever happens, the exit code is 0 and the session goes on.
    """
    from engram.hooks.fast import main

    words = [event, f"--client={client}", f"--seconds={seconds}"]
    words += [f"--agent={agent}"] if agent is not None else []
    words += [f"--db={db}"] if (db := ctx.ensure_object(Invocation).db) is not None else []
    words += [f"--{name}" for name, said in {"block": block, "wait": wait, "no-project": no_project}.items() if said]
    ctx.exit(main(words))
