"""Print results: JSON for programs, aligned text for pipes, rich tables and progress bars for terminals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

from engram.cli.formatting import json_safe, one_line, truncated
from engram.cli.invocation import Invocation

if TYPE_CHECKING:
    from pydantic import BaseModel

PREVIEW = 120
"""Characters of a text that a table on a terminal shows."""


class ProgressCallback(Protocol):
    """Called with the progress of a long operation; an unknown `total` is 0."""

    def __call__(self, done: int, total: int, label: str = "", /) -> None:
        """Report that `done` of `total` units are done."""
        ...


def print_json(value: Any) -> None:
    """Print one JSON value."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    unicode = encoding.lower().replace("-", "").startswith("utf")
    click.echo(json_safe(json.dumps(value, ensure_ascii=not unicode, indent=2, allow_nan=False)))


def to_json(models: Sequence[BaseModel]) -> list[Any]:
    """Convert models to JSON values."""
    return [model.model_dump(mode="json") for model in models]


def with_agent(pair: tuple[str, BaseModel]) -> dict[str, Any]:
    """Convert an agent's name and one of its models to one JSON object."""
    name, model = pair
    return {"agent": name, **model.model_dump(mode="json")}


def is_terminal() -> bool:
    """Return True if standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def preview(text: str) -> str:
    """Format a text for a table or a list: truncated on a terminal, else whole, on one line."""
    return truncated(text, PREVIEW) if is_terminal() else one_line(text)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal, else aligned columns without cutting anything; only the last column may be long."""
    if is_terminal():
        _rich_table(headings, rows)
        return
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_list(
    cli: Invocation,
    items: Sequence[Any],
    headings: Sequence[str],
    row: Callable[[Any], Sequence[str]],
    empty: str,
    as_json: Callable[[Any], Any] | None = None,
) -> None:
    """Print models as a JSON array with --json, else as a table, or the text `empty` if there are none."""
    if cli.json:
        print_json([item.model_dump(mode="json") if as_json is None else as_json(item) for item in items])
    elif not items:
        click.echo(empty)
    else:
        print_table(headings, [row(item) for item in items])


def print_model(cli: Invocation, model: BaseModel, message: str) -> None:
    """Print a model as JSON with --json, else a message about it."""
    if cli.json:
        print_json(model.model_dump(mode="json"))
    else:
        click.echo(message)


def print_result(cli: Invocation, message: str, **fields: object) -> None:
    """Print fields as a JSON object with --json, else a message."""
    if cli.json:
        print_json(fields)
    else:
        click.echo(message)


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one a line; a value that is `None` or empty is a dash."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        click.echo(f"{name.ljust(width)}  {one_line(str(value)) if value not in (None, '') else '-'}")


@contextmanager
def progress(cli: Invocation, label: str, unit: str = "") -> Iterator[ProgressCallback]:
    """Show a progress bar on standard error during the block; nothing with --quiet or without a terminal."""
    if cli.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield _ignore_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def update(done: int, total: int, what: str = "", /) -> None:
            bar.update(task, completed=done, total=total or None, description=one_line(what or label))

        yield update


def _ignore_progress(done: int, total: int, label: str = "", /) -> None:
    """Do nothing."""


def _rich_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=heading != headings[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False, markup=False, emoji=False).print(table)
