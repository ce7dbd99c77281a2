"""A pytest plugin: marks every test by its folder and by what it needs, and keeps pure tests pure.

`unit`, `contract`, `interfaces`, `process`, `docs` and `bench` are the folders below tests/. A test needs a `server` if
it uses a fixture of one or has a parameter named after one; that it starts a `process` or loads a `model` it says
itself. What needs none of these and is not slow is `pure`, if it is below tests/unit or is the contract of the
in-memory store: `make quick` runs it, and it fails if it starts a process or connects to a server after all.
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
SERVER_FIXTURES = frozenset({"postgres_admin", "redis_url"})
SERVER_PARAMETERS = frozenset({"postgres", "postgresql", "redis"})
NEEDS = ("slow", "server", "process", "model")
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.connect"})

_pure: pytest.Item | None = None
"""The pure test that is running."""


def _needs_server(item: pytest.Function) -> bool:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = any(isinstance(value, str) and value in SERVER_PARAMETERS for value in parameters)
    return named or not SERVER_FIXTURES.isdisjoint(item.fixturenames)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        room = item.path.relative_to(TESTS).parts[0]
        item.add_marker(room)
        if isinstance(item, pytest.Function) and _needs_server(item):
            item.add_marker("server")
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
    if _pure is None or event not in STARTS:
        return
    if event == "socket.connect" and not isinstance(arguments[1], tuple):
        return  # a socket of this machine's own
    raise RuntimeError(f"{_pure.nodeid} is a pure test and must not do this: {event}; mark it `process` or `server`")


@pytest.fixture(scope="session", autouse=True)
def _no_model_in_pure_tests() -> Iterator[None]:
    made = OnnxEmbedder.__init__

    def make(self: OnnxEmbedder, *arguments: Any, **options: Any) -> None:
        if _pure is not None:
            raise RuntimeError(f"{_pure.nodeid} is a pure test and must not load a model; mark it `model`")
        made(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxEmbedder, "__init__", make)
        yield


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_refuse)
