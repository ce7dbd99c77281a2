"""Options and value types that several commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar

import click

from engram.cli.state import State
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

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _note(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and param.name:
        setattr(ctx.ensure_object(State), param.name, value)


GLOBAL = (
    click.Option(
        ["--db"],
        metavar="URL",
        expose_value=False,
        callback=_note,
        help="The database: a path or a URL. Else ENGRAM_DB, engram.toml, or a file in the user's data folder.",
    ),
    click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        callback=_note,
        help="Print exactly one JSON value on standard output; errors are JSON on standard error.",
    ),
    click.Option(
        ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_note, help="No notices and no progress bars."
    ),
)


class Command(click.Command):
    """A command that takes the global options too."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.extend(GLOBAL)


class Group(click.Group):
    """A group that takes the global options, as do all its commands."""

    command_class = Command

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.extend(GLOBAL)


def when(value: str) -> datetime:
    """The moment that an ISO date or time (UTC unless it says otherwise) or a time ago (30m, 24h, 7d, 2w) names."""
    try:
        if ago := re.fullmatch(r"(\d+)([smhdw])", value.strip(), re.ASCII):
            return Sources().now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return aware(datetime.fromisoformat(value.strip()))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is neither a date such as 2026-01-31 nor a time ago such as 7d or 24h."
        ) from None


def share(value: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise click.BadParameter(f"{value!r} is not a number from 0 to 1.")
    return number


def json_object(value: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = parse_json(value)
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise click.BadParameter('it must be a JSON object, such as {"ticket": 42}.')
    return found


def parse_json(text: str) -> Any:
    """The value of strict JSON: NaN and Infinity are refused. Raises `ValueError`."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def agent_option(command: F) -> F:
    """`--agent`, for commands that write."""
    return click.option("--agent", metavar="NAME", help="Whose memory. Default: the `agent` setting, else `default`.")(
        command
    )


def reader_option(command: F) -> F:
    """`--agent`, for commands that read."""
    return click.option(
        "--agent", metavar="NAME", help="Whose memories. Default: the `agent` setting, else those of all agents."
    )(command)


def owner_option(command: F) -> F:
    """`--agent`, for commands about one memory that is there."""
    return click.option(
        "--agent", metavar="NAME", help="Whose memory. Default: the `agent` setting, else whoever has it."
    )(command)


def draft_options(command: F) -> F:
    """What may be said about any new memory."""
    for option in reversed(
        (
            click.option("--tag", "tags", multiple=True, metavar="TAG", help="A label; may be repeated."),
            click.option("--at", type=when, help="When it happened: a date, or how long ago (7d). Default: now."),
            click.option("--session", metavar="NAME", help="The session it belongs to."),
            click.option("--importance", type=share, metavar="0..1", help="How much it matters. Default: 0.5."),
            click.option(
                "--key", metavar="KEY", help="Makes it harmless to store it twice: the same key is the same memory."
            ),
            click.option(
                "--metadata", type=json_object, metavar="JSON", help="More facts, such as '{\"ticket\": 42}'."
            ),
        )
    ):
        command = option(command)
    return command


def filter_options(command: F) -> F:
    """Which memories are looked at."""
    for option in reversed(
        (
            click.option(
                "--kind", "kinds", multiple=True, type=KIND, metavar="KIND", help="Only this kind; may be repeated."
            ),
            click.option(
                "--tag", "tags", multiple=True, metavar="TAG", help="Only with this tag; repeated: with all of them."
            ),
            click.option("--since", type=when, help="Only what happened from then on: a date, or how long ago (7d)."),
            click.option("--until", type=when, help="Only what happened before then."),
            click.option("--as-of", type=when, help="Only what was valid then."),
            click.option("--session", metavar="NAME", help="Only of this session."),
        )
    ):
        command = option(command)
    return command


def limit_option(default: int) -> Callable[[F], F]:
    """`--limit`, with this default."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        default=default,
        show_default=True,
        help="At most so many.",
    )
