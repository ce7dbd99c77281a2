"""`engram config`: show the settings in force."""

from __future__ import annotations

import re
from pathlib import Path

import click

from engram.cli.formatting import mask_password, one_line
from engram.cli.invocation import Invocation
from engram.cli.options import CommandGroup
from engram.cli.render import print_json, print_table


@click.group("config", cls=CommandGroup)
def command() -> None:
    """Show the settings."""


@command.command("show")
@click.pass_obj
def show(cli: Invocation) -> None:
    """Show every setting with its value and source, and the paths of the settings files."""
    from engram import config

    found = config.origins({"db": cli.db})
    values = {name: mask_password(v.value) if isinstance(v.value, str) else v.value for name, v in found.items()}
    values["vectors"] = re.sub(
        r"://[^/@]*@", "://***@", str(values["vectors"])
    )  # the part before the @ may be only a key
    values |= {name: "***" for name, value in values.items() if name.endswith("key") and value}
    files = {"project": _project_file(), "user": config.user_file()}
    if cli.json:
        settings = {
            name: {"value": values[name], "origin": sourced.origin, "help": config.HELP[name]}
            for name, sourced in found.items()
        }
        paths = [{"name": name, "path": str(path), "exists": path.is_file()} for name, path in files.items()]
        print_json({"settings": settings, "files": paths, "unknown_variables": config.unknown_variables()})
        return
    rows = [[name, one_line(_format(values[name])), one_line(sourced.origin)] for name, sourced in found.items()]
    print_table(["SETTING", "VALUE", "FROM"], rows)
    click.echo()
    for name, path in files.items():
        click.echo(f"The {name}'s settings: {one_line(str(path))}{'' if path.is_file() else ' (not there)'}")
    for name in config.unknown_variables():
        cli.notice(f"{name} is not a setting; there are {', '.join(found)}")


def _project_file() -> Path:
    """Return the path of the nearest engram.toml, or of one in the working folder if there is none."""
    from engram.config import PROJECT_FILE

    here = Path.cwd()
    return next((p / PROJECT_FILE for p in (here, *here.parents) if (p / PROJECT_FILE).is_file()), here / PROJECT_FILE)


def _format(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value) or "-"
