from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engram.errors import InvalidInput, NotFound
from engram_bench import data
from engram_bench.data import locomo, longmemeval, moment, read_locomo, read_longmemeval, turn_ids

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "c1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Bo",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": "I planted a pear tree."},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a blue kite", "img_url": ["x"]},
                {"speaker": "Bo", "dia_id": "D1:3", "text": " "},
            ],
            "session_2_date_time": "some day",
            "session_2": [
                {"speaker": "Ada", "dia_id": "D2:01", "text": "My kite is red."},
                {"speaker": "Ada", "dia_id": "D2:1", "text": "Said twice under one id."},
            ],
            "session_10_date_time": "9:00 am on 1 June, 2023",
        },
        "qa": [
            {"question": "What tree?", "answer": "pear", "evidence": ["D1:1"], "category": 4},
            {"question": "Which kites?", "answer": 2, "evidence": ["D1:2; D2:01", "D9:9", "D", 7], "category": 1},
            {"question": "Whose boat?", "evidence": ["D1:1"], "category": 5, "adversarial_answer": "Bo"},
            {"question": "When?", "answer": "May", "evidence": ["D:1:1", "D1:1"], "category": 2},
            {"question": "Nothing?", "answer": "no", "evidence": [], "category": 3},
            {"question": "  ", "answer": "no", "evidence": ["D1:1"], "category": 3},
        ],
    }
]

SESSIONS: dict[str, list[dict[str, Any]]] = {
    "s1": [{"role": "user", "content": "I got a cat.", "has_answer": True}, {"role": "assistant", "content": "Nice."}],
    "s2": [{"role": "user", "content": "Rain again.", "has_answer": False}],
    "s3": [{"role": "user", "content": "The cat is called Mo.", "has_answer": True}],
}
DATES = {"s1": "2023/05/21 (Sun) 15:59", "s2": "2023/05/22 (Mon) 08:00", "s3": "2023/05/23 (Tue) 08:00"}


def entry(id: str, sessions: list[str], answers: list[str]) -> dict[str, Any]:
    return {
        "question_id": id,
        "question_type": "single-session-user",
        "question": f"What about {id}?",
        "answer": "whatever",
        "question_date": "2023/05/26 (Fri) 16:53",
        "answer_session_ids": answers,
        "haystack_session_ids": sessions,
        "haystack_dates": [DATES[session] for session in sessions],
        "haystack_sessions": [SESSIONS[session] for session in sessions],
    }


LONGMEMEVAL = [
    entry("q1", ["s1", "s2"], ["s1"]),
    entry("q2", ["s2", "s3", "s2"], ["s3", "s9"]),
    entry("q3_abs", ["s1"], ["s1"]),
]
SHARED = {
    "sessions": [{"id": id, "date": DATES[id], "turns": turns} for id, turns in SESSIONS.items()],
    "questions": [{k: v for k, v in e.items() if not k.startswith("haystack")} for e in LONGMEMEVAL],
}


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        ("D1:3", ["D1:3"]),
        ("D8:6; D9:17", ["D8:6", "D9:17"]),
        ("D9:1 D4:4 D4:6", ["D9:1", "D4:4", "D4:6"]),
        ("D:11:26", ["D11:26"]),
        ("D30:05", ["D30:5"]),
        ("D 3 : 4", ["D3:4"]),
        ("D", []),
        ("", []),
    ],
)
def test_evidence_is_read_as_people_wrote_it(written: str, ids: list[str]) -> None:
    assert turn_ids(written) == ids


def test_dates_of_both_data_sets_are_read_and_others_are_none() -> None:
    assert moment("1:56 pm on 8 May, 2023") == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert moment("2023/05/21 (Sun) 15:59") == datetime(2023, 5, 21, 15, 59, tzinfo=UTC)
    assert [moment(text) for text in ("soon", "", None, "2023/13/01 (Sun) 15:59")] == [None] * 4


def test_locomo_turns_have_their_session_speaker_caption_and_time() -> None:
    (conversation,) = locomo(LOCOMO).conversations
    assert [(t.id, t.session, t.speaker, t.text) for t in conversation.turns] == [
        ("D1:1", "session_1", "Ada", "I planted a pear tree."),
        ("D1:2", "session_1", "Bo", "Look! [image: a blue kite]"),
        ("D2:1", "session_2", "Ada", "My kite is red."),
    ]
    assert conversation.turns[1].at == datetime(2023, 5, 8, 13, 56, 1, tzinfo=UTC)
    assert conversation.turns[2].at is None


def test_locomo_questions_have_their_gold_and_what_was_left_out_is_counted() -> None:
    found = locomo(LOCOMO)
    assert [(q.id, q.type, q.answerable, set(q.turns), set(q.sessions)) for q in found.questions] == [
        ("c1/0", "single-hop", True, {"D1:1"}, {"session_1"}),
        ("c1/1", "multi-hop", True, {"D1:2", "D2:1"}, {"session_1", "session_2"}),
        ("c1/2", "adversarial", False, set(), set()),
        ("c1/3", "temporal", True, {"D1:1"}, {"session_1"}),
        ("c1/4", "open-domain", True, set(), set()),
    ]
    assert found.left_out == {
        "turns without a text that can be kept": 1,
        "turns that come twice": 1,
        "dates of sessions that cannot be read": 1,
        "pieces of evidence about turns that do not exist": 1,
        "pieces of evidence that name no turn": 2,
        "questions without a text that can be asked": 1,
    }


def test_longmemeval_gives_each_question_its_haystack() -> None:
    found = longmemeval(LONGMEMEVAL)
    assert not found.single_store
    assert {c.id: [t.id for t in c.turns] for c in found.conversations} == {
        "q1": ["s1:0", "s1:1", "s2:0"],
        "q2": ["s2:0", "s3:0"],
        "q3_abs": ["s1:0", "s1:1"],
    }
    assert [(q.conversation, q.answerable, set(q.turns), set(q.sessions)) for q in found.questions] == [
        ("q1", True, {"s1:0"}, {"s1"}),
        ("q2", True, {"s3:0"}, {"s3"}),
        ("q3_abs", False, set(), set()),
    ]
    assert found.questions[0].asked_at == datetime(2023, 5, 26, 16, 53, tzinfo=UTC)
    assert found.left_out == {"sessions that come twice": 1, "answer sessions that do not exist": 1}
    assert found.conversations[0].turns[1].role == "assistant"


@pytest.mark.parametrize(("value", "asked"), [(LONGMEMEVAL, True), (SHARED, False), (SHARED, True)])
def test_a_single_store_holds_every_session_once(value: Any, asked: bool) -> None:
    found = longmemeval(value, single_store=asked)
    assert found.single_store
    (store,) = found.conversations
    assert [turn.id for turn in store.turns] == ["s1:0", "s1:1", "s2:0", "s3:0"]
    assert [set(question.turns) for question in found.questions] == [{"s1:0"}, {"s3:0"}, set()]
    assert {question.conversation for question in found.questions} == {store.id}


def test_a_session_keeps_its_marks_when_another_haystack_lacks_them() -> None:
    straw = entry("q0", ["s1"], [])
    straw["haystack_sessions"] = [[{**said, "has_answer": None} for said in SESSIONS["s1"]]]
    found = longmemeval([straw, *LONGMEMEVAL], single_store=True)
    assert set(found.questions[1].turns) == {"s1:0"}


def test_a_sample_is_spread_over_all_questions_and_leaves_out_conversations_nobody_asks_about() -> None:
    found = longmemeval(LONGMEMEVAL)
    assert [q.id for q in found.sample(2).questions] == ["q1", "q2"]
    assert [c.id for c in found.sample(2).conversations] == ["q1", "q2"]
    assert found.sample(None) is found.sample(99) is found


def test_gzip_is_known_by_its_content_and_not_by_its_name(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.json.gz", tmp_path / "b.json"
    plain.write_text(json.dumps(LOCOMO), encoding="utf-8")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_locomo(plain) == read_locomo(packed)
    assert len(read_locomo(plain).sha256) == 64


def test_each_command_is_told_when_it_gets_the_other_ones_file() -> None:
    for value in (LONGMEMEVAL, SHARED):
        with pytest.raises(InvalidInput, match="engram bench longmemeval"):
            locomo(value)
    with pytest.raises(InvalidInput, match="engram bench locomo"):
        longmemeval(LOCOMO)


@pytest.mark.parametrize("value", [None, 3, "text", {}, [], [3], [[]], {"a": 1}, [{"qa": []}], {"sessions": 3}])
def test_another_format_is_refused_with_what_was_expected(value: Any) -> None:
    for read, expected in ((locomo, "LoCoMo"), (longmemeval, "LongMemEval")):
        with pytest.raises(InvalidInput, match=rf"{expected} is a list of|no questions or no conversations"):
            read(value)


def test_a_wrong_part_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"0\.qa\.0\.question: Field required"):
        locomo([{"sample_id": "c", "conversation": {}, "qa": [{"category": 1}]}])
    wrong = {**LOCOMO[0], "conversation": {"session_1": [{"dia_id": 4}]}}
    with pytest.raises(InvalidInput, match=r"0\.dia_id"):
        locomo([wrong])
    uneven = {**LONGMEMEVAL[0], "haystack_dates": []}
    with pytest.raises(InvalidInput, match="0 dates"):
        longmemeval([uneven])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"\xff\xfe\x00",
        b"\x1f\x8b",
        b"\x1f\x8bnot gzip at all",
        gzip.compress(b"[1, 2")[:-6],
        gzip.compress(b"[1, 2"),
        b"[" * 100_000,
        b"1" * 10_000,
        b'{"sessions": [], "questions": []}',
    ],
    ids=range(10),
)
def test_a_damaged_or_hostile_file_is_invalid_input(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    for read in (read_locomo, read_longmemeval):
        with pytest.raises(InvalidInput):
            read(file)


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MAX_BYTES", 1000)
    file = tmp_path / "x.json"
    file.write_bytes(gzip.compress(b" " * 100_000))
    with pytest.raises(InvalidInput, match="no data set"):
        read_locomo(file)


def test_no_file_is_not_found(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(NotFound):
            read_locomo(path)


def test_texts_that_no_store_can_keep_are_left_out() -> None:
    sample = json.loads(json.dumps(LOCOMO).replace("My kite is red.", "\\ud800").replace("What tree?", "\\u0000"))
    found = locomo(sample)
    assert found.left_out["turns without a text that can be kept"] == 2
    assert found.left_out["questions without a text that can be asked"] == 2
    assert [turn.text for turn in found.conversations[0].turns][-1] == "Said twice under one id."
