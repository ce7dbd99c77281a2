"""`engram doctor`: look for problems in the installation and the database, and advise."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from engram.cli.formatting import format_size, mask_password, one_line, plural
from engram.cli.invocation import Invocation
from engram.cli.options import Command
from engram.cli.render import is_terminal, print_json
from engram.clock import Sources
from engram.errors import EngramError, ModelError, StoreError

if TYPE_CHECKING:
    from engram.ports import Store

Status = Literal["ok", "warning", "problem"]
LITTLE_SPACE = 100_000_000
NO_SPACE = 20_000_000
COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, with advice if it is not ok."""

    check: str
    status: Status
    detail: str
    advice: str = ""


@click.command("doctor", cls=Command)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Look for problems, and print what to do about each.

    A missing database is not created. Exits with 1 if there is a problem; warnings do not count.
    """
    cli = ctx.ensure_object(Invocation)
    results = examine(cli)
    failed = any(result.status == "problem" for result in results)
    if cli.json:
        print_json({"ok": not failed, "checks": [asdict(result) for result in results]})
    else:
        _print(results)
    ctx.exit(1 if failed else 0)


def examine(cli: Invocation) -> list[CheckResult]:
    """Run all checks; an exception in one of them becomes a result."""
    results = [*_run_check("runtime", _runtime), *_run_check("settings", lambda: _settings(cli))]
    if any(result.check == "settings" and result.status == "problem" for result in results):
        return results
    results += _run_check("models", lambda: _models(cli))
    results += _run_check("disk", lambda: _disk(cli))
    results += _run_check("database", lambda: _database(cli))
    return results + _run_check("vector database", lambda: _vector_database(cli))


def _run_check(name: str, check: Callable[[], Iterator[CheckResult]]) -> list[CheckResult]:
    found: list[CheckResult] = []
    try:
        found.extend(check())
    except EngramError as error:
        found.append(CheckResult(name, "problem", str(error)))
    except Exception as error:  # noqa: BLE001 - whatever is broken, the doctor must report it
        found.append(CheckResult(name, "problem", f"could not be checked: {type(error).__name__}: {error}"))
    return found


def _runtime() -> Iterator[CheckResult]:
    from engram.stores.sqlite import OLDEST_SQLITE, WAL_RESET_FIXED

    yield CheckResult("Python", "ok", platform.python_version())
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        yield CheckResult("SQLite", "problem", sqlite3.sqlite_version, f"use a Python with SQLite {wanted} or newer")
    elif sqlite3.sqlite_version_info < WAL_RESET_FIXED:
        fixed = ".".join(map(str, WAL_RESET_FIXED))
        detail = f"{sqlite3.sqlite_version}; the workaround for the WAL-reset bug of versions before {fixed} is active"
        yield CheckResult("SQLite", "ok", detail)
    else:
        yield CheckResult("SQLite", "ok", f"{sqlite3.sqlite_version}; it does not have the WAL-reset bug")
    with closing(sqlite3.connect(":memory:")) as conn:
        try:
            conn.execute("CREATE VIRTUAL TABLE trial USING fts5(words)")
        except sqlite3.Error:
            yield CheckResult("SQLite FTS5", "problem", "missing", "use a Python whose SQLite has FTS5")


def _settings(cli: Invocation) -> Iterator[CheckResult]:
    from engram import config

    yield CheckResult("settings", "ok", f"database {mask_password(cli.settings.db)}, embedder {cli.settings.embedder}")
    for name in config.unknown_variables():
        yield CheckResult("environment", "warning", f"{name} is not a setting", "correct its name or unset it")


def _models(cli: Invocation) -> Iterator[CheckResult]:
    from engram import wiring
    from engram.embed.catalog import KNOWN

    models = wiring.models(cli.settings)
    found = models.list()
    for status in found:
        if status.installed or status.problem:
            try:
                yield CheckResult("model", "ok", f"{status.name} is intact ({models.verify(status.name).path})")
            except ModelError as error:
                yield CheckResult("model", "problem", str(error))
    needs_none = cli.settings.embedder not in {"auto", "local", *KNOWN}
    if not any(status.installed or status.problem for status in found):
        advice = (
            ""
            if needs_none
            else "run `engram model install` so that recall finds similar meaning, not only shared words"
        )
        yield CheckResult("model", "ok" if needs_none else "warning", "none is installed", advice)


def _disk(cli: Invocation) -> Iterator[CheckResult]:
    file = cli.file
    if file is None:
        return
    folder = next((place for place in file.absolute().parents if place.is_dir()), Path("/"))
    free, used = shutil.disk_usage(folder).free, file.stat().st_size if file.is_file() else 0
    detail = f"{format_size(free)} free in {folder}"
    if free < NO_SPACE:
        yield CheckResult("disk", "problem", detail, "free some disk space; soon nothing more can be stored")
    elif free < max(LITTLE_SPACE, 2 * used):
        yield CheckResult("disk", "warning", detail, "free some disk space; a backup may not fit")
    else:
        yield CheckResult("disk", "ok", detail)


def _database(cli: Invocation) -> Iterator[CheckResult]:
    from engram import wiring
    from engram.ports import Maintains

    if missing := cli.missing:
        yield CheckResult("database", "ok", f"there is none at {missing} yet; `engram memory add` creates it")
        yield from _writable(missing)
        return
    try:
        store = wiring.open_store(cli.settings, Sources())
    except EngramError as error:
        yield CheckResult("database", "problem", str(error))
        return
    with closing(store):
        if isinstance(store, Maintains):
            facts = store.info()
            detail = f"{plural(int(facts.get('memories') or 0), 'memory')}, schema {facts.get('schema')}"
            server = [f"{name} {facts[name]}" for name in ("server", "pgvector") if facts.get(name)]
            yield CheckResult("database", "ok", ", ".join([detail, *server]))
            if facts.get("read_only") == "yes":
                advice = "make the file and its folder writable to add memories"
                yield CheckResult("database", "warning", "it can only be read", advice)
            problems = store.check()
            for problem in problems:
                advice = "run `engram upkeep rebuild`; if that does not help, `engram db restore` a backup"
                yield CheckResult("integrity", "problem", f"{problem.where}: {problem.what}", advice)
            if not problems:
                yield CheckResult("integrity", "ok", "the file, rows and indexes are intact")
        yield from _embedder(cli, store)


def _vector_database(cli: Invocation) -> Iterator[CheckResult]:
    import numpy as np

    from engram import wiring
    from engram.ports import Scope, VectorSpace

    if not cli.settings.vectors:
        return
    with closing(wiring.open_vectors(cli.settings)) as vectors:
        empty = VectorSpace(Scope("doctor"), "none", "none")
        try:
            vectors.search(empty, np.eye(1, 2, dtype=np.float32)[0], 1)
        except StoreError as error:
            advice = "until it responds, recall uses the local copies of the vectors; then run `engram upkeep sync`"
            yield CheckResult("vector database", "warning", str(error), advice)
            return
    yield CheckResult("vector database", "ok", "it responds")


def _writable(file: Path) -> Iterator[CheckResult]:
    folder = next((place for place in file.absolute().parents if place.is_dir()), None)
    if folder is None or not os.access(folder, os.W_OK):
        yield CheckResult(
            "database", "problem", f"{folder} cannot be written", "make it writable, or choose another --db"
        )


def _embedder(cli: Invocation, store: Store) -> Iterator[CheckResult]:
    from engram import wiring
    from engram.upkeep.maintenance import count_missing_vectors

    notices: list[str] = []
    settings = replace(cli.settings, model_download=False)  # a check downloads nothing
    try:
        embedder = wiring.choose_embedder(settings, store, notices.append)
    except EngramError as error:
        yield CheckResult("embedder", "problem", str(error))
        return
    stored_with = store.embedder()
    same = stored_with in (None, embedder.identity)
    detail = embedder.identity if same else f"{embedder.identity}, but the database was embedded with {stored_with}"
    yield CheckResult("embedder", "ok" if same and not notices else "warning", detail, "; ".join(notices))
    if left := count_missing_vectors(store, embedder.identity):
        advice = "run `engram upkeep reembed`; until then only keyword search finds them"
        yield CheckResult(
            "vectors", "warning", f"{plural(left, 'memory')} without a vector of {embedder.identity}", advice
        )


def _print(results: list[CheckResult]) -> None:
    lines = [(f.status, f"{f.check}: {f.detail}", f.advice) for f in results]
    if is_terminal():
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False, markup=False, emoji=False)
        for status, detail, advice in lines:
            console.print(Text.assemble((status.ljust(9), COLOURS[status]), one_line(detail)))
            if advice:
                console.print(Text(f"{'':9}→ {one_line(advice)}"))
        return
    for status, detail, advice in lines:
        click.echo(f"{status.ljust(9)}{one_line(detail)}" + (f"\n{'':9}→ {one_line(advice)}" if advice else ""))
