"""`engram doctor`: what is well, what is not, and what to do about it."""

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
TIGHT = 100_000_000
FULL = 20_000_000
COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    status: Status
    detail: str
    advice: str = ""


@click.command("doctor", cls=Command)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Look for problems, and say what to do about them.

    A database that is not there is not created. Exits with 1 only if there is a problem; a warning is none.
    """
    cli = ctx.ensure_object(Invocation)
    findings = examine(cli)
    ill = any(finding.status == "problem" for finding in findings)
    if cli.json:
        print_json({"ok": not ill, "checks": [asdict(finding) for finding in findings]})
    else:
        _print(findings)
    ctx.exit(1 if ill else 0)


def examine(cli: Invocation) -> list[Finding]:
    """The findings of every check; a check that fails is itself a finding."""
    findings = [*_guarded("runtime", _runtime), *_guarded("settings", lambda: _settings(cli))]
    if any(finding.check == "settings" and finding.status == "problem" for finding in findings):
        return findings
    findings += _guarded("models", lambda: _models(cli))
    findings += _guarded("disk", lambda: _disk(cli))
    findings += _guarded("database", lambda: _database(cli))
    return findings + _guarded("vector database", lambda: _vector_database(cli))


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(check())
    except EngramError as error:
        found.append(Finding(name, "problem", str(error)))
    except Exception as error:  # noqa: BLE001 - whatever is broken, the doctor must be able to say so
        found.append(Finding(name, "problem", f"could not be checked: {type(error).__name__}: {error}"))
    return found


def _runtime() -> Iterator[Finding]:
    from engram.stores.sqlite import OLDEST_SQLITE, WAL_RESET_FIXED

    yield Finding("Python", "ok", platform.python_version())
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        yield Finding("SQLite", "problem", sqlite3.sqlite_version, f"use a Python with SQLite {wanted} or newer")
    elif sqlite3.sqlite_version_info < WAL_RESET_FIXED:
        fixed = ".".join(map(str, WAL_RESET_FIXED))
        detail = (
            f"{sqlite3.sqlite_version}; the mitigation for the WAL-reset fault of versions before {fixed} is active"
        )
        yield Finding("SQLite", "ok", detail)
    else:
        yield Finding("SQLite", "ok", f"{sqlite3.sqlite_version}; it needs no mitigation for the WAL-reset fault")
    with closing(sqlite3.connect(":memory:")) as conn:
        try:
            conn.execute("CREATE VIRTUAL TABLE trial USING fts5(words)")
        except sqlite3.Error:
            yield Finding("SQLite FTS5", "problem", "missing", "use a Python whose SQLite has FTS5")


def _settings(cli: Invocation) -> Iterator[Finding]:
    from engram import config

    yield Finding("settings", "ok", f"database {mask_password(cli.settings.db)}, embedder {cli.settings.embedder}")
    for name in config.unknown_variables():
        yield Finding("environment", "warning", f"{name} is not a setting", "mend its name or unset it")


def _models(cli: Invocation) -> Iterator[Finding]:
    from engram import wiring
    from engram.embed.catalog import KNOWN

    models = wiring.models(cli.settings)
    found = models.list()
    for status in found:
        if status.installed or status.problem:
            try:
                yield Finding("model", "ok", f"{status.name} is sound ({models.verify(status.name).path})")
            except ModelError as error:
                yield Finding("model", "problem", str(error))
    needs_none = cli.settings.embedder not in {"auto", "local", *KNOWN}
    if not any(status.installed or status.problem for status in found):
        advice = "" if needs_none else "run `engram model install` to find shared meaning, not only shared words"
        yield Finding("model", "ok" if needs_none else "warning", "none is installed", advice)


def _disk(cli: Invocation) -> Iterator[Finding]:
    file = cli.file
    if file is None:
        return
    folder = next((place for place in file.absolute().parents if place.is_dir()), Path("/"))
    free, used = shutil.disk_usage(folder).free, file.stat().st_size if file.is_file() else 0
    detail = f"{format_size(free)} free in {folder}"
    if free < FULL:
        yield Finding("disk", "problem", detail, "free some space; nothing more can be stored soon")
    elif free < max(TIGHT, 2 * used):
        yield Finding("disk", "warning", detail, "free some space; a backup may not fit any more")
    else:
        yield Finding("disk", "ok", detail)


def _database(cli: Invocation) -> Iterator[Finding]:
    from engram import wiring
    from engram.ports import Maintains

    if missing := cli.missing:
        yield Finding("database", "ok", f"there is none at {missing} yet; `engram memory add` creates it")
        yield from _place(missing)
        return
    try:
        store = wiring.open_store(cli.settings, Sources())
    except EngramError as error:
        yield Finding("database", "problem", str(error))
        return
    with closing(store):
        if isinstance(store, Maintains):
            facts = store.info()
            detail = f"{plural(int(facts.get('memories') or 0), 'memory')}, schema {facts.get('schema')}"
            server = [f"{name} {facts[name]}" for name in ("server", "pgvector") if facts.get(name)]
            yield Finding("database", "ok", ", ".join([detail, *server]))
            if facts.get("read_only") == "yes":
                advice = "make the file and its folder writable, if memories are to be added"
                yield Finding("database", "warning", "it can only be read", advice)
            problems = store.check()
            for problem in problems:
                advice = "run `engram upkeep rebuild`; if that does not help, `engram db restore` a backup"
                yield Finding("integrity", "problem", f"{problem.where}: {problem.what}", advice)
            if not problems:
                yield Finding("integrity", "ok", "file, rows and indexes are sound")
        yield from _embedder(cli, store)


def _vector_database(cli: Invocation) -> Iterator[Finding]:
    import numpy as np

    from engram import wiring
    from engram.ports import Scope, VectorSpace

    if not cli.settings.vectors:
        return
    with closing(wiring.open_vectors(cli.settings)) as vectors:
        nothing = VectorSpace(Scope("doctor"), "none", "none")
        try:
            vectors.search(nothing, np.eye(1, 2, dtype=np.float32)[0], 1)
        except StoreError as error:
            advice = "until it answers, recall uses the local mirror; then run `engram upkeep sync`"
            yield Finding("vector database", "warning", str(error), advice)
            return
    yield Finding("vector database", "ok", "it answers")


def _place(file: Path) -> Iterator[Finding]:
    folder = next((place for place in file.absolute().parents if place.is_dir()), None)
    if folder is None or not os.access(folder, os.W_OK):
        yield Finding("database", "problem", f"{folder} cannot be written", "make it writable, or choose another --db")


def _embedder(cli: Invocation, store: Store) -> Iterator[Finding]:
    from engram import wiring
    from engram.upkeep.maintenance import count_missing_vectors

    said: list[str] = []
    settings = replace(cli.settings, model_download=False)  # a check fetches nothing
    try:
        embedder = wiring.choose_embedder(settings, store, said.append)
    except EngramError as error:
        yield Finding("embedder", "problem", str(error))
        return
    remembered = store.embedder()
    same = remembered in (None, embedder.identity)
    detail = embedder.identity if same else f"{embedder.identity}, but the database was embedded with {remembered}"
    yield Finding("embedder", "ok" if same and not said else "warning", detail, "; ".join(said))
    if left := count_missing_vectors(store, embedder.identity):
        advice = "run `engram upkeep reembed`; until then they are found by words only"
        yield Finding("vectors", "warning", f"{plural(left, 'memory')} without a vector of {embedder.identity}", advice)


def _print(findings: list[Finding]) -> None:
    lines = [(f.status, f"{f.check}: {f.detail}", f.advice) for f in findings]
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
