"""The `engram` command. Each module defines one command or group: it parses options, calls the engine, and prints.

Only click is imported before a command is chosen, so that `--help` and completion are fast.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from engram import __version__
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup
from engram.errors import EngramError, MissingExtra

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS = (
    "memory",
    "learning",
    "prevention",
    "fact",
    "skill",
    "agent",
    "knowledge",
    "grant",
    "quarantine",
    "retention",
    "audit",
    "crypt",
    "serve",
    "key",
    "mcp",
    "hook",
    "install",
    "uninstall",
    "workspace",
    "workflow",
    "model",
    "upkeep",
    "eval",
    "db",
    "doctor",
    "config",
    "completion",
)
EXTRAS = {"bench": "Measure on public data sets, in simulated worlds, and on sizes."}
"""Commands that come with optional extras of the same name, and their help texts."""
INTERRUPTED = 130


class Root(CommandGroup):
    """The `engram` command: imports commands on demand, and turns errors into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, those of plugins last, without importing them."""
        return [*COMMANDS, *sorted({*_plugins(), *EXTRAS})]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command from the module of the same name, or from the plugin that registered it."""
        if cmd_name in COMMANDS:
            command: click.Command = import_module(f"engram.cli.{cmd_name}").command
            return command
        if plugin := _plugins().get(cmd_name):
            command = plugin.load()
            return command  # noqa: RET504 - the annotation gives it its type
        return _missing_extra(cmd_name) if cmd_name in EXTRAS else None

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line; in standalone mode exit with the documented exit code."""
        given = args[0] if args else options.pop("args", None)
        given = list(sys.argv[1:] if given is None else given)
        options["prog_name"] = options.get("prog_name") or "engram"
        if not options.pop("standalone_mode", True):
            return super().main(given, standalone_mode=False, **options)
        sys.exit(self._exit_code(Invocation(), given, options))

    def _exit_code(self, cli: Invocation, given: list[str], options: dict[str, Any]) -> int:
        _escape_unencodable()
        try:
            code = super().main(given, standalone_mode=False, obj=cli, **options)
        except click.Abort as error:
            return _report_abort(cli, error)
        except click.ClickException as error:
            cli.json = cli.json or "--json" in given  # the error may come before --json was parsed
            return _report_usage_error(cli, error)
        except (EngramError, OSError, ValueError) as error:
            return _report_error(cli, error)
        return code if isinstance(code, int) else 0

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; exit quietly if the reader of its output, such as `head`, has closed the pipe."""
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            _discard_output()
            if isinstance(error, BrokenPipeError):
                return 0
            raise
        return result


def _plugins() -> dict[str, EntryPoint]:
    """Return the commands that plugins registered in the entry-point group `engram.commands`."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="engram.commands")}


def _missing_extra(name: str) -> click.Command:
    """Make a command that only reports the extra to install."""

    def explain(**_: Any) -> None:
        raise MissingExtra(f"`engram {name}` is not installed; pip install 'engram-learning[{name}]'")

    accept_anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, callback=explain, help=EXTRAS[name], context_settings=accept_anything)


def _discard_output() -> None:
    """Redirect a closed standard output to the null device, so that the interpreter's last flush does not fail."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_unencodable() -> None:
    """Escape characters that the terminal's encoding lacks instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _report_abort(cli: Invocation, error: click.Abort) -> int:
    if isinstance(error.__context__, KeyboardInterrupt):
        if error.__cause__ is None:  # interrupted at a prompt, whose line is not ended yet
            click.echo(err=True)
        return INTERRUPTED
    cli.error("aborted", "stopped; nothing was changed")
    return 1


def _report_usage_error(cli: Invocation, error: click.ClickException) -> int:
    if cli.json:
        cli.error("usage" if isinstance(error, click.UsageError) else "failed", error.format_message())
    else:
        error.show()
    return error.exit_code


def _report_error(cli: Invocation, error: EngramError | OSError | ValueError) -> int:
    if isinstance(error, EngramError):
        cli.error(error.code, error.for_shell())
        return error.exit_code
    if isinstance(error, OSError):
        cli.error("os", f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 1
    pydantic = sys.modules.get("pydantic")  # if it is not imported, the error cannot be one of its
    if pydantic is None or not isinstance(error, pydantic.ValidationError):
        raise error
    from engram.model import describe_error

    cli.error("invalid", describe_error(error))
    return 2


@click.group("engram", cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="engram", message="%(prog)s %(version)s")
def main() -> None:
    """A memory for AI agents that learns from outcomes.

    \b
    engram memory add "Staging runs PostgreSQL 15" --tag db
    engram memory search "which database is in staging?"
    engram memory record --context flaky-test --action rerun --outcome success
    engram learning suggest --context flaky-test

    --db, --json and --quiet may also stand after the command. Exit codes: 0 done, 1 failed, 2 usage, 3 not found,
    4 not allowed, 5 conflict.
    """  # noqa: D301 - \b is click's mark for lines that are not wrapped
