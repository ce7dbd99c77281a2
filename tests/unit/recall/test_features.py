"""What a ranker sees of each candidate, and that a better match never ranks lower."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model import Clean
from engram.ports import RankingInput, TermCounts
from engram.recall.features import (
    MATCHES,
    NAMES,
    NEAR_WORDS,
    OFFSETS,
    Numbers,
    Scene,
    features,
    in_sessions,
    places,
    saturated,
    scene,
    standard,
    timely,
)
from engram.recall.rank import Ranked, Trees, Weights, grown, rank, shipped
from engram.recall.understand import ParsedQuery
from engram.text.time_phrases import Interval

NOW = datetime(2026, 3, 18, tzinfo=UTC)
DAY = timedelta(days=1)
TERMS = ("zebra", "giraffe")


def asked(**fields: Any) -> ParsedQuery:
    given: dict[str, Any] = {"text": Clean("zebra giraffe"), "terms": TERMS, "speaker": None, "role": None, "times": ()}
    return ParsedQuery(**given | fields)


def glimpse(id: str, seq: int, session: str | None = None, **fields: Any) -> RankingInput:
    given: dict[str, Any] = {
        "speaker": None,
        "role": None,
        "at": NOW,
        "text": Clean(id),
        "length": 10,
        "counts": [0] * len(TERMS),
    }
    given |= {"importance": 0.5, "trust": 1.0, "usefulness": 0.5}
    return RankingInput(id=id, seq=seq, session=session, **given | fields)


def seen(
    glimpses: Sequence[RankingInput],
    *,
    similar: Mapping[str, float] | None = None,
    candidates: Sequence[str] | None = None,
    query: ParsedQuery | None = None,
    spread: TermCounts | None = None,
) -> Scene:
    chosen = [row.id for row in glimpses] if candidates is None else candidates
    common = spread or TermCounts(1000, dict.fromkeys(TERMS, 50))
    return scene(glimpses, frozenset(chosen), similar or {}, query or asked(), common)


def by_id(made: Scene, values: Numbers) -> dict[str, float]:
    return {row.id: float(value) for row, value in zip(made.glimpses, values, strict=True)}


# The scene -------------------------------------------------------------------------------------------


def test_rows_stand_in_the_order_of_their_sessions_whatever_order_they_came_in() -> None:
    rows = [glimpse("b2", 4, "b"), glimpse("a1", 1, "a"), glimpse("n", 9), glimpse("b1", 2, "b"), glimpse("a2", 3, "a")]
    for order in (rows, rows[::-1]):
        made = seen(order, candidates=["a1", "n"], similar={"a1": 0.5})
        assert [row.id for row in made.glimpses] == ["n", "a1", "a2", "b1", "b2"]
        assert made.session.tolist() == [-1, 0, 0, 1, 1]
        assert made.candidate.tolist() == [True, True, False, False, False]
        assert made.similarity.tolist() == [0, 0.5, 0, 0, 0]


def test_offsets_stay_within_the_session() -> None:
    rows = [glimpse(f"{session}{n}", n, session) for session in "ab" for n in range(3)]
    made = seen([*rows, glimpse("n1", 1), glimpse("n2", 2)])
    names = [row.id for row in made.glimpses]
    for offset in (-3, -2, -1, 1, 2, 3):
        for row, there in enumerate(made.at(offset).tolist()):
            session, number = names[row][0], int(names[row][1])
            expected = f"{session}{number + offset}"
            assert (names[there] if there >= 0 else None) == (expected if expected in names[2:] else None)


@given(st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=12), st.integers(-3, 3))
def test_what_is_at_an_offset_is_of_the_same_session_and_so_far_away(sessions: list[str | None], offset: int) -> None:
    made = seen([glimpse(str(n), n, session) for n, session in enumerate(sessions)])
    for row, there in enumerate(made.at(offset).tolist()):
        if there >= 0:
            assert there == row + offset
            assert made.glimpses[row].session is not None
            assert made.glimpses[there].session == made.glimpses[row].session


def test_a_scene_of_nothing_and_a_query_without_terms_have_the_right_shapes() -> None:
    empty = seen([])
    assert (empty.counts.shape, empty.at(1).shape) == ((0, 2), (0,))
    mute = seen([glimpse("a", 1, counts=[])], query=asked(terms=()), spread=TermCounts(1, {}))
    assert mute.counts.shape == (1, 0)
    assert set(features(mute, asked(terms=()))) == {*NAMES, "session"}


def test_rare_terms_tell_more_and_none_tells_less_than_nothing() -> None:
    rows = [glimpse("a", 1)]
    rare, common = seen(rows, spread=TermCounts(100, {"zebra": 1, "giraffe": 90})).telling
    assert rare > common > 0
    stale = seen(rows, spread=TermCounts(0, {"zebra": 40}))  # a count of rows that lags behind
    assert (stale.telling > 0).all()
    assert np.isfinite(stale.telling).all()


# Features --------------------------------------------------------------------------------------------


@given(st.data())
def test_every_feature_is_one_finite_number_for_each_row(data: st.DataObject) -> None:
    made, query = data.draw(scenes()), asked(speaker="ann")
    found = features(made, query)
    assert set(found) == {*NAMES, "session"}
    for name, values in found.items():
        assert values.shape == (len(made.glimpses),), name
        assert np.isfinite(values).all(), name
    for name in ("cover", "cover_near"):
        assert found[name].min() >= 0
        assert found[name].max() <= 1 + 1e-9
    assert (found["cover_near"] >= found["cover"] - 1e-12).all()


def test_the_words_of_a_neighbour_count_less_the_farther_away_it_is() -> None:
    rows = [glimpse(f"s{n}", n, "s") for n in range(7)]
    rows[3] = rows[3]._replace(counts=[1, 1])
    made = seen([*rows, glimpse("far", 99, "t"), glimpse("none", 100)])
    near = by_id(made, features(made, asked())["words_near"])
    nothing = near["far"]
    worth = {offset: (near[f"s{3 - offset}"] - nothing) / (near["s3"] - nothing) for offset in (-2, -1, 1, 2)}
    assert worth == pytest.approx({offset: NEAR_WORDS.get(offset, 0) for offset in (-2, -1, 1, 2)})
    assert all(0 < share < 1 for share in NEAR_WORDS.values())
    assert near["none"] == near["s0"] == near["s6"] == nothing


def test_a_neighbour_never_takes_away_what_a_memory_has_itself() -> None:
    rows = [glimpse("a", 1, "s", counts=[3, 0]), glimpse("b", 2, "s", counts=[1, 1]), glimpse("c", 3, "t")]
    made = seen(rows)
    found = features(made, asked())
    raw = saturated(made.counts, np.full(3, 10.0)) @ made.telling
    near = found["words_near"] * 1.0
    assert near.argmax() == 0
    assert raw[0] < raw[1]  # alone, b has more; together, a has what b has, at a discount


def test_the_features_around_a_row_are_those_of_the_rows_there() -> None:
    rows = [glimpse(f"s{n}", n, "s") for n in range(5)]
    made = seen(rows, similar={f"s{n}": n / 10 for n in range(5)})
    found = features(made, asked())
    for offset in OFFSETS:
        around = found[f"similar{offset:+d}"]
        for row in range(5):
            there = row + offset
            assert around[row] == (found["similar"][there] if 0 <= there < 5 else found["similar"].min())


def test_words_saturate_and_long_texts_are_held_back() -> None:
    one, two, many = saturated(np.array([[1.0], [2.0], [50.0]]), np.full(3, 10.0))[:, 0]
    assert 0 < one < two < many < 2.2
    assert two - one < one
    short, long = saturated(np.array([[1.0], [1.0]]), np.array([5.0, 50.0]))[:, 0]
    assert short > long
    assert saturated(np.zeros((2, 1)), np.zeros(2)).tolist() == [[0], [0]]


@given(st.lists(st.tuples(st.integers(-100, 100), st.booleans()), min_size=1, max_size=20))
def test_standard_values_have_mean_0_and_deviation_1_among_the_candidates(rows: list[tuple[int, bool]]) -> None:
    values, among = np.array([float(value) for value, _ in rows]), np.array([chosen for _, chosen in rows])
    among[0] = True
    made = standard(values, among)
    assert made[among].mean() == pytest.approx(0, abs=1e-6)
    if values[among].std() > 1e-3:
        assert made[among].std() == pytest.approx(1)
    assert np.argsort(made, kind="stable").tolist() == np.argsort(values, kind="stable").tolist()


def test_equal_values_are_all_standard() -> None:
    assert standard(np.full(4, 0.7), np.ones(4, dtype=bool)) == pytest.approx([0, 0, 0, 0], abs=1e-6)


def test_places_begin_at_0_and_end_with_those_that_are_no_candidates() -> None:
    values, among = np.array([5.0, 9.0, 1.0, 7.0]), np.array([True, False, True, True])
    assert places(values, among).tolist() == [1, 3, 2, 0]


def interval(start: datetime | None, end: datetime | None) -> Interval:
    return Interval(start, end, "then", (0, 4))


@pytest.mark.parametrize(
    ("times", "at", "expected"),
    [
        ([], NOW, 0),
        ([interval(NOW, NOW + DAY)], NOW, 1),
        ([interval(NOW, NOW + DAY)], NOW + DAY - timedelta(microseconds=1), 1),
        ([interval(NOW, NOW + DAY)], NOW + DAY, 1),
        ([interval(NOW, NOW + DAY)], NOW + 8 * DAY, np.exp(-1)),
        ([interval(NOW, NOW + DAY)], NOW - 2 * DAY, np.exp(-1)),
        ([interval(None, NOW)], NOW - 999 * DAY, 1),
        ([interval(NOW, None)], NOW + 999 * DAY, 1),
        ([interval(None, None)], NOW, 1),
        ([interval(NOW, NOW + DAY), interval(NOW + 99 * DAY, None)], NOW + 100 * DAY, 1),
    ],
)
def test_how_timely_a_memory_is(times: list[Interval], at: datetime, expected: float) -> None:
    assert timely(times, at) == pytest.approx(expected)


@given(st.integers(0, 400), st.integers(0, 400))
def test_farther_away_is_never_more_timely(one: int, other: int) -> None:
    near, far = sorted((one, other))
    times = [interval(NOW, NOW + DAY)]
    assert timely(times, NOW + DAY + near * DAY) >= timely(times, NOW + DAY + far * DAY)
    assert timely(times, NOW - near * DAY) >= timely(times, NOW - far * DAY)


def test_a_session_lends_its_best_to_the_others_and_the_next_best_to_the_best() -> None:
    rows = [glimpse(f"a{n}", n, "a") for n in range(4)] + [
        glimpse("b", 9, "b"),
        glimpse("n", 10),
        glimpse("x", 11, "a"),
    ]
    made = seen(rows, candidates=[row.id for row in rows if row.id != "x"])
    worth = {"a0": 5.0, "a1": 3.0, "a2": 2.0, "a3": 1.0, "b": 4.0, "n": 9.0, "x": 99.0}
    values = np.array([worth[row.id] for row in made.glimpses])
    best, top = (by_id(made, values) for values in in_sessions(values, made))
    assert {name: best[name] for name in ("a0", "a1", "a2", "a3")} == {"a0": 3, "a1": 5, "a2": 5, "a3": 5}
    assert [top[name] for name in ("a0", "a1", "a2", "a3")] == pytest.approx([10 / 3] * 4)
    assert [best["b"], top["b"]] == pytest.approx([1, (4 + 1 + 1) / 3])
    assert (best["n"], top["n"]) == (1, 1)


def test_two_equal_bests_of_a_session_lend_to_each_other() -> None:
    made = seen([glimpse("a", 1, "s"), glimpse("b", 2, "s"), glimpse("c", 3, "t")])
    best, _ = in_sessions(np.array([5.0, 5.0, 0.0]), made)
    assert best.tolist() == [5, 5, 0]


# A better match never ranks lower --------------------------------------------------------------------


@st.composite
def scenes(draw: st.DrawFn, *, sessions: bool = True) -> Scene:
    """Up to a dozen candidates; without sessions, nobody has neighbours."""
    count = draw(st.integers(2, 12))
    names = st.sampled_from([None, "s", "t"]) if sessions else st.none()
    tenths = st.integers(0, 10).map(lambda n: n / 10)
    rows = [
        glimpse(
            f"m{n:02}",
            n,
            draw(names),
            counts=[draw(st.integers(0, 4)), draw(st.integers(0, 2))],
            length=draw(st.integers(5, 30)),
            speaker=draw(st.sampled_from(["Ann", "Bob", None])),
            at=NOW + draw(st.integers(-30, 30)) * DAY,
            importance=draw(tenths),
        )
        for n in range(count)
    ]
    return seen(rows, similar={row.id: draw(tenths) for row in rows})


QUERY = asked(speaker="ann", times=(interval(NOW, NOW + DAY),))


def more_similar(row: RankingInput) -> RankingInput:
    return row


def more_words(row: RankingInput) -> RankingInput:
    return row._replace(counts=[row.counts[0] + 1, row.counts[1]])


def by_whom(row: RankingInput) -> RankingInput:
    return row._replace(speaker="Ann")


def at_that_time(row: RankingInput) -> RankingInput:
    return row._replace(at=NOW)


BETTER: dict[str, Callable[[RankingInput], RankingInput]] = {
    "similar": more_similar,
    "words": more_words,
    "about": by_whom,
    "time": at_that_time,
}


def monotone_trees(seed: int = 5) -> Trees:
    """A ranker that only ever counts `MATCHES` in favour: every tree has one split, and more is better."""
    chance = random.Random(seed)
    stumps = [
        {
            "split_feature": chance.randrange(len(MATCHES)),
            "threshold": chance.uniform(-1.5, 1.5),
            "left_child": {"leaf_value": 0.0},
            "right_child": {"leaf_value": chance.uniform(0, 1)},
        }
        for _ in range(60)
    ]
    return grown(MATCHES, stumps)


RANKERS: dict[str, Callable[[], Trees | None]] = {"none": lambda: None, "stumps": monotone_trees, "shipped": shipped}


def ranked(made: Scene, ranker: Trees | None = None, query: ParsedQuery = QUERY) -> list[Ranked]:
    return rank(made, features(made, query), Weights(recency=0), ranker, 0.5)


@pytest.mark.parametrize("better", BETTER)
@pytest.mark.parametrize("ranker", RANKERS)
@given(data=st.data())
def test_of_two_that_differ_in_one_match_the_better_is_never_below(
    better: str, ranker: str, data: st.DataObject
) -> None:
    """Everybody else is as they are; two more come in, one as good as the other but for one match."""
    others = data.draw(scenes(sessions=False))
    worse = glimpse("worse", 100, counts=[data.draw(st.integers(0, 3)), 1], at=NOW + 20 * DAY, speaker="Bob")
    best = BETTER[better](worse)._replace(id="better", seq=data.draw(st.sampled_from([50, 150])), text=Clean("better"))
    similar = {row.id: value for row, value in zip(others.glimpses, others.similarity.tolist(), strict=True)}
    similarity = data.draw(st.floats(0, 1))
    more = data.draw(st.floats(1e-3, 0.5)) if better == "similar" else 0.0
    both = seen([*others.glimpses, worse, best], similar=similar | {"worse": similarity, "better": similarity + more})
    order = [one.id for one in ranked(both, RANKERS[ranker]())]
    assert order.index("better") < order.index("worse")


@pytest.mark.parametrize("better", BETTER)
@given(data=st.data())
def test_a_memory_that_becomes_a_better_match_never_loses_its_place(better: str, data: st.DataObject) -> None:
    """Nobody is anybody's neighbour: what stands beside a better match is a better match, too."""
    made = data.draw(scenes(sessions=False))
    id = data.draw(st.sampled_from([row.id for row in made.glimpses]))
    similar = {row.id: value for row, value in zip(made.glimpses, made.similarity.tolist(), strict=True)}
    more = data.draw(st.integers(1, 5)) / 10 if better == "similar" else 0.0
    rows = [BETTER[better](row) if row.id == id else row for row in made.glimpses]
    after = seen(rows, similar=similar | {id: similar[id] + more})
    places = [[one.id for one in ranked(each)].index(id) for each in (made, after)]
    assert places[1] <= places[0]


@pytest.mark.parametrize("name", Weights().relevance)
@given(data=st.data())
def test_raising_one_match_of_a_memory_never_lowers_its_place(name: str, data: st.DataObject) -> None:
    made = data.draw(scenes())
    found = features(made, QUERY)
    row = data.draw(st.integers(0, len(made.glimpses) - 1))
    raised = {
        **found,
        name: found[name] + np.where(np.arange(len(made.glimpses)) == row, data.draw(st.floats(0, 3)), 0),
    }
    id = made.glimpses[row].id
    before = [one.id for one in rank(made, found, Weights(), None, 0.5)].index(id)
    assert [one.id for one in rank(made, raised, Weights(), None, 0.5)].index(id) <= before


def test_the_shipped_ranker_looks_at_nothing_but_features() -> None:
    trees = shipped()
    if trees is None:
        pytest.skip("no ranker is shipped yet")
    assert set(trees.features) <= set(NAMES)


@given(data=st.data())
def test_the_shipped_ranker_only_counts_matches_in_favour(data: st.DataObject) -> None:
    trees = shipped()
    if trees is None:
        pytest.skip("no ranker is shipped yet")
    values = st.lists(st.floats(-3, 3), min_size=len(trees.features), max_size=len(trees.features))
    before = np.array(data.draw(values))
    place = data.draw(st.sampled_from([n for n, name in enumerate(trees.features) if name in MATCHES]))
    after = before.copy()
    after[place] += data.draw(st.floats(0, 3))
    low, high = trees.score(np.stack([before, after]))
    assert high >= low - 1e-9
