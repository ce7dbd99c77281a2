"""Options, groups of options, and parsers of option values that several commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar

import click

from engram.cli.invocation import Invocation
from engram.clock import Sources, aware

F = TypeVar("F", bound=Callable[..., Any])

# Written out, because importing the model would make --help slow; a test compares it with MemoryType.
KINDS = (
    "decision",
    "failure",
    "success",
    "collaboration",
    "knowledge",
    "observation",
    "reflection",
    "plan",
    "result",
    "message",
    "procedure",
)
KIND = click.Choice(KINDS)

CLIENTS = ("claude", "codex", "cursor")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _store_option(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and param.name:
        setattr(ctx.ensure_object(Invocation), param.name, value)


GLOBAL = (
    click.Option(
        ["--db"],
        metavar="URL",
        expose_value=False,
        callback=_store_option,
        help="The database: a path or a URL. Else ENGRAM_DB, engram.toml, or a file in the user's data folder.",
    ),
    click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        callback=_store_option,
        help="Print exactly one JSON value on standard output; errors are JSON on standard error.",
    ),
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_store_option,
        help="Print no notices and no progress bars.",
    ),
)


class Command(click.Command):
    """A command that accepts the global options."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.extend(GLOBAL)


class CommandGroup(click.Group):
    """A group of commands; it and all its commands accept the global options."""

    command_class = Command

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.extend(GLOBAL)


def parse_time(value: str) -> datetime:
    """Parse an ISO date or time (UTC unless it has an offset), or a time ago: 30m, 24h, 7d, 2w."""
    try:
        if ago := re.fullmatch(r"(\d+)([smhdw])", value.strip(), re.ASCII):
            return Sources().now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return aware(datetime.fromisoformat(value.strip()))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is neither a date such as 2026-01-31 nor a time ago such as 7d or 24h."
        ) from None


def parse_expiry(value: str) -> datetime:
    """Parse an ISO date or time (UTC unless it has an offset), or a time from now: 30m, 24h, 30d, 2w."""
    try:
        if ahead := re.fullmatch(r"(\d+)([mhdw])", value.strip(), re.ASCII):
            return Sources().now() + timedelta(**{_UNITS[ahead[2]]: int(ahead[1])})
        return aware(datetime.fromisoformat(value.strip()))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is neither a date such as 2027-01-31 nor a time from now such as 30d."
        ) from None


def parse_duration(value: str) -> timedelta:
    """Parse a duration such as 90d, 12w or 24h."""
    try:
        if found := re.fullmatch(r"(\d{1,9})([hdw])", value.strip(), re.ASCII):
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError as error:
        raise click.BadParameter(f"{value!r} is too long.") from error
    raise click.BadParameter(f"{value!r} is not a duration such as 90d, 12w or 24h.")


def parse_fraction(value: str) -> float:
    """Parse a number from 0 to 1."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise click.BadParameter(f"{value!r} is not a number from 0 to 1.")
    return number


def parse_json_object(value: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        found = parse_json(value)
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise click.BadParameter('it must be a JSON object, such as {"ticket": 42}.')
    return found


def parse_json(text: str) -> Any:
    """Parse strict JSON: NaN and Infinity are refused. Raises `ValueError`."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def split_pair(value: str, option: str) -> tuple[str, str]:
    """Split NAME=VALUE at the first equals sign. Raises `click.BadParameter` naming the option."""
    name, equals, text = value.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"{value!r} is not NAME=VALUE.", param_hint=option)
    return name.strip(), text


def option_group(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine options into one decorator; --help lists them in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _agent(description: str) -> Callable[[F], F]:
    return click.option("--agent", metavar="NAME", help=description)


agent_option = _agent("The agent to act for. Default: the `agent` setting, else `default`.")
"""`--agent`, for commands that write."""
reader_option = _agent("Only this agent. Default: the `agent` setting, else all agents.")
"""`--agent`, for commands that read."""
owner_option = _agent("The agent it belongs to. Default: the `agent` setting, else searched among all agents.")
"""`--agent`, for commands about one thing that exists."""

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask; without a terminal it never asks.")
client_argument = click.argument("client", type=click.Choice(CLIENTS))
no_project_option = click.option(
    "--no-project",
    is_flag=True,
    help="Ignore an engram.toml in the working folder, which may come from an untrusted project.",
)
draft_options = option_group(
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="A label; may be repeated."),
    click.option("--at", type=parse_time, help="When it happened: a date, or a time ago (7d). Default: now."),
    click.option("--session", metavar="NAME", help="The session it belongs to."),
    click.option("--importance", type=parse_fraction, metavar="0..1", help="How important it is. Default: 0.5."),
    click.option("--key", metavar="KEY", help="Idempotency key: storing again with the same key stores nothing new."),
    click.option("--metadata", type=parse_json_object, metavar="JSON", help="More fields, such as '{\"ticket\": 42}'."),
)
"""Fields of any new memory."""
filter_options = option_group(
    click.option("--kind", "kinds", multiple=True, type=KIND, metavar="KIND", help="Only this kind; may be repeated."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with this tag; repeated: with all of them."),
    click.option("--since", type=parse_time, help="Only what happened at or after this date or time ago (7d)."),
    click.option("--until", type=parse_time, help="Only what happened before this date or time ago."),
    click.option("--as-of", type=parse_time, help="Only what was valid at this time."),
    click.option("--session", metavar="NAME", help="Only from this session."),
)
"""Filters on memories."""
circumstances_options = option_group(
    click.option("--environment", default="", metavar="NAME", help="Where it happens, such as ci."),
    click.option("--tool", default="", metavar="NAME", help="The tool that is used, such as npm."),
    click.option("--task-type", default="", metavar="NAME", help="The type of task, such as deploy."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="A label; may be repeated."),
)
"""Details of a situation besides its description."""


def listen_options(port: int, prefix: str = "") -> Callable[[F], F]:
    """Options that say where a server listens, and how it is protected; `prefix` begins each help text."""

    def text(description: str) -> str:
        return prefix + (description[0].lower() + description[1:] if prefix else description)

    file = click.Path(exists=True, dir_okay=False)
    return option_group(
        click.option("--host", default="127.0.0.1", show_default=True, help=text("The address to listen on.")),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help=text("The port; 0 for any free one."),
        ),
        click.option("--certfile", type=file, help=text("The TLS certificate.")),
        click.option("--keyfile", type=file, help=text("The private key of the certificate.")),
        click.option(
            "--insecure-behind-proxy",
            "behind_proxy",
            is_flag=True,
            help=text("Listen without TLS, because a proxy in front of it terminates TLS."),
        ),
        click.option(
            "--allowed-host",
            "hosts",
            multiple=True,
            metavar="NAME",
            help=text("A public host name of this server; may be repeated."),
        ),
    )


def limit_option(default: int) -> Callable[[F], F]:
    """`--limit`, with this default."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        default=default,
        show_default=True,
        help="Show at most N.",
    )
