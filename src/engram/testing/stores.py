"""Contract tests of memory stores: subclass them and provide the fixtures they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from engram.errors import Conflict, InvalidInput, NotFound, StoreClosed
from engram.model import Clean, Memory, MemoryType
from engram.ports import (
    LONG_TERM,
    Annotates,
    Changes,
    CountsAccess,
    Credit,
    CreditsRecalls,
    Entry,
    Filter,
    KeepsSettings,
    ListsAgents,
    MemoryStore,
    MirrorsVectors,
    PreviewsAdds,
    Query,
    ReadsNeighbours,
    Scope,
    Versions,
)
from engram.testing.erasing import ErasingContract
from engram.testing.events import EventsContract
from engram.testing.factories import EMBEDDER, START, Maker, passages, placed
from engram.text.terms import index_terms, normal_form

Ability = TypeVar("Ability")

ALICE, BOB = Scope("alice"), Scope("bob")

LOOK_ALIKES = {
    "longer": ("a", "ab"),
    "capital": ("a", "A"),
    "percent": ("ab", "a%"),
    "underscore": ("ab", "a_"),
    "star": ("ab", "a*"),
    "trailing space": ("a", "a "),
    "leading space": ("a", " a"),
    "cyrillic": ("a", "\u0430"),
    "full width": ("a", "\uff41"),
    "composed and decomposed": ("\u00e9", "e\u0301"),
    "zero width": ("a", "a\u200b"),
    "sharp s": ("ss", "\u00df"),
    "quote": ("a", "a' OR '1'='1"),
    "double quote": ("a", 'a" OR "a'),
    "comment": ("a", "a--"),
    "path": ("a", "a/../b"),
    "separator": ("a:b", "a\x1fb"),
    "number": ("1", "01"),
    "longest": ("n" * 254, "n" * 255),
}
"""Pairs of names that a wrong comparison would treat as equal."""

WAYS: dict[str, Query] = {
    "newest": Query(),
    "words": Query(words=Clean("deploy")),
    "vector": Query(near=placed(1, 0, 0)),
}
"""All kinds of queries that find the memories of `_findable`."""

SPECIAL_TEXTS = {
    "emoji": "🚀 shipped 👩‍👩‍👧‍👦 \U0001f1e9\U0001f1ea",
    "right to left": "قاعدة البيانات · מסד הנתונים",
    "chinese": "预发布环境使用哪个数据库",
    "decomposed": "cafe\u0301",
    "composed": "caf\u00e9",
    "sql": "'); DROP TABLE memories; --",
    "search operators": 'NEAR("a" OR b*) -c : ^d {e} AND NOT f',
    "whitespace": " \t line\r\nbreaks\u2028\u00a0 ",
    "control characters": "bell\x07escape\x1b[31m\x7f",
    "private use and noncharacters": "\ue000 \ufffe \U0010ffff",
    "long": "deploy the cluster " * 20_000,
    "percent and backslash": r"100% \x00 \\ %s {} {0}",
}


class MemoryStoreContract(EventsContract, ErasingContract):
    """Contract tests of memory stores. Provide the fixture `store`: a new, empty one for each test.

    Abilities beyond the `MemoryStore` protocol are tested if the store has them.
    """

    @pytest.fixture
    def make(self) -> Maker:
        return Maker("alice")

    # Adding and getting ---------------------------------------------------------------------------------

    def test_is_a_memory_store(self, store: MemoryStore) -> None:
        assert isinstance(store, MemoryStore)

    def test_a_stored_memory_comes_back_as_it_was(self, store: MemoryStore, make: Maker) -> None:
        entry = make.event(
            "Rolled back at 14:00",
            kind=MemoryType.DECISION,
            tags=["db", "release"],
            at=START - timedelta(days=40_000, microseconds=1),
            session="monday",
            context="deploy",
            content={
                "chosen_action": "roll back",
                "outcome_quality": 0.1,
                "alternative_actions": ["wait", "fix"],
            },
            metadata={"nested": {"list": [1, 2.5, None, True, "é"]}, "": "empty key", "big": 2**60},
            importance=0.123456789012345,
            valid_until=START + timedelta(days=40_000),
        )
        (receipt,) = store.add(ALICE, [entry])
        assert (receipt.id, receipt.status, receipt.reason) == (entry.memory.id, "stored", None)
        assert store.get(ALICE, [entry.memory.id]) == [entry.memory]

    @pytest.mark.parametrize("kind", MemoryType)
    def test_every_kind_of_memory_can_be_kept(self, store: MemoryStore, make: Maker, kind: MemoryType) -> None:
        entry = make.event("something", kind=kind)
        store.add(ALICE, [entry])
        assert store.get(ALICE, [entry.memory.id]) == [entry.memory]

    @pytest.mark.parametrize("text", SPECIAL_TEXTS.values(), ids=SPECIAL_TEXTS.keys())
    def test_any_text_comes_back_unchanged(self, store: MemoryStore, make: Maker, text: str) -> None:
        entry = make.event(
            text, context=text, tags=[text[:500]], session=text, metadata={text[:99]: text}, key=text[:99]
        )
        store.add(ALICE, [entry])
        assert store.get(ALICE, [entry.memory.id]) == [entry.memory]
        assert store.add(ALICE, [entry])[0].id == entry.memory.id
        by_everything = Filter(tags=frozenset({text[:500]}), session=text, context_key=normal_form(text))
        assert _ids(store, Query(where=by_everything)) == [entry.memory.id]
        store.search(ALICE, Query(words=Clean(text)))

    def test_receipts_come_in_the_order_of_the_entries(self, store: MemoryStore, make: Maker) -> None:
        entries = [make.event(f"event {i}") for i in range(1200)]
        receipts = store.add(ALICE, entries)
        assert [receipt.id for receipt in receipts] == [entry.memory.id for entry in entries]
        assert {receipt.status for receipt in receipts} == {"stored"}

    def test_no_entries_give_no_receipts(self, store: MemoryStore) -> None:
        assert store.add(ALICE, []) == []
        assert store.search(ALICE, Query()) == []

    def test_answers_come_in_the_order_of_the_ids_and_missing_is_none(self, store: MemoryStore, make: Maker) -> None:
        memories = _store(store, [make.event(f"event {i}") for i in range(1200)])
        backwards = memories[::-1]
        ids = [memory.id for memory in backwards]
        assert store.get(ALICE, ids) == backwards
        assert store.get(ALICE, [ids[0], "nobody", ids[0], "'"]) == [backwards[0], None, backwards[0], None]
        assert store.get(ALICE, []) == []

    @pytest.mark.parametrize("flaw", ["taken id", "id twice", "vector of another length", "other agent"])
    def test_an_error_in_the_middle_of_a_batch_stores_nothing_of_it(
        self, store: MemoryStore, make: Maker, flaw: str
    ) -> None:
        fact = replace(make.fact("The sky is blue", tags=["a"], key="fact"), vectors=(placed(1, 0, 0),))
        (known,) = _store(store, [fact])
        good = replace(make.event("good", key="new"), vectors=(placed(0, 1, 0),))
        more = make.fact("The sky is blue", tags=["b"], key="more")
        bad = {
            "taken id": Entry(make.memory("bad").model_copy(update={"id": known.id})),
            "id twice": Entry(make.memory("bad").model_copy(update={"id": good.memory.id})),
            "vector of another length": replace(make.event("bad"), vectors=(placed(1, 0),)),
            "other agent": Maker("bob", make.sources).event("bad"),
        }[flaw]
        with pytest.raises(Conflict if "id" in flaw else InvalidInput):
            store.add(ALICE, [good, more, make.fact("Another"), bad, make.event("after")])
        assert _ids(store, Query()) == [known.id]
        assert store.get(ALICE, [known.id]) == [known]
        assert _ids(store, Query(words=Clean("good bad after another"))) == []
        assert _ids(store, Query(near=placed(0, 1, 0))) == [known.id]
        assert store.add(ALICE, [replace(good, memory=make.memory("good, once more"))])[0].status == "stored"
        assert store.add(ALICE, [make.event("another text", key="more")])[0].status == "stored"

    # Idempotency keys -----------------------------------------------------------------------------------

    def test_the_same_key_and_content_again_gives_the_first_id(self, store: MemoryStore, make: Maker) -> None:
        first = make.event("deployed", key="k1", tags=["x"], metadata={"a": 1, "b": 2})
        again = make.event("deployed", key="k1", tags=["x"], metadata={"b": 2, "a": 1})
        store.add(ALICE, [first])
        for entry in (first, again, again):
            (receipt,) = store.add(ALICE, [entry])
            assert (receipt.id, receipt.status) == (first.memory.id, "stored")
            assert receipt.reason
        assert _ids(store, Query()) == [first.memory.id]

    @pytest.mark.parametrize(
        "change",
        [{"text": "undeployed"}, {"tags": ["y"]}, {"metadata": {"a": 2}}, {"context": "c"}, {"kind": "message"}],
        ids=lambda change: next(iter(change)),
    )
    def test_the_same_key_with_other_content_is_rejected_as_a_conflict(
        self, store: MemoryStore, make: Maker, change: dict[str, Any]
    ) -> None:
        (known,) = _store(store, [make.event("deployed", key="k1")])
        (receipt,) = store.add(ALICE, [make.event(**{"text": "deployed", "key": "k1"} | change)])
        assert (receipt.id, receipt.status, receipt.code) == (None, "rejected", "conflict")
        assert receipt.reason
        assert _ids(store, Query()) == [known.id]

    def test_a_rejected_entry_does_not_stop_its_batch(self, store: MemoryStore, make: Maker) -> None:
        store.add(ALICE, [make.event("deployed", key="k1")])
        receipts = store.add(ALICE, [make.event("one"), make.event("other", key="k1"), make.event("two")])
        assert [receipt.status for receipt in receipts] == ["stored", "rejected", "stored"]

    def test_keys_count_inside_one_batch(self, store: MemoryStore, make: Maker) -> None:
        first = make.event("deployed", key="k1")
        receipts = store.add(ALICE, [first, make.event("deployed", key="k1"), make.event("other", key="k1")])
        assert [receipt.id for receipt in receipts] == [first.memory.id, first.memory.id, None]
        assert _ids(store, Query()) == [first.memory.id]

    def test_the_key_of_a_merged_entry_is_kept_and_does_not_count_twice(self, store: MemoryStore, make: Maker) -> None:
        (known,) = _store(store, [make.fact("The sky is blue")])
        again = make.fact("The sky is blue", key="k1")
        assert store.add(ALICE, [again])[0].status == "merged"
        assert store.add(ALICE, [again])[0].id == known.id
        assert store.add(ALICE, [make.fact("The sky is grey", key="k1")])[0].status == "rejected"
        assert _get(store, known.id).evidence == 2

    def test_one_memory_can_have_many_keys(self, store: MemoryStore, make: Maker) -> None:
        (known,) = _store(store, [make.fact("The sky is blue", key="k0")])
        store.add(ALICE, [make.fact("The sky is blue", key=f"k{i}") for i in range(1, 4)])
        receipts = store.add(ALICE, [make.fact("The sky is blue", key=f"k{i}") for i in range(4)])
        assert {receipt.id for receipt in receipts} == {known.id}
        assert _get(store, known.id).evidence == 4

    def test_keys_are_matched_exactly(self, store: MemoryStore, make: Maker) -> None:
        keys = ["k", "K", "k ", "k%", "k_", "kk", "\u00e9", "e\u0301"]
        receipts = store.add(ALICE, [make.event("deployed", key=key) for key in keys])
        assert len({receipt.id for receipt in receipts}) == len(keys)

    def test_what_a_write_would_do_can_be_foreseen_and_changes_nothing(self, store: MemoryStore, make: Maker) -> None:
        if not isinstance(store, PreviewsAdds):
            pytest.skip("this store does not tell beforehand what a write would do")
        assert store.preview_add(ALICE, []) == []
        first = make.event("deployed", key="k0")
        assert store.preview_add(ALICE, [first])[0].status == "stored"
        assert store.get(ALICE, [first.memory.id]) == [None]
        kept = _store(store, [make.event("deployed", key="k1"), make.fact("The sky is blue")])
        ended = make.fact("The sea is calm")
        ended = replace(ended, memory=ended.memory.model_copy(update={"valid_until": START + timedelta(days=1)}))
        later = make.fact("The sea is calm")
        later = replace(later, memory=later.memory.model_copy(update={"valid_from": START + timedelta(days=9)}))
        entries = [
            make.event("deployed", key="k1"),
            make.event("undeployed", key="k1"),
            make.event("deployed", key="k2"),
            make.event("deployed", key="k2"),
            make.fact("The sky is blue", key="k3"),
            make.fact("The sky is grey"),
            make.fact("The sky is grey"),
            ended,
            later,
        ]
        foreseen = store.preview_add(ALICE, entries)
        assert store.preview_add(ALICE, entries) == foreseen
        assert sorted(_ids(store, Query())) == sorted(memory.id for memory in kept)
        assert store.get(ALICE, [memory.id for memory in kept]) == kept
        assert store.preview_add(
            BOB, [replace(e, memory=e.memory.model_copy(update={"agent": "bob"})) for e in entries[:1]]
        )
        assert store.add(ALICE, entries) == foreseen
        statuses = ["stored", "rejected", "stored", "stored", "merged", "stored", "merged", "stored", "stored"]
        assert [receipt.status for receipt in foreseen] == statuses

    # Merging --------------------------------------------------------------------------------------------

    def test_a_known_statement_gains_evidence_tags_importance_and_a_version(
        self, store: MemoryStore, make: Maker
    ) -> None:
        (known,) = _store(store, [make.fact("The sky is blue", tags=["a", "b"], importance=0.4)])
        newcomer = make.fact("the  sky is BLUE.", tags=["b", "c"], importance=0.9)
        (receipt,) = store.add(ALICE, [newcomer])
        assert (receipt.id, receipt.status) == (known.id, "merged")
        assert receipt.reason
        expected = {"tags": ("a", "b", "c"), "importance": 0.9, "evidence": 2, "version": 2}
        assert store.get(ALICE, [known.id]) == [known.model_copy(update=expected)]
        assert store.get(ALICE, [newcomer.memory.id]) == [None]
        assert _ids(store, Query(where=Filter(tags=frozenset({"a", "c"})))) == [known.id]

    def test_merging_never_lowers_the_importance(self, store: MemoryStore, make: Maker) -> None:
        (known,) = _store(store, [make.fact("The sky is blue", importance=0.9)])
        store.add(ALICE, [make.fact("The sky is blue", importance=0.1)])
        assert _get(store, known.id).importance == 0.9

    def test_statements_merge_inside_one_batch(self, store: MemoryStore, make: Maker) -> None:
        facts = [make.fact("The sky is blue", tags=[f"t{i}"]) for i in range(3)]
        receipts = store.add(ALICE, [facts[0], make.event("between"), facts[1], facts[2]])
        assert [receipt.status for receipt in receipts] == ["stored", "stored", "merged", "merged"]
        assert _get(store, facts[0].memory.id).tags == ("t0", "t1", "t2")
        assert _get(store, facts[0].memory.id).evidence == 3

    def test_events_are_never_merged(self, store: MemoryStore, make: Maker) -> None:
        receipts = store.add(ALICE, [make.event("The build failed") for _ in range(3)])
        receipts += store.add(ALICE, [make.event("The build failed")])
        assert len({receipt.id for receipt in receipts}) == 4

    def test_merging_into_a_memory_keeps_its_vector(self, store: MemoryStore, make: Maker) -> None:
        (known,) = _store(store, [replace(make.fact("The sky is blue"), vectors=(placed(1, 0, 0),))])
        store.add(ALICE, [replace(make.fact("The sky is blue"), vectors=(placed(0, 1, 0),))])
        found = store.search(ALICE, Query(near=placed(1, 0, 0)))
        assert [match.id for match in found] == [known.id]
        assert found[0].score == pytest.approx(1, abs=1e-5)

    # Searching ------------------------------------------------------------------------------------------

    def test_without_words_and_vector_the_newest_comes_first(self, store: MemoryStore, make: Maker) -> None:
        late, early = START + timedelta(days=9), START - timedelta(days=9)
        middle, last, first = _store(store, [make.event("m"), make.event("l", at=late), make.event("f", at=early)])
        assert _ids(store, Query()) == [last.id, middle.id, first.id]
        assert {match.score for match in store.search(ALICE, Query())} == {0.0}

    def test_of_two_that_happened_at_once_the_one_stored_later_is_newer(self, store: MemoryStore, make: Maker) -> None:
        memories = _store(store, [make.event(f"event {i}", at=START) for i in range(5)])
        memories += _store(store, [make.event("event 5", at=START)])
        assert _ids(store, Query()) == [memory.id for memory in reversed(memories)]

    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
    def test_limit_and_offset_cut_a_piece_out_of_the_whole_answer(
        self, store: MemoryStore, make: Maker, way: Query
    ) -> None:
        for i in range(30):
            text = "deploy " * (i + 1) + "the cluster on a day with much other work to be done " * 2
            store.add(ALICE, [replace(make.event(text), vectors=(placed(1, i, 0),))])
        whole = _ids(store, replace(way, limit=100))
        assert len(whole) == 30
        for limit, offset in ((1, 0), (7, 0), (7, 7), (10, 25), (5, 30), (0, 0), (5, 1000)):
            piece = _ids(store, replace(way, limit=limit, offset=offset))
            assert piece == whole[offset : offset + limit], (limit, offset)

    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
    def test_scores_never_rise_from_one_match_to_the_next(self, store: MemoryStore, make: Maker, way: Query) -> None:
        for i in range(20):
            text = "deploy " * (i % 4 + 1) + "and so on " * (i % 3)
            store.add(ALICE, [replace(make.event(text), vectors=(placed(5, i % 6, -i),))])
        scores = [match.score for match in store.search(ALICE, way)]
        assert len(scores) == 20
        assert scores == sorted(scores, reverse=True)
        assert min(scores) >= 0

    def test_the_similarity_of_vectors_is_between_0_and_1(self, store: MemoryStore, make: Maker) -> None:
        directions = {"same": (1, 0), "half": (1, 3**0.5), "right": (0, 1), "opposite": (-1, 0)}
        ids = {}
        for name, direction in directions.items():
            (memory,) = _store(store, [replace(make.event(name), vectors=(placed(*direction),))])
            ids[memory.id] = name
        found = {ids[match.id]: match.score for match in store.search(ALICE, Query(near=placed(1, 0)))}
        assert found == pytest.approx({"same": 1, "half": 0.5, "right": 0, "opposite": 0}, abs=1e-5)
        assert all(0 <= score <= 1 for score in found.values())

    def test_words_are_found_in_text_context_and_tags(self, store: MemoryStore, make: Maker) -> None:
        memories = _store(
            store,
            [make.event("the zebra"), make.event("other", context="a zebra"), make.event("third", tags=["zebra"])],
        )
        store.add(ALICE, [make.event("zeb", context="ra", tags=["ze bra"])])
        assert set(_ids(store, Query(words=Clean("zebra")))) == {memory.id for memory in memories}

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("deployments were failing", "deploy failed deployment"),
            ("the Café closes", "CAFE"),
            ("cafe\u0301", "caf\u00e9"),
            ("getUserName was renamed", "user"),
            ("error in http_server_v2", "server"),
            ("预发布环境使用数据库", "数据库"),
            ("قاعدة البيانات", "البيانات"),
            ("to be or not to be", "not"),
            ("Staging runs PostgreSQL 15", "which database version does staging run?"),
        ],
    )
    def test_words_are_found_by_their_stem_whatever_their_form(
        self, store: MemoryStore, make: Maker, text: str, query: str
    ) -> None:
        (memory,) = _store(store, [make.event(text)])
        store.add(ALICE, [make.event("something unrelated")])
        assert _ids(store, Query(words=Clean(query))) == [memory.id]

    def test_one_of_the_words_is_enough_and_more_of_them_are_better(self, store: MemoryStore, make: Maker) -> None:
        store.add(ALICE, [make.event(f"filler number {i}") for i in range(20)])
        one, both = _store(store, [make.event("a zebra ran past"), make.event("a zebra and a giraffe")])
        assert _ids(store, Query(words=Clean("zebra giraffe"))) == [both.id, one.id]

    @pytest.mark.parametrize("words", ["🚀", "...", '"', "*", "-", "()", "NEAR", "zebra:", "unknownword", "%", "_"])
    def test_words_that_nothing_has_find_nothing(self, store: MemoryStore, make: Maker, words: str) -> None:
        store.add(ALICE, [make.event('some text 🚀 ... " * - () % _')])
        assert _ids(store, Query(words=Clean(words))) == []

    def test_a_memory_without_a_vector_is_found_by_words_only(self, store: MemoryStore, make: Maker) -> None:
        (memory,) = _store(store, [make.event("deploy")])
        assert _ids(store, WAYS["words"]) == [memory.id]
        assert _ids(store, WAYS["vector"]) == []

    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
    @pytest.mark.parametrize(
        ("where", "names"),
        [
            (Filter(), "abcdef"),
            (Filter(kinds=frozenset({MemoryType.RESULT})), "a"),
            (Filter(kinds=frozenset({MemoryType.RESULT, MemoryType.MESSAGE})), "ab"),
            (Filter(kinds=frozenset({MemoryType.PLAN})), ""),
            (Filter(tags=frozenset({"x"})), "bc"),
            (Filter(tags=frozenset({"x", "y"})), "c"),
            (Filter(tags=frozenset({"X"})), ""),
            (Filter(tags=frozenset({"x", "nobody has this"})), ""),
            (Filter(since=START + timedelta(days=3)), "def"),
            (Filter(since=START + timedelta(days=3, microseconds=1)), "ef"),
            (Filter(until=START + timedelta(days=3)), "abc"),
            (Filter(until=START + timedelta(days=3, microseconds=1)), "abcd"),
            (Filter(since=START + timedelta(days=1), until=START + timedelta(days=3)), "bc"),
            (Filter(since=START + timedelta(days=3), until=START + timedelta(days=3)), ""),
            (Filter(session="s1"), "de"),
            (Filter(session="S1"), ""),
            (Filter(session="s"), ""),
            (Filter(context_key="the release"), "e"),
            (Filter(context_key="the"), ""),
            (Filter(context_key=""), "abcdf"),
            (Filter(as_of=START + timedelta(days=2)), "abc"),
            (Filter(as_of=START + timedelta(days=99)), "abcde"),
            (Filter(as_of=START + timedelta(days=6)), "abcdef"),
            (Filter(as_of=START + timedelta(days=7)), "abcde"),
            (Filter(as_of=START - timedelta(days=1)), ""),
            (Filter(session="s1", since=START + timedelta(days=4)), "e"),
            (Filter(tags=frozenset({"x"}), kinds=frozenset({MemoryType.MESSAGE})), "b"),
            (Filter(tags=frozenset({"x"}), session="s1"), ""),
            (Filter(session="s1", context_key="the release", as_of=START + timedelta(days=99)), "e"),
        ],
    )
    def test_a_filter_lets_through_what_it_says(
        self, store: MemoryStore, make: Maker, way: Query, where: Filter, names: str
    ) -> None:
        ids = dict(zip("abcdef", [memory.id for memory in _findable(store, make)], strict=True))
        assert set(_ids(store, replace(way, where=where))) == {ids[name] for name in names}

    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
    def test_filters_are_applied_before_the_limit(self, store: MemoryStore, make: Maker, way: Query) -> None:
        wanted = _store(
            store,
            [
                replace(
                    make.event(f"deploy a thing {i} " + "and more " * 20, tags=["rare"]), vectors=(placed(1, 9, i),)
                )
                for i in range(3)
            ],
        )
        for _ in range(60):
            store.add(ALICE, [replace(make.event("deploy"), vectors=(placed(1, 0, 0),))])
        found = _ids(store, replace(way, where=Filter(tags=frozenset({"rare"})), limit=2))
        assert len(found) == 2
        assert set(found) <= {memory.id for memory in wanted}
        rest = _ids(store, replace(way, where=Filter(tags=frozenset({"rare"})), limit=2, offset=2))
        assert set(found) | set(rest) == {memory.id for memory in wanted}

    def test_one_memory_can_have_vectors_in_many_namespaces_and_of_many_embedders(
        self, store: MemoryStore, make: Maker
    ) -> None:
        places = (
            placed(1, 0),
            placed(0, 1, namespace="working"),
            placed(0, 0, 1, embedder="large@1"),
            placed(1, 1, 1, 1, namespace="working", embedder="large@1"),
        )
        both, one = _store(
            store,
            [replace(make.event("both"), vectors=places), replace(make.event("one"), vectors=places[:1])],
        )
        assert set(_ids(store, Query(near=places[0]))) == {both.id, one.id}
        for place in places[1:]:
            (found,) = store.search(ALICE, Query(near=place))
            assert found.id == both.id
            assert found.score == pytest.approx(1, abs=1e-5)
        assert _ids(store, Query(near=placed(1, 0, namespace="nowhere"))) == []
        assert _ids(store, Query(near=placed(1, 0, embedder="nobody@1"))) == []

    def test_a_query_vector_of_another_length_is_refused(self, store: MemoryStore, make: Maker) -> None:
        store.add(ALICE, [replace(make.event(), vectors=(placed(1, 0),))])
        with pytest.raises(InvalidInput):
            store.search(ALICE, Query(near=placed(1, 0, 0)))

    # Passages -------------------------------------------------------------------------------------------

    def test_a_memory_is_found_once_by_the_best_of_its_passages(self, store: MemoryStore, make: Maker) -> None:
        directions = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
        long, short = _store(
            store,
            [
                replace(make.event("long"), vectors=passages(*directions)),
                replace(make.event("short"), vectors=(placed(1, 1, 1),)),
            ],
        )
        for number, direction in enumerate(directions):
            first, second = store.search(ALICE, Query(near=placed(*direction)))
            assert (first.id, first.passage, second.id, second.passage) == (long.id, number, short.id, 0)
            assert first.score == pytest.approx(1, abs=1e-5)
            assert second.score == pytest.approx(3**-0.5, abs=1e-5)
        assert {match.passage for way in ("newest", "words") for match in store.search(ALICE, WAYS[way])} <= {0}

    def test_a_limit_counts_memories_and_not_passages(self, store: MemoryStore, make: Maker) -> None:
        long = [replace(make.event(), vectors=passages(*((9, i, n) for n in range(30)))) for i in range(4)]
        short = [replace(make.event(), vectors=(placed(1, 9, i),)) for i in range(20)]
        memories = _store(store, [*short, *long])
        whole = store.search(ALICE, Query(near=placed(1, 0, 0), limit=100))
        assert {match.id for match in whole} == {memory.id for memory in memories}
        assert {match.id for match in whole[:4]} == {entry.memory.id for entry in long}
        assert [match.passage for match in whole] == [0] * 24
        for limit, offset in ((1, 0), (3, 0), (3, 3), (10, 0), (5, 20), (5, 24)):
            piece = store.search(ALICE, Query(near=placed(1, 0, 0), limit=limit, offset=offset))
            assert piece == whole[offset : offset + limit], (limit, offset)

    def test_passages_do_not_crowd_out_what_passes_a_filter(self, store: MemoryStore, make: Maker) -> None:
        crowd = [replace(make.event(), vectors=passages(*((9, i, n) for n in range(20)))) for i in range(5)]
        rare = [replace(make.event(tags=["x"]), vectors=passages((0, 1, i), (1, 9, i))) for i in range(1, 4)]
        memories = _store(store, [*rare, *crowd])[:3]
        query = Query(near=placed(1, 0, 0), where=Filter(tags=frozenset({"x"})), limit=2)
        found = store.search(ALICE, query) + store.search(ALICE, replace(query, offset=2))
        assert [match.id for match in found] == [memory.id for memory in memories]
        assert [match.passage for match in found] == [1, 1, 1]

    def test_forgetting_removes_the_vectors_of_all_passages(self, store: MemoryStore, make: Maker) -> None:
        directions = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
        entry = replace(make.event(), vectors=(*passages(*directions), placed(1, 0, namespace="working")))
        _store(store, [entry])
        assert _ids(store, Query(near=placed(0, 0, 1))) == [entry.memory.id]
        assert store.forget(ALICE, [entry.memory.id])[0].removed["vectors"] == 4
        for direction in directions:
            assert _ids(store, Query(near=placed(*direction))) == []
        store.add(ALICE, [replace(entry, vectors=entry.vectors[:1])])
        (found,) = store.search(ALICE, Query(near=placed(0, 0, 1)))
        assert (found.id, found.passage) == (entry.memory.id, 0)
        assert found.score == pytest.approx(0, abs=1e-5)

    def test_passages_that_are_placed_replace_all_that_were_there(self, store: MemoryStore, make: Maker) -> None:
        mirror = _ability(store, MirrorsVectors)  # type: ignore[type-abstract]
        memory, other = _store(store, [make.event(), replace(make.event(), vectors=(placed(-1, 0, 0),))])
        for directions in (((1, 0, 0),), ((0, 1, 0), (0, 0, 1), (1, 1, 0)), ((0, 1, 0), (1, 0, 0)), ((0, 0, 1),)):
            vectors = passages(*directions)
            added = mirror.place([(ALICE, memory.id, each) for each in vectors])
            assert added == len(vectors)
            assert [place.passages for place in mirror.indexes(ALICE, memory.id)] == [len(vectors)]
            for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
                near = placed(*axis)
                expected = max(float(near.vector @ each.vector) for each in vectors)
                best = next(match for match in store.search(ALICE, Query(near=near)) if match.id == memory.id)
                assert best.score == pytest.approx(expected, abs=1e-5)
                assert best.score == pytest.approx(float(near.vector @ vectors[best.passage].vector), abs=1e-5)
        assert mirror.count_unembedded(LONG_TERM, EMBEDDER) == 0
        assert mirror.discard_vectors(LONG_TERM, "another@1") == 2
        assert mirror.unembedded(LONG_TERM, EMBEDDER, 9) == [memory, other]

    def test_passages_of_different_lengths_are_refused(self, store: MemoryStore, make: Maker) -> None:
        with pytest.raises(InvalidInput):
            store.add(ALICE, [replace(make.event(), vectors=passages((1, 0, 0), (1, 0)))])
        assert _ids(store, Query()) == []

    # Searching among some -------------------------------------------------------------------------------

    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
    def test_a_search_among_some_finds_no_others(self, store: MemoryStore, make: Maker, way: Query) -> None:
        ids = [memory.id for memory in _findable(store, make)]
        whole = _ids(store, way)
        assert set(whole) == set(ids)
        for some in ([ids[1]], ids[1:4], ids, [ids[0], "nobody", "'"], ["nobody"], []):
            found = _ids(store, replace(way, among=frozenset(some)))
            assert found == [id for id in whole if id in some], some

    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
    def test_a_search_among_some_is_filtered_and_cut_like_any_other(
        self, store: MemoryStore, make: Maker, way: Query
    ) -> None:
        ids = [memory.id for memory in _findable(store, make)]
        among = replace(way, among=frozenset(ids[1:5]))
        order = _ids(store, among)
        assert set(_ids(store, replace(among, where=Filter(session="s1")))) == {ids[3], ids[4]}
        assert (
            _ids(store, replace(among, where=Filter(tags=frozenset({"x"}), kinds=frozenset({MemoryType.PLAN})))) == []
        )
        for limit, offset in ((1, 0), (2, 1), (9, 3), (0, 0), (9, 4)):
            assert _ids(store, replace(among, limit=limit, offset=offset)) == order[offset : offset + limit]

    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
    def test_those_searched_among_are_found_however_many_are_better(
        self, store: MemoryStore, make: Maker, way: Query
    ) -> None:
        few = [replace(make.event("deploy and more " * 9), vectors=passages((0, 1, i), (1, 9, i))) for i in (1, 2)]
        crowd = [replace(make.event("deploy", session="s"), vectors=(placed(1, 0, 0),)) for _ in range(80)]
        wanted = {memory.id for memory in _store(store, [*few, *crowd])[:2]}
        assert set(_ids(store, replace(way, among=frozenset(wanted), limit=2))) == wanted
        assert len(_ids(store, replace(way, among=frozenset(wanted), limit=1))) == 1

    def test_an_id_of_another_scope_among_some_finds_nothing(self, store: MemoryStore, make: Maker) -> None:
        ids = frozenset(memory.id for memory in _findable(store, make))
        for way in WAYS.values():
            assert store.search(BOB, replace(way, among=ids)) == []

    # Neighbours -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("asked", "reach", "names"),
        [
            ("c", 0, "c"),
            ("c", 1, "bcd"),
            ("c", 2, "abcde"),
            ("c", 9, "abcdef"),
            ("a", 1, "ab"),
            ("f", 2, "def"),
            ("ad", 1, "abcde"),
            ("bc", 1, "abcd"),
            ("cc", 0, "c"),
            ("x", 2, "xy"),
            ("n", 2, "n"),
            ("nm", 1, "mn"),
            ("ax", 1, "abxy"),
            ("", 2, ""),
        ],
    )
    def test_around_a_memory_are_those_before_and_after_it_in_its_session(
        self, store: MemoryStore, make: Maker, asked: str, reach: int, names: str
    ) -> None:
        surveys, ids = _ability(store, ReadsNeighbours), _sessions(store, make)  # type: ignore[type-abstract]
        found = surveys.neighbours(ALICE, [ids[name] for name in asked], reach, ())
        assert sorted(row.id for row in found) == sorted(ids[name] for name in names)

    def test_those_around_come_in_the_order_they_were_stored_by_their_number(
        self, store: MemoryStore, make: Maker
    ) -> None:
        surveys, ids = _ability(store, ReadsNeighbours), _sessions(store, make)  # type: ignore[type-abstract]
        found = sorted(surveys.neighbours(ALICE, [ids["c"]], 9, ()), key=lambda row: row.seq)
        assert [row.id for row in found] == [ids[name] for name in "abcdef"]

    def test_nothing_is_around_an_id_that_is_not_there(self, store: MemoryStore, make: Maker) -> None:
        surveys, ids = _ability(store, ReadsNeighbours), _sessions(store, make)  # type: ignore[type-abstract]
        assert surveys.neighbours(ALICE, ["nobody", "'", "%"], 2, ["deploy"]) == []
        (only,) = surveys.neighbours(ALICE, ["nobody", ids["n"], "'"], 2, ())
        assert only.id == ids["n"]
        assert surveys.neighbours(BOB, list(ids.values()), 2, ()) == []

    def test_what_is_forgotten_is_around_nothing_and_others_close_up(self, store: MemoryStore, make: Maker) -> None:
        surveys, ids = _ability(store, ReadsNeighbours), _sessions(store, make)  # type: ignore[type-abstract]
        store.forget(ALICE, [ids["b"]])
        assert surveys.neighbours(ALICE, [ids["b"]], 2, ()) == []
        assert {g.id for g in surveys.neighbours(ALICE, [ids["c"]], 1, ())} == {ids[name] for name in "acd"}

    def test_what_is_around_never_is_of_another_scope_or_a_session_of_another_name(self, store: MemoryStore) -> None:
        surveys = _ability(store, ReadsNeighbours)  # type: ignore[type-abstract]
        pairs = [*LOOK_ALIKES.values()]
        makers = {name: Maker(name) for pair in pairs for name in pair}
        owners: dict[tuple[str, str], list[str]] = {}
        for _ in range(2):  # alternating, so that the next number is in another scope
            for agent, maker in makers.items():
                for session in ("s", "S", "s "):
                    (memory,) = _store(store, [maker.event("deploy", session=session, speaker=agent)])
                    owners.setdefault((agent, session), []).append(memory.id)
        for (agent, _), ids in owners.items():
            assert sorted(g.id for g in surveys.neighbours(Scope(agent), ids[:1], 5, ())) == sorted(ids)
        for agent in makers:
            assert surveys.speakers(Scope(agent)) == [agent]
            assert surveys.term_counts(Scope(agent), ["deploy"]).holders["deploy"] >= 6

    def test_a_glimpse_shows_what_ranking_needs(self, store: MemoryStore, make: Maker) -> None:
        surveys = _ability(store, ReadsNeighbours)  # type: ignore[type-abstract]
        at = START - timedelta(days=99, microseconds=7)
        entry = make.event("A café", at=at, session="s", speaker="Ann", role="user", importance=0.123456789)
        plain = make.event("nothing else")
        store.add(ALICE, [entry, plain])
        if isinstance(store, Annotates):
            store.annotate(ALICE, entry.memory.id, Changes(trust=0.25), None)
        (seen,) = surveys.neighbours(ALICE, [entry.memory.id], 0, ())
        trust = 0.25 if isinstance(store, Annotates) else 1.0
        assert seen[2:7] == ("s", "Ann", "user", at, "A café")
        assert [seen.importance, seen.trust, seen.usefulness] == pytest.approx([0.123456789, trust, 0.5])
        (other,) = surveys.neighbours(ALICE, [plain.memory.id], 1, ())
        assert other[2:5] == (None, None, None)

    @pytest.mark.parametrize(
        "text",
        [
            "Zebra, zebra, ZEBRAS and a giraffe",
            "getUserName renamed the zebra_crossing",
            "预发布环境使用数据库 zebra",
            "Café zebra café, قاعدة البيانات",
            "🚀 ... '",
            "zebra " * 200 + "giraffe",
        ],
    )
    def test_words_are_counted_as_they_are_indexed(self, store: MemoryStore, make: Maker, text: str) -> None:
        surveys = _ability(store, ReadsNeighbours)  # type: ignore[type-abstract]
        store.add(ALICE, [make.event("another zebra", session="s")])
        (memory,) = _store(store, [make.event(text, session="s", context="at the zoo", tags=["zebra", "big cat"])])
        held = index_terms("\n".join((text, "at the zoo", "zebra", "big cat")))
        terms = list(dict.fromkeys(["nobody", *held, "'", "unheard"]))
        found = {row.id: row for row in surveys.neighbours(ALICE, [memory.id], 1, terms)}
        assert found[memory.id].length == len(held)
        assert list(found[memory.id].counts) == [held.count(term) for term in terms]
        assert len(found) == 2
        backwards = {row.id: row for row in surveys.neighbours(ALICE, [memory.id], 1, terms[::-1])}
        assert list(backwards[memory.id].counts) == [held.count(term) for term in reversed(terms)]

    def test_counts_follow_an_annotation(self, store: MemoryStore, make: Maker) -> None:
        surveys, annotates = _ability(store, ReadsNeighbours), _ability(store, Annotates)  # type: ignore[type-abstract]
        (memory,) = _store(store, [make.event("text", tags=["zebra"])])
        annotates.annotate(ALICE, memory.id, Changes(tags=(Clean("big"), Clean("giraffe"))), None)
        (seen,) = surveys.neighbours(ALICE, [memory.id], 0, index_terms("zebra giraffe"))
        assert (seen.length, list(seen.counts)) == (3, [0, 1])

    def test_the_spread_counts_memories_and_those_that_hold_a_term(self, store: MemoryStore, make: Maker) -> None:
        surveys = _ability(store, ReadsNeighbours)  # type: ignore[type-abstract]
        empty = surveys.term_counts(ALICE, ["zebra"])
        assert (empty.rows, empty.holders.get("zebra", 0)) == (0, 0)
        texts = ["a zebra", "zebra and zebra", "a lion", "a lion and a zebra", "nothing"]
        memories = _store(store, [make.event(text) for text in texts])
        terms = [*index_terms("zebra lion"), "unheard", "'"]
        counts = surveys.term_counts(ALICE, terms)
        assert counts.rows == 5
        assert [counts.holders.get(term, 0) for term in terms] == [3, 2, 0, 0]
        assert surveys.term_counts(ALICE, []).holders == {}
        store.forget(ALICE, [memories[0].id])
        assert surveys.term_counts(ALICE, terms).holders["lion"] == 2
        assert surveys.term_counts(ALICE, terms).holders["zebra"] <= 3

    def test_the_spread_is_that_of_the_scope(self, store: MemoryStore, make: Maker) -> None:
        surveys, term = _ability(store, ReadsNeighbours), index_terms("zebra")[0]  # type: ignore[type-abstract]
        theirs = Maker("bob", make.sources)
        store.add(ALICE, [make.event("a zebra"), make.event("a lion")])
        store.add(BOB, [theirs.event("a zebra") for _ in range(20)])
        assert surveys.term_counts(ALICE, [term]) == (2, {term: 1})
        counts = surveys.term_counts(BOB, [term])
        assert (counts.rows, counts.holders[term]) == (20, 20)
        stranger = surveys.term_counts(Scope("carol"), [term])
        assert (stranger.rows, stranger.holders.get(term, 0)) == (0, 0)

    def test_speakers_are_named_once_and_only_those_of_the_scope(self, store: MemoryStore, make: Maker) -> None:
        surveys = _ability(store, ReadsNeighbours)  # type: ignore[type-abstract]
        assert surveys.speakers(ALICE) == []
        names = ["Ann", "ann", "Ann ", "Anna", "An%", "Änn", "A\u0308nn", "小明", "Иван", "'; --", "z" * 200]
        store.add(ALICE, [make.event(speaker=name) for name in names for _ in range(3)])
        store.add(ALICE, [make.event(), make.event(role="user")])
        store.add(BOB, [Maker("bob", make.sources).event(speaker="Bob")])
        assert sorted(surveys.speakers(ALICE)) == sorted(names)
        assert surveys.speakers(BOB) == ["Bob"]
        store.forget(BOB, [match.id for match in store.search(BOB, Query())])
        assert surveys.speakers(BOB) == []

    def test_a_crowd_of_speakers_is_named_in_part(self, store: MemoryStore, make: Maker) -> None:
        surveys = _ability(store, ReadsNeighbours)  # type: ignore[type-abstract]
        names = [f"speaker {n}" for n in range(700)]
        store.add(ALICE, [make.event(speaker=name) for name in names])
        found = surveys.speakers(ALICE)
        assert len(found) == len(set(found)) >= 200
        assert set(found) <= set(names)

    # Deleting -------------------------------------------------------------------------------------------

    def test_a_forgotten_memory_is_gone_from_every_answer(self, store: MemoryStore, make: Maker) -> None:
        memories = _findable(store, make)
        (receipt,) = store.forget(ALICE, [memories[1].id])
        assert (receipt.id, receipt.forgotten) == (memories[1].id, True)
        assert store.get(ALICE, [memories[1].id]) == [None]
        rest = {memory.id for memory in memories} - {memories[1].id}
        for way in WAYS.values():
            assert set(_ids(store, way)) == rest
        assert set(_ids(store, Query(where=Filter(tags=frozenset({"x"}))))) == {memories[2].id}

    def test_the_receipt_counts_everything_that_went(self, store: MemoryStore, make: Maker) -> None:
        fact = replace(make.fact("The sky is blue", key="k1"), vectors=(placed(1, 0), placed(0, 1, namespace="w")))
        (known,) = _store(store, [fact])
        store.add(ALICE, [make.fact("The sky is blue", key="k2"), make.fact("The sky is blue")])
        (receipt,) = store.forget(ALICE, [known.id])
        assert receipt.removed == {"memories": 1, "evidence": 2, "keys": 2, "vectors": 2, "words": 1}

    def test_forgetting_again_says_that_there_was_nothing(self, store: MemoryStore, make: Maker) -> None:
        (memory,) = _store(store, [make.event()])
        receipts = store.forget(ALICE, [memory.id, "nobody", memory.id])
        receipts += store.forget(ALICE, [memory.id])
        assert [receipt.id for receipt in receipts] == [memory.id, "nobody", memory.id, memory.id]
        assert [receipt.forgotten for receipt in receipts] == [True, False, False, False]
        assert all(receipt.removed == {} for receipt in receipts[1:])
        assert store.forget(ALICE, []) == []

    def test_many_memories_are_forgotten_at_once(self, store: MemoryStore, make: Maker) -> None:
        memories = _store(store, [make.event(f"event {i}") for i in range(1200)])
        receipts = store.forget(ALICE, [memory.id for memory in memories[:1100]])
        assert all(receipt.forgotten for receipt in receipts)
        assert len(_ids(store, Query(limit=2000))) == 100

    def test_after_forgetting_keys_and_statements_are_free_again(self, store: MemoryStore, make: Maker) -> None:
        (known,) = _store(store, [make.fact("The sky is blue", key="k1")])
        store.forget(ALICE, [known.id])
        (receipt,) = store.add(ALICE, [make.fact("The sky is blue", key="k1")])
        assert receipt.status == "stored"
        assert receipt.id != known.id
        assert _get(store, str(receipt.id)).evidence == 1

    def test_a_forgotten_memory_can_be_remembered_under_its_old_id(self, store: MemoryStore, make: Maker) -> None:
        entry = replace(make.event("deploy"), vectors=(placed(1, 0, 0),))
        store.add(ALICE, [entry])
        assert _ids(store, WAYS["vector"]) == [entry.memory.id]
        store.forget(ALICE, [entry.memory.id])
        assert _ids(store, WAYS["vector"]) == []
        assert store.add(ALICE, [entry])[0].status == "stored"
        for way in WAYS.values():
            assert _ids(store, way) == [entry.memory.id]

    # Changing metadata ----------------------------------------------------------------------------------

    def test_an_annotation_changes_what_it_names_and_the_version(self, store: MemoryStore, make: Maker) -> None:
        annotates = _ability(store, Annotates)  # type: ignore[type-abstract]
        (known,) = _store(store, [make.event("the text", tags=["old"])])
        until = START + timedelta(days=365)
        changed = annotates.annotate(ALICE, known.id, Changes((Clean("new"),), 0.9, 0.8, 0.7, until), 1)
        expected = {"tags": ("new",), "importance": 0.9, "confidence": 0.8, "trust": 0.7, "valid_until": until}
        assert changed == known.model_copy(update=expected | {"version": 2})
        assert store.get(ALICE, [known.id]) == [changed]
        assert annotates.annotate(ALICE, known.id, Changes(), None).version == 3

    def test_versions_tell_what_came_changed_and_went(self, store: MemoryStore, make: Maker) -> None:
        versions, annotates = _ability(store, Versions), _ability(store, Annotates)  # type: ignore[type-abstract]
        where = Filter(tags=frozenset({"fact"}))
        assert versions.versions(ALICE, where) == {}
        first, second, _ = _store(store, [make.fact(f"fact {n}", tags=["fact"] if n < 2 else []) for n in range(3)])
        assert versions.versions(ALICE, where) == {first.id: 1, second.id: 1}
        annotates.annotate(ALICE, first.id, Changes(confidence=0.5), None)
        store.add(ALICE, [make.fact("fact 1", tags=["fact"])])
        assert versions.versions(ALICE, where) == {first.id: 2, second.id: 2}
        store.forget(ALICE, [first.id])
        assert versions.versions(ALICE, where) == {second.id: 2}
        assert versions.versions(BOB, where) == {}
        assert len(versions.versions(ALICE, Filter())) == 2

    def test_searches_follow_an_annotation(self, store: MemoryStore, make: Maker) -> None:
        annotates = _ability(store, Annotates)  # type: ignore[type-abstract]
        (known,) = _store(store, [replace(make.event("text", tags=["zebra"]), vectors=(placed(1, 0),))])
        annotates.annotate(ALICE, known.id, Changes(tags=(Clean("giraffe"),), valid_until=START + timedelta(1)), None)
        assert _ids(store, Query(words=Clean("zebra"))) == []
        assert _ids(store, Query(where=Filter(tags=frozenset({"zebra"})))) == []
        assert _ids(store, Query(words=Clean("giraffe"))) == [known.id]
        assert _ids(store, Query(where=Filter(tags=frozenset({"giraffe"})))) == [known.id]
        assert _ids(store, Query(where=Filter(as_of=START + timedelta(2)))) == []
        assert _ids(store, Query(near=placed(1, 0))) == [known.id]

    def test_all_tags_can_be_taken_away(self, store: MemoryStore, make: Maker) -> None:
        annotates = _ability(store, Annotates)  # type: ignore[type-abstract]
        (known,) = _store(store, [make.event("text", tags=["a", "b"])])
        assert annotates.annotate(ALICE, known.id, Changes(tags=()), None).tags == ()
        assert _get(store, known.id).tags == ()

    def test_an_annotation_of_another_version_is_a_conflict_and_changes_nothing(
        self, store: MemoryStore, make: Maker
    ) -> None:
        annotates = _ability(store, Annotates)  # type: ignore[type-abstract]
        (known,) = _store(store, [make.event()])
        annotates.annotate(ALICE, known.id, Changes(importance=0.9), 1)
        for version in (0, 1, 3):
            with pytest.raises(Conflict):
                annotates.annotate(ALICE, known.id, Changes(importance=0.1), version)
        assert _get(store, known.id).importance == 0.9
        assert _get(store, known.id).version == 2

    def test_annotating_what_is_not_there_is_not_found(self, store: MemoryStore, make: Maker) -> None:
        annotates = _ability(store, Annotates)  # type: ignore[type-abstract]
        (known,) = _store(store, [make.event()])
        store.forget(ALICE, [known.id])
        for id in (known.id, "nobody"):
            with pytest.raises(NotFound):
                annotates.annotate(ALICE, id, Changes(importance=0.1), None)

    def test_a_statement_still_merges_after_an_annotation(self, store: MemoryStore, make: Maker) -> None:
        annotates = _ability(store, Annotates)  # type: ignore[type-abstract]
        (known,) = _store(store, [make.fact("The sky is blue")])
        annotates.annotate(ALICE, known.id, Changes(tags=(Clean("sky"),)), None)
        assert store.add(ALICE, [make.fact("The sky is blue", tags=["colour"])])[0].id == known.id
        assert _get(store, known.id).tags == ("sky", "colour")

    # Counting access ------------------------------------------------------------------------------------

    def test_what_was_touched_is_counted_at_the_next_write_at_the_latest(self, store: MemoryStore, make: Maker) -> None:
        counts = _ability(store, CountsAccess)  # type: ignore[type-abstract]
        one, two, three = _store(store, [make.event("one"), make.event("two"), make.event("three")])
        late, early = START + timedelta(days=2), START + timedelta(days=1)
        counts.touch(ALICE, [one.id, two.id, "nobody"], late)
        counts.touch(ALICE, [one.id], early)
        store.add(ALICE, [make.event("the next write")])
        counts.touch(ALICE, [one.id], early)
        store.add(ALICE, [make.event("and one more")])
        seen = [_get(store, memory.id) for memory in (one, two, three)]
        assert [memory.access_count for memory in seen] == [3, 1, 0]
        assert [memory.last_accessed for memory in seen] == [late, late, None]
        assert [memory.version for memory in seen] == [1, 1, 1]

    def test_a_touched_memory_can_be_forgotten(self, store: MemoryStore, make: Maker) -> None:
        counts = _ability(store, CountsAccess)  # type: ignore[type-abstract]
        (memory,) = _store(store, [make.event()])
        counts.touch(ALICE, [memory.id], START)
        assert store.forget(ALICE, [memory.id])[0].forgotten
        counts.touch(ALICE, [memory.id], START)
        store.add(ALICE, [make.event("the next write")])
        assert store.get(ALICE, [memory.id]) == [None]

    # Crediting recalls ----------------------------------------------------------------------------------

    def test_what_helped_and_what_was_looked_at_in_vain_is_counted(self, store: MemoryStore, make: Maker) -> None:
        ledger = _ability(store, CreditsRecalls)  # type: ignore[type-abstract]
        a, b, c, d = (memory.id for memory in _store(store, [make.event(f"event {i}") for i in range(4)]))
        assert _usefulness(store, ALICE, [a, b, c, d]) == [0.5, 0.5, 0.5, 0.5]
        assert ledger.credit(ALICE, _credit("1", [a, b, c, d], {c}))
        assert _usefulness(store, ALICE, [a, b, c, d]) == pytest.approx([1 / 3, 1 / 3, 2 / 3, 0.5])
        assert ledger.credit(ALICE, _credit("2", [c, a], {c, a}))
        assert _usefulness(store, ALICE, [a, b, c, d]) == pytest.approx([1 / 2, 1 / 3, 3 / 4, 0.5])
        assert ledger.credit(ALICE, _credit("3", [d, c], set()))
        assert _usefulness(store, ALICE, [a, b, c, d]) == pytest.approx([1 / 2, 1 / 3, 3 / 5, 1 / 3])

    def test_counting_what_helped_changes_nothing_else(self, store: MemoryStore, make: Maker) -> None:
        ledger = _ability(store, CreditsRecalls)  # type: ignore[type-abstract]
        (memory,) = _store(store, [make.event()])
        ledger.credit(ALICE, _credit("1", [memory.id], {memory.id}))
        assert store.get(ALICE, [memory.id]) == [memory]
        if isinstance(store, CountsAccess):
            store.touch(ALICE, [memory.id], START)
            store.add(ALICE, [make.event("the next write")])
            assert _get(store, memory.id).access_count == 1
            assert _usefulness(store, ALICE, [memory.id]) == pytest.approx([2 / 3])

    def test_the_same_credit_again_counts_once(self, store: MemoryStore, make: Maker) -> None:
        ledger = _ability(store, CreditsRecalls)  # type: ignore[type-abstract]
        one, two = (memory.id for memory in _store(store, [make.event("one"), make.event("two")]))
        first = _credit("1", [one, two], {two})
        assert [ledger.credit(ALICE, first) for _ in range(3)] == [True, False, False]
        assert not ledger.credit(ALICE, _credit("1", [two, one], {one}))
        assert _usefulness(store, ALICE, [one, two]) == pytest.approx([1 / 3, 2 / 3])
        assert ledger.credits(ALICE, 9) == [first]

    def test_credits_come_back_as_they_were_the_newest_of_them_oldest_first(
        self, store: MemoryStore, make: Maker
    ) -> None:
        ledger = _ability(store, CreditsRecalls)  # type: ignore[type-abstract]
        (memory,) = _store(store, [make.event()])
        credits = [_credit(str(day), [memory.id, "gone"], {"gone"}, day) for day in (3, 1, 4, 2)]
        assert all(ledger.credit(ALICE, credit) for credit in credits)
        assert ledger.credits(ALICE, 9) == sorted(credits, key=lambda credit: credit.at)
        assert [credit.id for credit in ledger.credits(ALICE, 2)] == ["3", "4"]

    def test_a_credit_counts_in_its_own_scope_only(self, store: MemoryStore) -> None:
        ledger = _ability(store, CreditsRecalls)  # type: ignore[type-abstract]
        (mine,) = _store(store, [Maker("alice").event()])
        (yours,) = _store(store, [Maker("bob").event()])
        assert mine.id == yours.id
        assert ledger.credit(ALICE, _credit("1", [mine.id], {mine.id}))
        assert (ledger.credits(BOB, 9), _usefulness(store, BOB, [yours.id])) == ([], [0.5])
        assert ledger.credit(BOB, _credit("1", [yours.id], set()))
        assert _usefulness(store, ALICE, [mine.id]) == pytest.approx([2 / 3])
        assert _usefulness(store, BOB, [yours.id]) == pytest.approx([1 / 3])

    def test_who_has_stored_nothing_has_nothing_to_credit(self, store: MemoryStore) -> None:
        ledger = _ability(store, CreditsRecalls)  # type: ignore[type-abstract]
        assert not ledger.credit(BOB, _credit("1", ["nobody"], {"nobody"}))
        assert ledger.credits(BOB, 9) == []
        if isinstance(store, ListsAgents):
            assert store.agents() == []

    def test_forgetting_removes_what_was_counted(self, store: MemoryStore, make: Maker) -> None:
        ledger = _ability(store, CreditsRecalls)  # type: ignore[type-abstract]
        entry = make.event()
        _store(store, [entry])
        credit = _credit("1", [entry.memory.id], {entry.memory.id})
        ledger.credit(ALICE, credit)
        store.forget(ALICE, [entry.memory.id])
        store.add(ALICE, [entry])
        assert _usefulness(store, ALICE, [entry.memory.id]) == [0.5]
        assert ledger.credits(ALICE, 9) == [credit]

    def test_a_setting_is_what_it_was_last_set_to(self, store: MemoryStore) -> None:
        settings = _ability(store, KeepsSettings)  # type: ignore[type-abstract]
        assert settings.setting("ranking:a") is None
        for value in ("{}", '{"é": 1}', ""):
            settings.set_setting("ranking:a", value)
            assert settings.setting("ranking:a") == value
        assert settings.setting("ranking:A") is None

    # Agents ---------------------------------------------------------------------------------------------

    def test_agents_are_those_that_ever_stored_something_by_name(self, store: MemoryStore, make: Maker) -> None:
        lists = _ability(store, ListsAgents)  # type: ignore[type-abstract]
        assert lists.agents() == []
        names = ["zoe", "alice", "Ärger", "a%", "ALICE"]
        for name in names:
            store.add(Scope(name), [Maker(name, make.sources).event()])
        store.search(Scope("only looks"), Query())
        store.get(Scope("only looks"), ["nobody"])
        store.add(Scope("only looks"), [])
        store.forget(Scope("only looks"), ["nobody"])
        assert lists.agents() == sorted(names)
        store.forget(ALICE, _ids(store, Query()))
        assert lists.agents() == sorted(names)

    # Vectors --------------------------------------------------------------------------------------------

    def test_the_embedder_in_use_is_remembered(self, store: MemoryStore) -> None:
        mirror = _ability(store, MirrorsVectors)  # type: ignore[type-abstract]
        assert mirror.embedder() is None
        for identity in ("small@1", "large@1"):
            mirror.set_embedder(identity)
            assert mirror.embedder() == identity

    def test_memories_without_a_vector_are_listed_oldest_first_whoever_has_them(
        self, store: MemoryStore, make: Maker
    ) -> None:
        mirror = _ability(store, MirrorsVectors)  # type: ignore[type-abstract]
        (one, _, two) = _store(
            store, [make.event("one"), replace(make.event("has one"), vectors=(placed(1, 0),)), make.event("two")]
        )
        three = Maker("bob", make.sources).event("three", at=START - timedelta(days=9))
        store.add(BOB, [three])
        assert mirror.unembedded(LONG_TERM, EMBEDDER, 10) == [one, two, three.memory]
        assert mirror.unembedded(LONG_TERM, EMBEDDER, 2) == [one, two]
        assert mirror.count_unembedded(LONG_TERM, EMBEDDER) == 3
        assert mirror.count_unembedded(LONG_TERM, "large@1") == 4
        assert mirror.count_unembedded("working", EMBEDDER) == 4

    def test_placed_vectors_are_found_and_replace_older_ones(self, store: MemoryStore, make: Maker) -> None:
        mirror = _ability(store, MirrorsVectors)  # type: ignore[type-abstract]
        one, two = _store(store, [make.event("one"), replace(make.event("two"), vectors=(placed(0, 1),))])
        assert _ids(store, Query(near=placed(1, 0))) == [two.id]
        added = mirror.place([(ALICE, one.id, placed(1, 1)), (ALICE, two.id, placed(1, 0))])
        assert added == 2
        found = store.search(ALICE, Query(near=placed(1, 0)))
        assert [match.id for match in found] == [two.id, one.id]
        assert found[0].score == pytest.approx(1, abs=1e-5)
        assert mirror.count_unembedded(LONG_TERM, EMBEDDER) == 0

    def test_vectors_are_placed_only_on_memories_that_exist_in_that_scope(
        self, store: MemoryStore, make: Maker
    ) -> None:
        mirror = _ability(store, MirrorsVectors)  # type: ignore[type-abstract]
        one, gone = _store(store, [make.event("one"), make.event("gone")])
        store.forget(ALICE, [gone.id])
        places = [(ALICE, gone.id, placed(1, 0)), (BOB, one.id, placed(1, 0)), (ALICE, "nobody", placed(1, 0))]
        assert mirror.place(places) == 0
        assert mirror.place([]) == 0
        for scope in (ALICE, BOB):
            assert store.search(scope, Query(near=placed(1, 0))) == []

    def test_discarding_keeps_one_embedder_and_other_namespaces(self, store: MemoryStore, make: Maker) -> None:
        mirror = _ability(store, MirrorsVectors)  # type: ignore[type-abstract]
        places = (placed(1, 0, embedder="old@1"), placed(1, 0), placed(1, 0, namespace="working", embedder="old@1"))
        (memory,) = _store(store, [replace(make.event(), vectors=places)])
        for place in places:
            assert _ids(store, Query(near=place)) == [memory.id]
        assert mirror.discard_vectors(LONG_TERM, EMBEDDER) == 1
        assert mirror.discard_vectors(LONG_TERM, EMBEDDER) == 0
        assert [_ids(store, Query(near=place)) for place in places] == [[], [memory.id], [memory.id]]
        assert mirror.count_unembedded(LONG_TERM, "old@1") == 1
        assert store.forget(ALICE, [memory.id])[0].removed["vectors"] == 2

    # Scopes ---------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("mine", "yours"), LOOK_ALIKES.values(), ids=LOOK_ALIKES.keys())
    def test_nothing_of_one_scope_is_seen_from_another(self, store: MemoryStore, mine: str, yours: str) -> None:
        make = Maker(mine)
        (memory,) = _store(store, [replace(make.event("deploy", tags=["x"], session="s"), vectors=(placed(1, 0, 0),))])
        for me, you in ((Scope(mine), Scope(yours)), (Scope(yours), Scope(mine))):
            expected = [memory.id] if me.agent == mine else []
            assert store.get(me, [memory.id]) == ([memory] if expected else [None])
            for way in WAYS.values():
                for where in (Filter(), Filter(tags=frozenset({"x"})), Filter(session="s")):
                    assert [match.id for match in store.search(me, replace(way, where=where))] == expected, you

    @pytest.mark.parametrize(("mine", "yours"), LOOK_ALIKES.values(), ids=LOOK_ALIKES.keys())
    def test_an_id_of_another_scope_answers_as_if_it_did_not_exist(
        self, store: MemoryStore, mine: str, yours: str
    ) -> None:
        (memory,) = _store(store, [replace(Maker(mine).fact("deploy"), vectors=(placed(1, 0, 0),))])
        stranger = Scope(yours)
        assert store.get(stranger, [memory.id]) == store.get(stranger, ["nobody"])
        (receipt,) = store.forget(stranger, [memory.id])
        assert (receipt.forgotten, receipt.removed) == (False, {})
        if isinstance(store, Annotates):
            messages = []
            for id in (memory.id, "nobody"):
                with pytest.raises(NotFound) as caught:
                    store.annotate(stranger, id, Changes(importance=1.0), memory.version)
                messages.append(str(caught.value).replace(id, "…"))
            assert messages[0] == messages[1]
        if isinstance(store, CountsAccess):
            store.touch(stranger, [memory.id], START)
        if isinstance(store, MirrorsVectors):
            assert store.place([(stranger, memory.id, placed(0, 1, 0))]) == 0
        store.add(stranger, [Maker(yours).event("the next write")])
        assert store.get(Scope(mine), [memory.id]) == [memory]

    def test_the_same_id_key_and_statement_can_be_in_two_scopes(self, store: MemoryStore) -> None:
        mine = replace(Maker("alice").fact("The sky is blue", key="k1", tags=["x"]), vectors=(placed(1, 0),))
        yours = replace(Maker("bob").fact("The sky is blue", key="k1", tags=["y"]), vectors=(placed(0, 1),))
        assert mine.memory.id == yours.memory.id
        assert [store.add(scope, [e])[0].status for scope, e in ((ALICE, mine), (BOB, yours))] == ["stored"] * 2
        assert store.get(BOB, [mine.memory.id]) == [yours.memory]
        assert store.search(ALICE, Query(near=placed(1, 0)))[0].score == pytest.approx(1, abs=1e-5)
        assert store.search(BOB, Query(near=placed(1, 0)))[0].score == pytest.approx(0, abs=1e-5)
        assert store.forget(BOB, [yours.memory.id])[0].forgotten
        assert store.get(ALICE, [mine.memory.id]) == [mine.memory]
        assert [match.id for match in store.search(ALICE, Query(near=placed(1, 0)))] == [mine.memory.id]
        assert store.search(BOB, Query(near=placed(1, 0))) == []

    def test_one_id_in_two_scopes_is_two_memories_in_every_respect(self, store: MemoryStore) -> None:
        mine = replace(Maker("alice").fact("The sky is blue", key="k1", tags=["x"]), vectors=(placed(1, 0),))
        yours = Maker("bob").fact("The sky is grey", tags=["y"])
        id = mine.memory.id
        assert id == yours.memory.id
        store.add(ALICE, [mine, Maker("alice").fact("The sky is blue", key="k2")])
        store.add(BOB, [yours])
        by_tag = {tag: Query(where=Filter(tags=frozenset({tag}))) for tag in ("x", "y", "z")}
        assert [len(store.search(ALICE, by_tag[tag])) for tag in "xyz"] == [1, 0, 0]
        assert [len(store.search(BOB, by_tag[tag])) for tag in "xyz"] == [0, 1, 0]
        if isinstance(store, MirrorsVectors):
            assert store.unembedded(LONG_TERM, EMBEDDER, 9) == [yours.memory]
            assert store.count_unembedded(LONG_TERM, EMBEDDER) == 1
            assert store.place([(BOB, id, placed(1, 0, 0, 0))]) == 1
        before = store.get(ALICE, [id])
        if isinstance(store, Annotates):
            store.annotate(BOB, id, Changes(tags=(Clean("z"),), importance=0.9), None)
            assert [len(store.search(BOB, by_tag[tag])) for tag in "xyz"] == [0, 0, 1]
        assert store.get(ALICE, [id]) == before
        assert [len(store.search(ALICE, by_tag[tag])) for tag in "xyz"] == [1, 0, 0]
        removed = store.forget(BOB, [id])[0].removed
        assert {name: removed[name] for name in ("evidence", "keys")} == {"evidence": 0, "keys": 0}
        assert store.get(ALICE, [id]) == before
        assert [match.id for match in store.search(ALICE, Query(near=placed(1, 0)))] == [id]
        assert store.forget(ALICE, [id])[0].removed["keys"] == 2

    def test_an_entry_of_another_agent_is_refused(self, store: MemoryStore) -> None:
        with pytest.raises(InvalidInput):
            store.add(ALICE, [Maker("bob").event()])
        for scope in (ALICE, BOB):
            assert store.search(scope, Query()) == []

    # Closing --------------------------------------------------------------------------------------------

    def test_closing_twice_is_harmless(self, store: MemoryStore, make: Maker) -> None:
        store.add(ALICE, [make.event()])
        store.close()
        store.close()

    def test_a_closed_store_says_so(self, store: MemoryStore, make: Maker) -> None:
        (memory,) = _store(store, [make.event()])
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.add(ALICE, [make.event()]),
            lambda: store.get(ALICE, [memory.id]),
            *(lambda way=way: store.search(ALICE, way) for way in WAYS.values()),
            lambda: store.forget(ALICE, [memory.id]),
        ]
        if isinstance(store, Annotates):
            calls.append(lambda: store.annotate(ALICE, memory.id, Changes(), None))
        if isinstance(store, CountsAccess):
            calls.append(lambda: store.touch(ALICE, [memory.id], START))
        if isinstance(store, CreditsRecalls):
            calls.append(lambda: store.credit(ALICE, _credit("1", [memory.id], set())))
            calls.append(lambda: store.credits(ALICE, 1))
        if isinstance(store, KeepsSettings):
            calls.append(lambda: store.setting("name"))
            calls.append(lambda: store.set_setting("name", "value"))
        if isinstance(store, ListsAgents):
            calls.append(store.agents)
        if isinstance(store, ReadsNeighbours):
            calls += [
                lambda: store.speakers(ALICE),
                lambda: store.neighbours(ALICE, [memory.id], 1, ["deploy"]),
                lambda: store.term_counts(ALICE, ["deploy"]),
            ]
        if isinstance(store, MirrorsVectors):
            calls += [
                store.embedder,
                lambda: store.set_embedder("small@1"),
                lambda: store.unembedded(LONG_TERM, EMBEDDER, 1),
                lambda: store.count_unembedded(LONG_TERM, EMBEDDER),
                lambda: store.place([(ALICE, memory.id, placed(1, 0))]),
                lambda: store.discard_vectors(LONG_TERM, EMBEDDER),
            ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()


class DurableStoreContract:
    """Contract tests of stores that outlive their process.

    Provide the fixture `open_store`: each call opens the same database again; close all after the test.
    """

    def test_everything_is_there_after_reopening(self, open_store: Callable[[], MemoryStore]) -> None:
        make, store = Maker("alice"), open_store()
        memories = _findable(store, make)
        (fact,) = _store(store, [make.fact("The sky is blue", key="k1")])
        store.add(ALICE, [make.fact("The sky is blue")])
        store.forget(ALICE, [memories[0].id])
        before = [store.search(ALICE, way) for way in WAYS.values()]
        store.close()
        again = open_store()
        assert again.get(ALICE, [memory.id for memory in memories]) == [None, *memories[1:]]
        assert [again.search(ALICE, way) for way in WAYS.values()] == before
        assert again.add(ALICE, [make.fact("The sky is blue", key="k1")])[0].id == fact.id
        assert _get(again, fact.id).evidence == 2

    def test_what_was_touched_is_written_when_the_store_is_closed(self, open_store: Callable[[], MemoryStore]) -> None:
        store = open_store()
        counts = _ability(store, CountsAccess)  # type: ignore[type-abstract]
        (memory,) = _store(store, [Maker("alice").event()])
        counts.touch(ALICE, [memory.id], START)
        store.close()
        assert _get(open_store(), memory.id).access_count == 1

    def test_credits_and_settings_are_there_after_reopening_and_for_others(
        self, open_store: Callable[[], MemoryStore]
    ) -> None:
        store = open_store()
        ledger = _ability(store, CreditsRecalls)  # type: ignore[type-abstract]
        (memory,) = _store(store, [Maker("alice").event()])
        other, credit = open_store(), _credit("1", [memory.id], {memory.id})
        ledger.credit(ALICE, credit)
        assert _usefulness(other, ALICE, [memory.id]) == pytest.approx([2 / 3])
        if isinstance(store, KeepsSettings) and isinstance(other, KeepsSettings):
            store.set_setting("ranking:a", "1")
            assert other.setting("ranking:a") == "1"
        store.close()
        again = open_store()
        assert _usefulness(again, ALICE, [memory.id]) == pytest.approx([2 / 3])
        assert isinstance(again, CreditsRecalls)
        assert again.credits(ALICE, 9) == [credit]
        assert not again.credit(ALICE, credit)

    def test_two_open_stores_see_each_others_writes_at_the_next_search(
        self, open_store: Callable[[], MemoryStore]
    ) -> None:
        one, two = open_store(), open_store()
        make = Maker("alice")
        for writer, reader in ((one, two), (two, one), (one, two)):
            assert len(_findable(writer, make)) == 6
            for way in WAYS.values():
                assert _ids(reader, way) == _ids(writer, way)
        gone = _ids(one, Query(limit=3))
        two.forget(ALICE, gone)
        for way in WAYS.values():
            assert _ids(one, way) == _ids(two, way)
            assert not set(gone) & set(_ids(one, way))

    def test_two_open_stores_share_keys_statements_and_versions(self, open_store: Callable[[], MemoryStore]) -> None:
        one, two = open_store(), open_store()
        make = Maker("alice")
        (fact,) = _store(one, [make.fact("The sky is blue", key="k1")])
        assert two.add(ALICE, [make.fact("The sky is blue", key="k1")])[0].id == fact.id
        assert two.add(ALICE, [make.fact("The sky is blue")])[0].status == "merged"
        if isinstance(one, Annotates):
            with pytest.raises(Conflict):
                one.annotate(ALICE, fact.id, Changes(importance=1.0), fact.version)

    def test_vectors_placed_and_discarded_by_one_store_are_so_for_the_other(
        self, open_store: Callable[[], MemoryStore]
    ) -> None:
        one, two = open_store(), open_store()
        mirror = _ability(one, MirrorsVectors)  # type: ignore[type-abstract]
        (memory,) = _store(one, [Maker("alice").event()])
        assert _ids(two, WAYS["vector"]) == []
        mirror.place([(ALICE, memory.id, placed(1, 0, 0))])
        assert _ids(two, WAYS["vector"]) == [memory.id]
        mirror.discard_vectors(LONG_TERM, "another@1")
        assert _ids(two, WAYS["vector"]) == []

    def test_passages_that_one_store_placed_or_forgot_are_so_for_the_other(
        self, open_store: Callable[[], MemoryStore]
    ) -> None:
        one, two = open_store(), open_store()
        mirror, make = _ability(one, MirrorsVectors), Maker("alice")  # type: ignore[type-abstract]
        vectors = passages((0, 1, 0), (0, 0, 1), (1, 0, 0))
        long, other = _store(one, [replace(make.event(), vectors=vectors), replace(make.event(), vectors=vectors)])
        assert {match.passage for match in two.search(ALICE, WAYS["vector"])} == {2}
        mirror.place([(ALICE, long.id, vector) for vector in vectors[:2]])
        found = {match.id: match for match in two.search(ALICE, WAYS["vector"])}
        assert found[long.id].score == pytest.approx(0, abs=1e-5)
        assert found[other.id].score == pytest.approx(1, abs=1e-5)
        one.forget(ALICE, [other.id])
        assert _ids(two, WAYS["vector"]) == [long.id]


def _findable(store: MemoryStore, make: Maker) -> list[Memory]:
    """Add six memories a to f, a day apart, that every search of `WAYS` finds; each differs in another field."""
    fields: list[dict[str, Any]] = [
        {"kind": MemoryType.RESULT},
        {"kind": MemoryType.MESSAGE, "tags": ["x"]},
        {"tags": ["x", "y", "z"]},
        {"session": "s1"},
        {"session": "s1", "context": "The Release."},
        {"session": "s2", "valid_until": START + timedelta(days=7)},
    ]
    entries = [
        replace(make.event(f"deploy {day}", at=START + timedelta(days=day), **given), vectors=(placed(9, day, 1),))
        for day, given in enumerate(fields)
    ]
    return _store(store, entries)


def _sessions(store: MemoryStore, make: Maker) -> dict[str, str]:
    """Add memories a to f of one session, x and y of another, m and n of none, interleaved; return ids by name."""
    sessions = {"abcdef": "s1", "xy": "s2", "mn": None}
    order = "amxbcynde"
    days = {name: -n for n, name in enumerate(order)}  # stored in the reverse order of their times
    ids = {}
    for name in order + "f":
        session = next(session for names, session in sessions.items() if name in names)
        entry = make.event(f"deploy {name}", session=session, at=START + timedelta(days=days.get(name, 9)))
        (memory,) = _store(store, [entry])
        ids[name] = memory.id
    return ids


def _store(store: MemoryStore, entries: Sequence[Entry]) -> list[Memory]:
    """Add entries of one agent and return their memories."""
    receipts = store.add(Scope(entries[0].memory.agent), entries)
    assert [receipt.status for receipt in receipts] == ["stored"] * len(entries)
    return [entry.memory for entry in entries]


def _ids(store: MemoryStore, query: Query) -> list[str]:
    return [match.id for match in store.search(ALICE, query)]


def _get(store: MemoryStore, id: str) -> Memory:
    (memory,) = store.get(ALICE, [id])
    assert memory is not None
    return memory


def _credit(id: str, order: Sequence[str], helped: set[str], day: int = 0) -> Credit:
    parts = {shown: {"similar": 0.5, "recency": -0.125 * n} for n, shown in enumerate(order)}
    return Credit(id, START + timedelta(days=day), tuple(order), frozenset(helped), parts)


def _usefulness(store: MemoryStore, scope: Scope, ids: Sequence[str]) -> list[float]:
    found = {seen.id: seen.usefulness for seen in _ability(store, ReadsNeighbours).neighbours(scope, ids, 0, [])}  # type: ignore[type-abstract]
    return [found[id] for id in ids]


def _ability(store: object, ability: type[Ability]) -> Ability:
    if not isinstance(store, ability):
        pytest.skip(f"the store does not have the ability {ability.__name__}")
    return store
