from __future__ import annotations

from pathlib import Path

import pytest

from engram.errors import InvalidInput, NotFound
from engram_bench import rankings
from engram_bench.rankings import BenchmarkRun, Level, Ranking, report

RUN = BenchmarkRun("LoCoMo", "0.1.0", "hashing-256@1", "ab" * 32, False, 1, 3, {"turns that come twice": 1})


def ranking(
    question: str,
    ranked: str,
    gold: str = "a",
    *,
    level: Level = "turn",
    system: str = "engram",
    answerable: bool = True,
    confidence: float | None = None,
    type: str = "single-hop",
) -> Ranking:
    pairs = tuple((id, 1.0 - place / 10) for place, id in enumerate(ranked))
    return Ranking(question, type, level, system, answerable, tuple(gold), pairs, confidence)


FOUND = [
    ranking("q1", "axy", confidence=0.9),
    ranking("q2", "xay", "ab", confidence=0.4, type="multi-hop"),
    ranking("q3", "xyz", "", answerable=False, confidence=0.5),
    ranking("q4", "xyz", "", confidence=0.8),
    ranking("q1", "s", "s", level="session"),
    ranking("q1", "xa", system="BM25"),
    ranking("q2", "xyz", "ab", system="BM25", type="multi-hop"),
]


def test_a_file_of_rankings_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    rankings.write(file, RUN, FOUND)
    assert rankings.read(file) == (RUN, FOUND)
    assert report(*rankings.read(file)) == report(RUN, FOUND)


def test_a_report_scores_what_can_be_answered_and_has_gold() -> None:
    found = report(RUN, FOUND)
    assert found["questions"] == {"asked": 4, "answerable": 3, "unanswerable": 1, "scored": {"turn": 2, "session": 1}}
    rows = {(r["level"], r["system"], r["type"], r["k"]): r for r in found["results"]}
    assert rows["turn", "engram", "all", 1]["any"]["mean"] == 0.5
    assert rows["turn", "engram", "all", 5]["fraction"]["mean"] == 0.75
    assert rows["turn", "engram", "all", 5]["all"]["mean"] == 0.5
    assert rows["turn", "engram", "multi-hop", 5]["mrr"]["mean"] == 0.5
    assert rows["turn", "engram", "multi-hop", 5]["questions"] == 1
    assert rows["session", "engram", "all", 1]["ndcg"] == {"mean": 1, "low": 1, "high": 1}
    assert ("session", "BM25", "all", 1) not in rows


def test_systems_are_compared_question_by_question() -> None:
    gains = {(r["system"], r["k"]): r for r in report(RUN, FOUND)["better_than"]}
    assert gains["BM25", 1]["any"]["mean"] == 0.5
    assert gains["BM25", 5]["fraction"]["mean"] == 0.25
    assert gains["BM25", 5]["questions"] == 2


def test_the_confidence_tells_answerable_from_unanswerable() -> None:
    assert report(RUN, FOUND)["confidence"] == {"auc": round(2 / 3, 6), "answerable": 3, "unanswerable": 1}
    assert report(RUN, FOUND[:2])["confidence"]["auc"] is None


@pytest.mark.parametrize("content", ["", "{}", "[]", "nonsense", '{"benchmark": "x"}', "\ud800"], ids=range(6))
def test_another_file_is_refused_with_its_line(content: str, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(InvalidInput, match="line 1"):
        rankings.read(file)


def test_a_broken_line_is_named_and_a_newer_format_refused(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    rankings.write(file, RUN, FOUND)
    file.write_text(file.read_text(encoding="utf-8") + '{"question": 3}\n', encoding="utf-8")
    with pytest.raises(InvalidInput, match=f"line {len(FOUND) + 2}"):
        rankings.read(file)
    file.write_text(file.read_text(encoding="utf-8").replace('"format": 1', '"format": 2'), encoding="utf-8")
    with pytest.raises(InvalidInput, match="format 2"):
        rankings.read(file)
    with pytest.raises(NotFound):
        rankings.read(tmp_path / "none")
