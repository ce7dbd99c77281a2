"""The replay of decisions: only the chosen outcome is shown, and every arm sees the same orders."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from engram.embed.hashing import HashingEmbedder
from engram.errors import InvalidInput, NotFound
from engram.learning.decisions import suggestions
from engram.learning.decisions.belief import EVERYTHING, DecisionEpisode, GroupTotals
from engram.learning.scores import calibration_error
from engram.privacy.redactor import SecretRedactor
from engram_bench import replay
from engram_bench.replay import (
    CONTEXT_FREE,
    ENGRAM,
    KNOWN_TYPE,
    PLACEBO,
    RANDOM,
    UNRELATED,
    UNRELATED_FREE,
    ContextSimilarity,
    Tasks,
)

KINDS = {
    "sum": "add the numbers {n} and {m} in the ledger",
    "verse": "write a short poem about the river {n} and hill {m}",
    "code": "fix the failing python function called task_{n}_{m}",
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ACTIONS = ("calculator", "poet", "programmer")


def tasks(count: int = 240, typed: bool = False) -> Tasks:
    """Tasks of three kinds, for each of which another action is right."""
    dice = np.random.default_rng(5)
    kind = np.arange(count) % 3
    texts = [list(KINDS.values())[kind[n]].format(n=n, m=7 * n) for n in range(count)]
    right = np.where(np.arange(3)[None, :] == kind[:, None], 0.9, 0.3)
    outcomes = (dice.random((count, 3)) < right).astype(np.float64)
    return Tasks(tuple(texts), ACTIONS, outcomes, tuple(list(KINDS)[k] for k in kind) if typed else None)


def vectors(given: Tasks) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return replay.embed(given.contexts, HashingEmbedder(), SecretRedactor())


@pytest.fixture(scope="module")
def played() -> replay.ReplayedArms:
    given = tasks(typed=True)
    return replay.play(given, vectors(given), "hashing", seeds=6)


def test_context_helps_where_it_matters_and_a_placebo_does_not(played: replay.ReplayedArms) -> None:
    result = replay.report(played)
    assert result["means"][ENGRAM]["mean"] > result["means"][CONTEXT_FREE]["mean"] + 0.1
    assert result["differences"][f"{ENGRAM} - {CONTEXT_FREE}"]["low"] > 0
    assert abs(result["differences"][f"{PLACEBO} - {CONTEXT_FREE}"]["mean"]) < 0.05
    assert result["means"][KNOWN_TYPE]["mean"] > result["means"][CONTEXT_FREE]["mean"] + 0.1
    assert result["means"][ENGRAM]["mean"] <= result["oracle"]
    assert result["brier"] < result["brier_of_base_rates"]
    assert set(result["means"]) == {ENGRAM, PLACEBO, CONTEXT_FREE, KNOWN_TYPE, RANDOM, UNRELATED, UNRELATED_FREE}


def test_only_the_outcome_of_the_chosen_action_is_got(played: replay.ReplayedArms) -> None:
    for name, one in played.replays.items():
        assert one.got.shape == one.choices.shape == (6, 240)
        if name not in (UNRELATED, UNRELATED_FREE):
            assert (one.got == played.tasks.outcomes[np.arange(240), one.choices]).all()


def test_what_was_not_chosen_is_never_looked_at() -> None:
    given = tasks(90)
    first = replay.play(given, vectors(given), seeds=1).replays[ENGRAM]
    hidden = given.outcomes.copy()
    mask = np.ones_like(hidden, dtype=bool)
    mask[np.arange(90), first.choices[0]] = False
    hidden[mask] = 1 - hidden[mask]
    again = replay.play(Tasks(given.contexts, ACTIONS, hidden), vectors(given), seeds=1).replays[ENGRAM]
    assert (again.choices == first.choices).all()


def test_the_same_seeds_give_the_same_run() -> None:
    given = tasks(60)
    runs = [replay.play(given, vectors(given), seeds=2) for _ in range(2)]
    assert replay.report(runs[0]) == replay.report(runs[1])


def test_a_neighbour_is_only_seen_after_its_turn() -> None:
    likeness = ContextSimilarity.of(np.eye(4, dtype=np.float32) + 0.5)
    position = np.array([0, 1, 2, 3])
    assert [sorted(likeness.before(place, position, place)[0].tolist()) for place in range(4)] == [
        [],
        [0],
        [0, 1],
        [0, 1, 2],
    ]


def test_one_row_per_task_from_which_the_means_follow(played: replay.ReplayedArms, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    replay.write(out, played)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["row"] for row in rows] == list(range(240))
    assert {len(row[ENGRAM]["choices"]) for row in rows} == {6}
    mean = sum(row[ENGRAM]["mean"] for row in rows) / len(rows)
    assert mean == pytest.approx(replay.report(played)["means"][ENGRAM]["mean"])


def test_files_are_read_packed_or_not_and_complaints_name_the_line(tmp_path: Path) -> None:
    rows = [{"context": f"task {n}", "outcomes": {"b": 0.5, "a": n / 2}} for n in range(3)]
    text = "\n".join(json.dumps(row) for row in rows)
    plain, packed = tmp_path / "d.jsonl", tmp_path / "d.jsonl.gz"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    read = [replay.read(path) for path in (plain, packed)]
    assert read[0].actions == ("a", "b")
    assert read[0].outcomes.tolist() == read[1].outcomes.tolist() == [[0, 0.5], [0.5, 0.5], [1, 0.5]]
    assert read[0].sha256 == read[1].sha256
    assert read[0].types is None
    with pytest.raises(NotFound):
        replay.read(tmp_path / "none")
    for wrong, complaint in [
        ("", "is empty"),
        ("{", "line 1"),
        ('{"context": "x", "outcomes": {"a": 2, "b": 0}}', "0 to 1"),
        (text + '\n{"context": "x", "outcomes": {"a": 1, "c": 0}}', "line 4 has other actions"),
    ]:
        plain.write_text(wrong, encoding="utf-8")
        with pytest.raises(InvalidInput, match=complaint):
            replay.read(plain)
    packed.write_bytes(packed.read_bytes()[:20])
    with pytest.raises(InvalidInput, match="damaged"):
        replay.read(packed)


def test_a_whole_run_embeds_and_reports() -> None:
    heard: list[str] = []
    result, played = replay.run(
        tasks(40),
        HashingEmbedder(),
        SecretRedactor(),
        seeds=2,
        on_progress=lambda done, total, label="": heard.append(label),
    )
    assert result["tasks"] == 40
    assert result["embedder"] == played.embedder == HashingEmbedder().identity
    assert {"embedding", ENGRAM, RANDOM} <= set(heard)
    assert KNOWN_TYPE not in result["means"]


def test_calibration_error_is_the_mean_distance_in_bins() -> None:
    right = np.array([0.25, 0.25, 0.25, 0.25]), np.array([1.0, 0.0, 0.0, 0.0])
    assert calibration_error(*right) == pytest.approx(0)
    assert calibration_error(np.array([0.95, 0.05]), np.array([0.0, 1.0])) == pytest.approx(0.95)


def test_the_replay_believes_what_a_suggestion_would_say() -> None:
    given = tasks(80)
    made = vectors(given)
    first = replay.play(given, made, seeds=1).replays[ENGRAM]
    *before, last = np.random.default_rng(0).permutation(80).tolist()
    taken = {place: ACTIONS[first.choices[0, place]] for place in (*before, last)}
    past = [
        DecisionEpisode(
            str(place), taken[place], first.got[0, place], NOW, given.contexts[place], float(made[place] @ made[last])
        )
        for place in before
    ]
    tallies = {
        action: GroupTotals(len(got), sum(got))
        for action in ACTIONS
        for got in [[one.quality for one in past if one.action == action]]
    }
    told = suggestions.predict(given.contexts[last], taken[last], past, now=NOW, groups={EVERYTHING: tallies})
    assert told.probability == pytest.approx(first.predicted[0, last], abs=1e-4)
