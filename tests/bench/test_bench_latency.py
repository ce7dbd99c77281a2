from __future__ import annotations

from pathlib import Path

import numpy as np

from engram.ports import is_unit
from engram_bench import latency, no_progress
from engram_bench.synthetic import DIM, SESSION, WordVectors, drafts, question, text, word


def test_memories_are_the_same_in_every_run_and_not_all_alike() -> None:
    assert [d.text for d in drafts(0, 50)] == [text(number) for number in range(50)]
    assert len({text(number) for number in range(500)}) == 500
    first, second = list(drafts(0, SESSION)), list(drafts(SESSION, 2 * SESSION))
    assert len({d.session for d in first}) == 1
    assert len({d.speaker for d in first}) == 2
    assert {d.session for d in first} != {d.session for d in second}
    assert 10 <= np.mean([len(text(number).split()) for number in range(100)]) <= 30


def test_words_differ_by_rank() -> None:
    assert len({word(rank) for rank in range(5000)}) == 5000


def test_vectors_are_of_length_one_and_a_question_lies_near_its_memory() -> None:
    vectors = WordVectors()
    texts = [text(number) for number in range(200)]
    matrix = vectors.of(texts)
    assert matrix.shape == (200, DIM)
    assert is_unit(matrix)
    assert vectors.of([]).shape == (0, DIM)
    assert is_unit(vectors.of(["", "the", "?"]))
    ranks = [latency.nearest(matrix, vectors.of([question(number)])[0], 200).index(number) for number in range(200)]
    assert np.median(ranks) < 10
    topic = matrix[:SESSION] @ matrix[:SESSION].T
    assert topic.mean() > (matrix @ matrix.T).mean()


def test_nearest_is_exact() -> None:
    matrix = np.eye(4, dtype=np.float32)
    assert latency.nearest(matrix, np.array([0.1, 0.9, 0.5, 0.2], dtype=np.float32), 2) == [1, 2]
    assert len(latency.nearest(matrix, matrix[0], 9)) == 4


def test_quantiles_and_ratios() -> None:
    assert latency.timing([float(number) for number in range(101)]) == latency.Timing(50, 99)
    found = latency.ratios(
        {"recall": latency.Timing(3, 4), "numpy": latency.Timing(1, 4), "SQLite FTS5": latency.Timing(0.5, 1)}
    )
    assert found == {"recall ÷ (FTS5 + numpy)": 2.0, "recall ÷ numpy": 3.0}


def test_calls_are_warmed_up_and_take_turns() -> None:
    order: list[tuple[str, int]] = []
    calls = {name: (lambda turn, name=name: order.append((name, turn))) for name in "ab"}
    took = latency.time_calls(calls, 3, lambda done: None)
    assert {name: len(times) for name, times in took.items()} == {"a": 3, "b": 3}
    assert order[-6:] == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]


def test_a_run_measures_every_size_and_uses_what_is_there(tmp_path: Path) -> None:
    said: list[str] = []
    found = latency.run([120, 60], 5, tmp_path, on_progress=no_progress, say=said.append)
    assert [line["memories"] for line in found["sizes"]] == [60, 120]
    for line in found["sizes"]:
        assert line["recall_at_10"] == 1
        assert line["adds_per_second"] > 0
        assert {"recall", "keyword part", "vector part", "numpy", "SQLite FTS5"} <= line["timings"].keys()
        assert line["probe"]["open_ms"] > 0
    assert found["growth"]["recall"] > 0
    again = latency.run([60], 5, tmp_path, on_progress=no_progress, say=said.append)
    assert again["sizes"][0]["adds_per_second"] is None
    assert again["growth"] == {}
