"""What all tests share: nobody's own settings, no network, a brain on a real file."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import engram
from engram.config import PREFIX
from engram.stores import migrate
from support.command_line import Run, run_line
from support.template_schema import upgrade_from_template

_upgrade = migrate.upgrade
pytest_plugins = ["support.backends_table", "support.rooms"]

settings.register_profile(
    "engram",
    deadline=None,
    derandomize="ENGRAM_LONG" not in os.environ,  # the long form tries other examples each time
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("engram")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background, where programs that tests start inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give each test the name of a folder, which most never create: quicker than an empty `tmp_path` for each."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_home(_homes: Iterator[Path], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    home = next(_homes)
    for name in [name for name in os.environ if name.startswith(PREFIX) and name != "ENGRAM_LONG"]:
        monkeypatch.delenv(name)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home / name))
    if "process" not in request.node.keywords:
        monkeypatch.setenv("ENGRAM_DURABLE", "no")  # only a power cut makes a difference
    monkeypatch.setenv("ENGRAM_MODEL_DOWNLOAD", "no")
    monkeypatch.setenv("ENGRAM_EMBEDDER", "hashing")


@pytest.fixture(scope="session", autouse=True)
def _once_for_all() -> Iterator[None]:
    """Do once what opening a memory does each time: run the migrations, and read what all packages declare.

    A test of migrations uses `real_migrations`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "upgrade", upgrade_from_template)
        patch.setattr("engram.wiring.entry_points", cache(entry_points))
        yield


@pytest.fixture
def real_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every migration when a database is created, as users do."""
    monkeypatch.setattr(migrate, "upgrade", _upgrade)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "team.db"


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command line on a database of its own, in an empty folder, and asserts its exit code."""
    monkeypatch.setenv("ENGRAM_DB", str(path))
    monkeypatch.chdir(tmp_path)
    return run_line


@pytest.fixture
def brain(path: Path) -> Iterator[engram.Engram]:
    with engram.open(path) as opened:
        yield opened
