"""`engram completion`: shell scripts that complete commands and options."""

from __future__ import annotations

import click

from engram.cli.invocation import Invocation
from engram.cli.options import Command
from engram.cli.render import print_json


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  engram completion bash > ~/.local/share/bash-completion/completions/engram
    zsh:   engram completion zsh > a file called _engram in a folder of $fpath
    fish:  engram completion fish > ~/.config/fish/completions/engram.fish
    """  # noqa: D301 - \b is click's mark for lines that are not wrapped
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    script = found(ctx.find_root().command, {}, "engram", "_ENGRAM_COMPLETE").source()
    if ctx.ensure_object(Invocation).json:
        print_json(script)
    else:
        click.echo(script)
