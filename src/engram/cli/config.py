"""`engram config`: the settings in force."""

from __future__ import annotations

import re
from pathlib import Path

import click

from engram.cli.options import Group
from engram.cli.render import print_json, print_table
from engram.cli.state import State
from engram.cli.text import inline, masked


@click.group("config", cls=Group)
def command() -> None:
    """See the settings."""


@command.command("show")
@click.pass_obj
def show(state: State) -> None:
    """Show every setting, its value and where it comes from, and where the settings files are looked for."""
    from engram import config

    found = config.origins({"db": state.db})
    values = {name: masked(v.value) if isinstance(v.value, str) else v.value for name, v in found.items()}
    values["vectors"] = re.sub(r"://[^/@]*@", "://***@", str(values["vectors"]))  # a key alone stands before the @
    values |= {name: "***" for name, value in values.items() if name.endswith("key") and value}
    files = {"project": _project_file(), "user": config.user_file()}
    if state.json:
        settings = {
            name: {"value": values[name], "origin": sourced.origin, "help": config.HELP[name]}
            for name, sourced in found.items()
        }
        places = [{"name": name, "path": str(path), "exists": path.is_file()} for name, path in files.items()]
        print_json({"settings": settings, "files": places, "unknown_variables": config.unknown_variables()})
        return
    rows = [[name, inline(_shown(values[name])), inline(sourced.origin)] for name, sourced in found.items()]
    print_table(["SETTING", "VALUE", "FROM"], rows)
    click.echo()
    for name, path in files.items():
        click.echo(f"The {name}'s settings: {inline(str(path))}{'' if path.is_file() else ' (not there)'}")
    for name in config.unknown_variables():
        state.notice(f"{name} looks like a setting but is none; there are {', '.join(found)}")


def _project_file() -> Path:
    """The nearest engram.toml, or where the first one would be looked for."""
    from engram.config import PROJECT_FILE

    here = Path.cwd()
    return next((p / PROJECT_FILE for p in (here, *here.parents) if (p / PROJECT_FILE).is_file()), here / PROJECT_FILE)


def _shown(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value) or "-"
