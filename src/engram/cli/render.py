"""Output: JSON for programs, aligned text for pipes, rich tables and progress bars for terminals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

from engram.cli.state import State
from engram.cli.text import inline, json_safe, shortened

if TYPE_CHECKING:
    from pydantic import BaseModel

GLANCE = 120
"""How many characters of a text a table on a terminal shows."""


class Tell(Protocol):
    """Hears how far the work has come; an unknown `total` is 0."""

    def __call__(self, done: int, total: int, label: str = "", /) -> None:
        """So much is done."""
        ...


def print_json(value: Any) -> None:
    """Print one JSON value."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    unicode = encoding.lower().replace("-", "").startswith("utf")
    click.echo(json_safe(json.dumps(value, ensure_ascii=not unicode, indent=2, allow_nan=False)))


def dump(models: Sequence[BaseModel]) -> list[Any]:
    """Model objects as JSON values."""
    return [model.model_dump(mode="json") for model in models]


def on_terminal() -> bool:
    """Whether a person looks at the output."""
    return sys.stdout is not None and sys.stdout.isatty()


def glance(text: str) -> str:
    """A text for a table or a list: shortened on a terminal, else whole, on one line."""
    return shortened(text, GLANCE) if on_terminal() else inline(text)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for a terminal, or aligned columns that lose nothing; only the last column is long."""
    if on_terminal():
        _rich_table(headings, rows)
        return
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one a line; a value that is `None` or empty is a dash."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        click.echo(f"{name.ljust(width)}  {inline(str(value)) if value not in (None, '') else '-'}")


def print_done(state: State, message: str, **facts: object) -> None:
    """Say what was done: in words, or as facts."""
    if state.json:
        print_json(facts)
    else:
        click.echo(message)


@contextmanager
def progress(state: State, label: str, unit: str = "") -> Iterator[Tell]:
    """A progress bar on standard error while the block runs; nothing without a terminal, or if it is to be quiet."""
    if state.quiet or sys.stderr is None or not sys.stderr.isatty():
        yield _unheard
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def tell(done: int, total: int, what: str = "", /) -> None:
            bar.update(task, completed=done, total=total or None, description=inline(what or label))

        yield tell


def _unheard(done: int, total: int, label: str = "", /) -> None:
    """Nobody watches."""


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
