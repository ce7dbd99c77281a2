"""Suggestions with default settings are measured on the public interface, with tasks that were never recorded."""

from __future__ import annotations

import numpy as np

from engram.embed.hashing import HashingEmbedder
from engram_bench import default_advice
from engram_bench.replay import Tasks

KINDS = ("write a poem about the sea and the wind", "solve this equation for the number x")


def tasks(count: int) -> Tasks:
    """Make tasks of two kinds; in each another one of three actions works, and the third never."""
    outcomes = np.zeros((count, 3))
    outcomes[np.arange(count), np.arange(count) % 2] = 1.0
    texts = tuple(f"{KINDS[number % 2]}, version {1000 + number}" for number in range(count))
    return Tasks(contexts=texts, actions=("one", "two", "three"), outcomes=outcomes)


def test_it_recommends_what_works_in_each_kind_of_task() -> None:
    report = default_advice.run(tasks(200), HashingEmbedder(), seeds=2)
    assert (report["recorded"], report["asked"]) == (150, 100)
    assert report["recommended"]["mean"] > 0.9
    assert report["earned"]["mean"] > 0.95
    assert 0.3 < report["best_single_everywhere"]["mean"] < 0.7


def test_where_nothing_works_nothing_is_recommended() -> None:
    known = tasks(80)
    hopeless = Tasks(known.contexts, known.actions, np.zeros_like(known.outcomes))
    assert default_advice.run(hopeless, HashingEmbedder(), seeds=1)["recommended"]["mean"] == 0
