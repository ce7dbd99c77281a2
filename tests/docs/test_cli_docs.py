from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from engram.cli import COMMANDS, main
from engram.cli.options import KINDS
from engram.model import MemoryType

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from leaves(child, f"{path} {name}")


LEAVES = list(leaves(main, "engram"))


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[path for path, _ in LEAVES])
def test_every_command_and_every_long_option_is_documented(path: str, command: click.Command) -> None:
    assert f"### {path}\n" in PAGE
    options = [name for param in command.params for name in param.opts if name.startswith("--")]
    assert [name for name in options if not re.search(rf"`[^`]*{name}\b|^.*engram.*{name}\b", PAGE, re.MULTILINE)] == []
    assert command.help


def test_nothing_is_documented_that_is_not_there() -> None:
    assert set(re.findall(r"^### (engram .*)$", PAGE, re.MULTILINE)) == {path for path, _ in LEAVES}
    known = {name for _, command in [("", main), *LEAVES] for param in command.params for name in param.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known | {"--help"}


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[path for path, _ in LEAVES])
def test_every_command_takes_the_global_options(path: str, command: click.Command) -> None:
    options = {name for param in command.params for name in param.opts}
    assert {"--db", "--json", "--quiet", "-q"} <= options


def test_the_kinds_are_those_of_the_model() -> None:
    assert list(KINDS) == [kind.value for kind in MemoryType]
    assert all(kind in PAGE for kind in KINDS)


def test_every_group_has_a_command_of_its_name() -> None:
    context = click.Context(main)
    assert [main.get_command(context, name).name for name in COMMANDS] == list(COMMANDS)  # type: ignore[union-attr]
    assert main.get_command(context, "options") is None
