"""Trees as tables of bytes give what walking down each tree gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from engram.recall.rank import Trees, grown

NAMES = ("words", "vector", "time")


def tree(chance: random.Random, leaves: int) -> dict[str, Any]:
    if leaves == 1:
        return {"leaf_value": chance.uniform(-1, 1)}
    left = chance.randint(1, leaves - 1)
    return {
        "split_feature": chance.randrange(len(NAMES)),
        "threshold": chance.uniform(-1, 1),
        "left_child": tree(chance, left),
        "right_child": tree(chance, leaves - left),
    }


def walk(node: dict[str, Any], row: np.ndarray) -> float:
    while "leaf_value" not in node:
        node = node["left_child" if row[node["split_feature"]] <= node["threshold"] else "right_child"]
    return float(node["leaf_value"])


@pytest.mark.parametrize("seed", range(20))
def test_all_trees_at_once_give_what_each_gives(seed: int) -> None:
    chance = random.Random(seed)
    trees = [tree(chance, chance.randint(1, 8)) for _ in range(30)]
    rows = np.random.default_rng(seed).uniform(-1, 1, size=(50, len(NAMES)))
    expected = [sum(walk(t, row) for t in trees) for row in rows]
    made = grown(NAMES, trees)
    assert made.score(rows) == pytest.approx(expected)
    assert Trees.from_json(made.to_json()).score(rows) == pytest.approx(expected, abs=1e-3)
    assert made.score(rows[:0]).shape == (0,)


def test_a_value_at_the_threshold_goes_left() -> None:
    made = grown(
        ("x",),
        [{"split_feature": 0, "threshold": 0.5, "left_child": {"leaf_value": 1.0}, "right_child": {"leaf_value": 2.0}}],
    )
    assert made.score(np.array([[0.5], [0.6]])).tolist() == [1.0, 2.0]


def test_a_tree_with_too_many_leaves_is_refused() -> None:
    with pytest.raises(ValueError, match="num_leaves=8"):
        grown(NAMES, [tree(random.Random(1), 9)])
