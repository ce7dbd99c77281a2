"""Small decision trees, all at once: how a learned ranker is evaluated without the library that trained it.

A tree has at most eight leaves. Each of its inner nodes that says "no" rules out the leaves on its left; the first leaf
that nobody rules out is the tree's answer. So a tree is one byte per node, and all trees are one table of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAVES = 8
_FIRST = np.array([(byte & -byte).bit_length() - 1 if byte else 0 for byte in range(256)], dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees over named features; their answers are summed up."""

    features: tuple[str, ...]
    feature: NDArray[np.intp]
    """(trees, nodes): which feature a node looks at."""
    threshold: NDArray[np.float64]
    """(trees, nodes): up to which value it says yes."""
    left: NDArray[np.uint8]
    """(trees, nodes): the leaves that stay when it says no, as bits."""
    value: NDArray[np.float64]
    """(trees, leaves): what each leaf is worth."""

    def score(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """One score for each row of features."""
        if len(rows) == 0:
            return np.zeros(0)
        yes = rows.T[self.feature] <= self.threshold[:, :, None]  # (trees, nodes, rows): long runs of one feature
        staying = np.bitwise_and.reduce(np.where(yes, np.uint8(255), self.left[:, :, None]), axis=1)
        return np.asarray(np.take_along_axis(self.value, _FIRST[staying], axis=1).sum(axis=0))

    def to_json(self) -> dict[str, Any]:
        """As plain numbers, short enough to be shipped."""
        return {
            "features": list(self.features),
            "feature": self.feature.tolist(),
            "threshold": [[float(f"{x:.6g}") for x in row] for row in self.threshold],
            "left": self.left.tolist(),
            "value": [[float(f"{x:.5g}") for x in row] for row in self.value],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trees:
        """What `to_json` gave."""
        return cls(
            tuple(data["features"]),
            np.array(data["feature"], dtype=np.intp),
            np.array(data["threshold"], dtype=np.float64),
            np.array(data["left"], dtype=np.uint8),
            np.array(data["value"], dtype=np.float64),
        )


Node = Mapping[str, Any]


def grown(features: Sequence[str], trees: Sequence[Node]) -> Trees:
    """Trees from the nested form that LightGBM's `dump_model` gives. Raises `ValueError` if one is too large."""
    tables = [_table(tree) for tree in trees]
    nodes = max((len(feature) for feature, _, _, _ in tables), default=1)
    count = len(tables)
    feature = np.zeros((count, nodes), dtype=np.intp)
    threshold = np.full((count, nodes), np.inf)  # a node that is not there says yes
    left = np.full((count, nodes), 255, dtype=np.uint8)
    value = np.zeros((count, LEAVES))
    for row, (features_of, thresholds, lefts, values) in enumerate(tables):
        feature[row, : len(features_of)] = features_of
        threshold[row, : len(thresholds)] = thresholds
        left[row, : len(lefts)] = lefts
        value[row, : len(values)] = values
    return Trees(tuple(features), feature, threshold, left, value)


def _table(tree: Node) -> tuple[list[int], list[float], list[int], list[float]]:
    """A tree's inner nodes (feature, threshold, what stays on no) and the values of its leaves, from left to right."""
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    values: list[float] = []

    def walk(node: Node) -> int:
        """The leaves below a node, as bits."""
        if "leaf_value" in node:
            values.append(float(node["leaf_value"]))
            return 1 << (len(values) - 1)
        place = len(feature)
        feature.append(int(node["split_feature"]))
        threshold.append(float(node["threshold"]))
        left.append(0)
        yes = walk(node["left_child"])
        no = walk(node["right_child"])
        left[place] = 255 & ~yes
        return yes | no

    walk(tree)
    if len(values) > LEAVES:
        raise ValueError(f"a tree has {len(values)} leaves; train with num_leaves={LEAVES}")
    return feature, threshold, left, values
