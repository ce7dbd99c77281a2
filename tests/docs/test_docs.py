"""The documentation is true: its examples run, and nothing that exists goes unmentioned."""

from __future__ import annotations

import contextvars
import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from engram import config, errors
from support.command_line import Run

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """The commands that a page shows, each with what it shows below it."""
    for block in blocks(page, "console"):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            assert command.startswith("engram "), command
            yield command, expected


def matches(command: str, printed: str, expected: str) -> None:
    same = doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)
    assert same, f"{command}\n{printed}\nis not\n{expected}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_examples_of_a_page_run_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    context = contextvars.copy_context()  # an example may set a principal, which is not that of other tests
    for block in blocks(page, "python"):
        context.run(exec, compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_print_what_it_says(page: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command, expected in commands(page):
        matches(command, run(command).stdout, expected)


def test_the_commands_of_the_readme_print_what_it_says_as_programs(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "ENGRAM_DB": str(path), "PYTHONIOENCODING": "utf-8"}
    for command, expected in commands(README):
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        matches(command, done.stdout, expected)


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(config.Settings) if f"| `{field.name}` |" not in page] == []


def test_every_error_is_documented_with_its_code_and_exit_code() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    tree = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.EngramError)]
    assert len(tree) > 15
    assert [e.__name__ for e in tree if f"| `{e.__name__}` | `{e.code}` | {e.exit_code} |" not in page] == []
    drawn = errors.__doc__ or ""
    assert [e.__name__ for e in tree if e.__name__ not in drawn] == []


def test_every_page_is_reached_from_the_readme_and_every_link_leads_somewhere() -> None:
    readme = PAGES[0].read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in readme] == []
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
