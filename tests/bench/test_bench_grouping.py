"""The measures of a grouping agree with counting by hand, and a file of any shape is read or refused clearly."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidInput, NotFound
from engram_bench import grouping
from engram_bench.grouping import LabelledLine, grouping_accuracy, pairwise_f1, read_lines, run, shuffled

LOGS = [
    {"system": system, "text": text, "group": group}
    for system in ("shop", "mill")
    for number in range(4)
    for text, group in ((f"door {number} opened", "E1"), (f"sold {number} loaves to 10.0.0.{number}", "E2"))
]
TOOLS = [
    {"suite": "s", "tool": "t", "error": f"ValueError: no user '{name}' here", "group": "U", "count": 3}
    for name in ("ann", "bob", "ann")
] + [{"suite": "s", "tool": "t", "error": "KeyError: 'x'", "group": None}]


def write(path: Path, rows: list[dict[str, Any]], pack: bool = False) -> Path:
    text = "\n".join(json.dumps(row) for row in rows).encode()
    path.write_bytes(gzip.compress(text) if pack else text)
    return path


def test_logs_are_grouped_system_by_system(tmp_path: Path) -> None:
    lines, sha = read_lines(write(tmp_path / "logs.jsonl.gz", LOGS, pack=True))
    assert len(sha) == 64
    report, groups = run(lines)
    assert report["systems"] == 2
    assert report["scored"] == len(groups) == len(LOGS)
    means = {mean["arm"]: mean for mean in report["means"]}
    assert means["engram"] == {"arm": "engram", "accuracy": 1.0, "f1": 1.0}
    assert means["engram, line by line"]["accuracy"] == 1.0
    assert means["no grouping"]["accuracy"] == 0.0
    assert means["placebo"]["accuracy"] < 1.0
    assert len(set(groups)) == 4
    assert set(groups[:8]).isdisjoint(groups[8:])


def test_a_system_left_out_is_scored_with_thresholds_chosen_on_the_others() -> None:
    names = ["ann", "bob", "carla", "dmitri"]
    other = [LabelledLine(system, f"session closed for user {name}", "E1") for system in ("a", "b") for name in names]
    odd = [LabelledLine("c", f"session closed for user {name}", name) for name in names]
    scores = {one.system: one.accuracy for one in grouping.leave_one_out([*other, *odd])}
    assert scores["c"] == 0.0
    assert grouping.leave_one_out(other) == []


def test_packed_or_not_is_the_same(tmp_path: Path) -> None:
    assert read_lines(write(tmp_path / "a", LOGS, pack=True)) == read_lines(write(tmp_path / "b", LOGS))


def test_errors_of_tools_are_grouped_together_and_scored_once_per_text(tmp_path: Path) -> None:
    lines, _ = read_lines(write(tmp_path / "tools.jsonl", TOOLS))
    report, groups = run(lines)
    ours = next(row for row in report["results"] if row["arm"] == "engram")
    assert (ours["lines"], ours["accuracy"], ours["f1"], ours["true_groups"]) == (2, 1.0, 1.0, 1)
    assert groups[0] == groups[1] == groups[2] != groups[3]


def test_lines_without_labels_are_grouped_but_not_scored() -> None:
    report, groups = run([LabelledLine("shop", "door 1 opened", None), LabelledLine("shop", "door 2 opened", None)])
    assert groups == [0, 0]
    assert (report["scored"], report["results"], report["systems"]) == (0, [], 0)
    assert all(mean["accuracy"] is None for mean in report["means"])


def test_every_run_is_the_same(tmp_path: Path) -> None:
    lines, _ = read_lines(write(tmp_path / "logs", LOGS))
    assert run(lines) == run(lines)


def test_the_absence_of_drain3_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "drain3_grouping", lambda: None)
    report, _ = run([LabelledLine("shop", "door 1 opened", "E1")])
    assert "drain3" in report["skipped"][0]
    assert all(row["arm"] != "drain3" for row in report["results"])


def test_drain3_is_compared_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "drain3_grouping", lambda: lambda texts: list(range(len(texts))))
    report, _ = run([LabelledLine("shop", f"door {number} opened", "E1") for number in range(3)])
    drain = next(row for row in report["results"] if row["arm"] == "drain3")
    assert (drain["accuracy"], drain["groups"]) == (0.0, 3)
    assert report["skipped"] == []


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"{", b"[1]", b'{"system": "a"}', b'{"text": 5}', b"\xff\xfe\xff", b"\x1f\x8bbroken"],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"data\.jsonl"):
        read_lines(path)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_lines(tmp_path / "none.jsonl")


GROUPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcd")), max_size=25)


@given(GROUPS)
def test_accuracy_is_the_share_of_lines_whose_group_is_exactly_right(rows: list[tuple[int, str]]) -> None:
    found, truth = [one for one, _ in rows], [other for _, other in rows]
    right = [
        {place for place, other in enumerate(found) if other == found[number]}
        == {place for place, other in enumerate(truth) if other == truth[number]}
        for number in range(len(rows))
    ]
    assert grouping_accuracy(found, truth) == pytest.approx(sum(right) / len(rows) if rows else 1.0)


@given(GROUPS)
def test_f1_counts_pairs(rows: list[tuple[int, str]]) -> None:
    pairs = list(combinations(rows, 2))
    both = sum(a[0] == b[0] and a[1] == b[1] for a, b in pairs)
    ours, true = sum(a[0] == b[0] for a, b in pairs), sum(a[1] == b[1] for a, b in pairs)
    expected = 2 * both / (ours + true) if ours + true else 1.0
    assert pairwise_f1([one for one, _ in rows], [other for _, other in rows]) == pytest.approx(expected)


@given(st.lists(st.integers(0, 5), max_size=30), st.integers())
def test_the_placebo_has_groups_of_the_same_sizes(groups: list[int], seed: int) -> None:
    assert Counter(shuffled(groups, Random(seed))) == Counter(groups)
