"""The example plugin, installed beside our wheel into an empty environment, is found and keeps the contract."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "engram-store-example"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_plugin_is_short() -> None:
    modules = list((EXAMPLE / "src").rglob("*.py"))
    assert modules
    assert sum(len(module.read_text(encoding="utf-8").splitlines()) for module in modules) < 150


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that has our wheel, the example's wheel and pytest."""
    folder = tmp_path_factory.mktemp("plugin")
    pip = ["-m", "pip", "--disable-pip-version-check"]
    for project in (ROOT, EXAMPLE):
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
        run(sys.executable, *pip, "wheel", *options, project, cwd=folder)
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", *pip, "install", "--quiet", *folder.glob("*.whl"), "pytest", cwd=folder)
    return programs


@pytest.mark.slow
def test_the_example_keeps_the_contract_where_it_is_installed(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")  # without its source: what is tested is what was installed
    shutil.copy(EXAMPLE / "pyproject.toml", tmp_path)
    said = run(installed / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert " passed" in said
    assert "failed" not in said


@pytest.mark.slow
def test_the_command_line_finds_the_plugin_by_its_scheme(installed: Path, tmp_path: Path) -> None:
    db = f"jsonl://{tmp_path / 'x.jsonl'}"
    memory = [str(installed / "engram"), "--json", "--db", db, "memory"]
    receipt = json.loads(run(*memory, "add", "Staging runs PostgreSQL 15", cwd=tmp_path))
    run(*memory, "add", "Bananas are yellow", cwd=tmp_path)
    found = json.loads(run(*memory, "search", "which database is in staging?", "--agent", "default", cwd=tmp_path))
    assert found[0]["id"] == receipt["id"]
    assert len((tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()) == 2
