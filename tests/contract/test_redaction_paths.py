"""Nothing sensitive reaches the disk, by whatever way it comes in."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engram
from engram_bench import sensitive

VALUES: list[str] = [
    sensitive.PROVIDERS["github"](random.Random(1)),
    sensitive.PROVIDERS["stripe"](random.Random(2)),
    sensitive.PERSONAL["email"][0](random.Random(3)),
    sensitive.PERSONAL["card"][0](random.Random(4)),
    sensitive.PERSONAL["iban"][0](random.Random(5)),
    sensitive.PERSONAL["ip"][0](random.Random(6)),
]

PATHS: dict[str, Callable[[Any, str], object]] = {
    "text": lambda a, v: a.remember(f"the text has {v} in it"),
    "context": lambda a, v: a.remember("a text", context=f"while using {v}"),
    "tag": lambda a, v: a.remember("a text", tags=[v]),
    "metadata value": lambda a, v: a.remember("a text", metadata={"deep": [{"x": v}]}),
    "metadata key": lambda a, v: a.remember("a text", metadata={v: 1}),
    "session": lambda a, v: a.remember("a text", session=v),
    "key": lambda a, v: a.remember("a text", key=v),
    "speaker": lambda a, v: a.remember("a text", speaker=v),
    "batch": lambda a, v: a.remember(["first", f"second {v}"]),
    "query": lambda a, v: a.recall(f"what about {v}?"),
    "decision": lambda a, v: a.record_decision(context=f"for {v}", action=f"deploy with {v}", alternatives=[v]),
    "error of a decision": lambda a, v: a.record_decision(context="c", action="a", outcome="failure", error=f"no {v}"),
    "outcome": lambda a, v: a.outcome(a.record_decision(context="c", action="a").id, "failure", error=ValueError(v)),
    "suggestion": lambda a, v: a.suggest(context=f"deploying with {v}", actions=[v, "wait"]),
    "failure": lambda a, v: a.learn_from_failure(f"ConnectionError: {v} was refused", f"use {v} again"),
    "exception": lambda a, v: a.learn_from_failure(ValueError(f"bad value {v}"), "retry"),
}


def leaked(folder: Path, value: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_sensitive_reaches_the_disk(path: str, tmp_path: Path) -> None:
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as brain:
        alice = brain.agent("alice")
        for value in VALUES:
            PATHS[path](alice, value)
        assert [(value, leaked(tmp_path, value)) for value in VALUES if leaked(tmp_path, value)] == []
    assert [(value, leaked(tmp_path, value)) for value in VALUES if leaked(tmp_path, value)] == []


def test_what_is_around_stays_useful(tmp_path: Path) -> None:
    with engram.open(tmp_path / "x.db", embedder="hashing", durable=False) as brain:
        alice = brain.agent("alice")
        alice.remember("Bob of accounting answers at bob@globex.com, the staging host is 10.0.0.7")
        (found,) = alice.recall("where does Bob of accounting answer?", k=1)
        assert found.memory.text.startswith("Bob of accounting answers at [personal:email")
        assert found.memory.text.endswith("the staging host is 10.0.0.7")
