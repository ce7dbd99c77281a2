"""A pytest plugin: marks every test by its folder and by what it needs, and keeps pure tests pure.

`unit`, `contract`, `interfaces`, `process`, `docs` and `bench` are the folders below tests/. A test needs a `server`, a
`process` or a `model` if it uses a fixture or has a parameter that stands for one, or if it says so itself. What needs
none of these and is not slow is `pure`, if it is below tests/unit or is the contract of the in-memory store: `make
quick` runs it, and it fails if it starts a process or loads a model after all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engram.embed.onnx import OnnxEmbedder

TESTS = Path(__file__).parents[1]
IN_MEMORY = TESTS / "contract" / "test_store_memory.py"
FIXTURES = {"postgres_admin": "server", "redis_url": "server", "arctic": "model", "minilm": "model", "index": "process"}
"""A test that uses one of these fixtures needs a server, a model or a process."""
PARAMETERS = {"postgres": "server", "postgresql": "server", "redis": "server"}
NEEDS = ("slow", "server", "process", "model")
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})

_pure: pytest.Item | None = None
"""The pure test that is running."""


def _needs(item: pytest.Function) -> set[str]:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = {PARAMETERS[value] for value in parameters if isinstance(value, str) and value in PARAMETERS}
    return named | {FIXTURES[name] for name in item.fixturenames if name in FIXTURES}


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        room = item.path.relative_to(TESTS).parts[0]
        item.add_marker(room)
        if isinstance(item, pytest.Function):
            for need in _needs(item):
                item.add_marker(need)
        if (room == "unit" or item.path == IN_MEMORY) and not any(item.get_closest_marker(need) for need in NEEDS):
            item.add_marker("pure")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _pure  # noqa: PLW0603 - an audit hook has no other way to know
    _pure = item if item.get_closest_marker("pure") else None
    try:
        return (yield)
    finally:
        _pure = None


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if _pure is not None and event in STARTS:
        pytest.fail(f"{_pure.nodeid} is a pure test and must not start a process; mark it `process`")


@pytest.fixture(scope="session", autouse=True)
def _no_model_in_pure_tests() -> Iterator[None]:
    made = OnnxEmbedder.__init__

    def make(self: OnnxEmbedder, *arguments: Any, **options: Any) -> None:
        if _pure is not None:
            pytest.fail(f"{_pure.nodeid} is a pure test and must not load a model; mark it `model`")
        made(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxEmbedder, "__init__", make)
        yield


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_refuse)
