from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.engine import AgentHandle
from engram.errors import Conflict, InvalidInput, NotFound, Unsupported
from engram.memories import episodic
from engram.memories.episodic import EpisodicMemory, time_span, to_episode
from engram.memories.working import WorkingMemory
from engram.model import Clean, Episode, Memory
from engram.ports import Scope
from engram.privacy import SecretRedactor
from engram.stores.expiring import InProcessExpiring
from engram.testing import FixedSources
from support.redis_server import redis_url

pytest_plugins = ["support.postgres_server"]
__all__ = ["redis_url"]

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)  # a Sunday
TALKS: list[tuple[str, str, str, str, str | float | None, list[str]]] = [
    ("2026-03-10T10:00", "bob", "How do I install Python on Windows?", "Use the installer.", "success", ["setup"]),
    (
        "2026-11-04T09:00",
        "bob",
        "What are Python's decorators?",
        "Functions that wrap functions.",
        "failure",
        ["python"],
    ),
    (
        "2026-11-05T09:00",
        "eve",
        "Show me async examples",
        "Three examples with Python's asyncio.",
        "success",
        ["async"],
    ),
    ("2026-11-14T15:30", "bob", "Which pythons live in Florida?", "Burmese ones.", 0.6, ["animals", "python"]),
    ("2026-11-14T09:00", "eve", "Is the deploy done?", "Yes.", None, []),
]


@pytest.fixture
def sources() -> FixedSources:
    return FixedSources(NOW)


@pytest.fixture
def alice(sources: FixedSources) -> Iterator[AgentHandle]:
    with engram.open(":memory:", embedder="hashing", sources=sources) as brain:
        yield brain.agent("alice")


@pytest.fixture
def episodes(alice: AgentHandle, sources: FixedSources) -> EpisodicMemory:
    memory = alice.episodic
    for at, user, asked, answered, outcome, tags in TALKS:
        assert memory.record(asked, answered, user=user, outcome=outcome, tags=tags, at=at).ok
    return memory


def days(found: list[Episode]) -> list[str]:
    return [f"{one.at:%m-%d}" for one in found]


def test_an_interaction_comes_back_word_for_word(alice: AgentHandle, sources: FixedSources) -> None:
    memory = EpisodicMemory(alice, sources)
    receipt = memory.record(
        input="  Tell me:\nwhy?  ",
        output="Because.",
        user="bob",
        outcome="partial",
        tags=["why"],
        metadata={"channel": "chat", "n": 3},
        at="2026-05-01T08:00",
        session="s1",
    )
    assert receipt.id is not None
    assert memory.get(receipt.id) == Episode(
        id=receipt.id,
        agent="alice",
        at=datetime(2026, 5, 1, 8, tzinfo=UTC),
        user=Clean("bob"),
        input=Clean("  Tell me:\nwhy?  "),
        output=Clean("Because."),
        outcome=0.5,
        tags=(Clean("why"),),
        metadata={"channel": "chat", "n": 3},
        session=Clean("s1"),
    )
    found = memory.get(receipt.id)
    assert found is not None
    assert (found.timestamp, found.user_id, found.agent_id) == (found.at, "bob", "alice")
    assert memory.get("nothing") is None


def test_an_interaction_is_one_memory_that_recall_finds_by_question_and_answer(
    alice: AgentHandle, episodes: EpisodicMemory
) -> None:
    assert len(alice.list(limit=100)) == len(TALKS)
    assert alice.recall("decorators")[0].memory.text == "Functions that wrap functions."
    assert alice.recall("Burmese")[0].memory.context == "Which pythons live in Florida?"


def test_all_times_the_user_asked_about_something(episodes: EpisodicMemory) -> None:
    assert days(episodes.query("Python")) == ["11-14", "11-05", "11-04", "03-10"]
    assert days(episodes.query("Python", user="bob")) == ["11-14", "11-04", "03-10"]
    assert days(episodes.query(asked="Python")) == ["11-14", "11-04", "03-10"]
    assert days(episodes.query("installing Python")) == ["03-10"]
    assert days(episodes.query("Python", user="BOB ", limit=1)) == ["11-14"]
    assert episodes.query("Rust") == []


def test_between_two_dates_from_the_first_on_and_before_the_last(episodes: EpisodicMemory) -> None:
    assert days(episodes.query(since="2026-11-04T09:00", until="2026-11-14T09:00")) == ["11-05", "11-04"]
    assert days(episodes.query(until="2026-11-01")) == ["03-10"]
    assert episodes.query(since="2026-12-01", until="2026-01-01") == []


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("last week", ["11-05", "11-04"]),
        ("yesterday", ["11-14", "11-14"]),
        ("yesterday afternoon", ["11-14"]),
        ("in March", ["03-10"]),
        ("since last Tuesday", ["11-14", "11-14"]),
        ("between 2026-11-04 and 2026-11-05", ["11-05", "11-04"]),
        ("this year", ["11-14", "11-14", "11-05", "11-04", "03-10"]),
    ],
)
def test_times_can_be_said_in_plain_words(episodes: EpisodicMemory, when: str, expected: list[str]) -> None:
    assert days(episodes.query(when=when)) == expected


def test_plain_words_are_meant_from_the_time_that_is_given_in_its_zone(episodes: EpisodicMemory) -> None:
    assert days(episodes.query(when="yesterday", now="2026-11-06T12:00")) == ["11-05"]
    tokyo = datetime(2026, 11, 15, 1, tzinfo=timezone(timedelta(hours=9)))  # still the 14th in UTC
    assert days(episodes.query(when="today", now=tokyo)) == ["11-14"]
    assert days(episodes.query(when="yesterday", now=tokyo)) == ["11-14"]
    assert episodes.query(when="yesterday", now=tokyo)[0].user == "eve"


def test_both_ways_to_name_a_time_limit_each_other(episodes: EpisodicMemory) -> None:
    assert days(episodes.query(when="last week", since="2026-11-05")) == ["11-05"]
    assert days(episodes.query(when="this year", until="2026-04-01")) == ["03-10"]


@pytest.mark.parametrize("words", ["whenever", "", "Python"])
def test_words_that_name_no_time_are_refused(episodes: EpisodicMemory, words: str) -> None:
    with pytest.raises(InvalidInput, match="no time"):
        episodes.query(when=words)


def test_by_tag_by_outcome_and_by_session(episodes: EpisodicMemory) -> None:
    assert days(episodes.query(tags="python")) == ["11-14", "11-04"]
    assert days(episodes.query(tags=["python", "animals"])) == ["11-14"]
    assert days(episodes.query(outcome="success")) == ["11-05", "03-10"]
    assert days(episodes.query(outcome="failure")) == ["11-04"]
    assert days(episodes.query(outcome="partial")) == ["11-14"]
    assert [one.went for one in episodes.query(limit=2)] == ["partial", None]
    assert episodes.query(session="s1") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"outcome": "great"},
        {"limit": 0},
        {"about": " ?! "},
        {"asked": ""},
        {"since": "soon"},
        {"when": "today", "now": "x"},
    ],
)
def test_a_question_that_cannot_be_meant_is_refused(episodes: EpisodicMemory, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        episodes.query(**wrong)  # type: ignore[arg-type]


def test_nothing_said_is_rejected_with_a_reason(alice: AgentHandle) -> None:
    receipt = EpisodicMemory(alice).record("  ", "")
    assert (receipt.status, receipt.id) == ("rejected", None)


def test_a_field_has_one_name_only(alice: AgentHandle) -> None:
    memory = EpisodicMemory(alice)
    with pytest.raises(InvalidInput, match="text"):
        memory.record("a", "b", text="c")
    with pytest.raises(InvalidInput, match="outcome"):
        memory.record("a", "b", outcome="success", metadata={"outcome": 1})
    with pytest.raises(InvalidInput, match="outcome"):
        memory.record("a", "b", outcome="great")


def test_a_key_makes_recording_idempotent(alice: AgentHandle) -> None:
    memory = EpisodicMemory(alice)
    assert memory.record("a?", "b", key="1").id == memory.record("a?", "b", key="1").id
    assert len(memory.query()) == 1


def test_half_an_interaction_is_one_too(alice: AgentHandle, sources: FixedSources) -> None:
    memory = EpisodicMemory(alice, sources)
    memory.record(input="Anybody there?", user="bob")
    sources.advance(timedelta(seconds=1))
    memory.record(output="The build is red.")
    said, asked = memory.query()
    assert (asked.input, asked.output, asked.user) == ("Anybody there?", "", "bob")
    assert (said.input, said.output, said.user) == ("", "The build is red.", None)


def test_turns_handed_over_by_working_memory_are_episodes(alice: AgentHandle, sources: FixedSources) -> None:
    store = InProcessExpiring(sources)
    working = WorkingMemory(
        store, Scope("alice"), redactor=SecretRedactor(), sources=sources, session="s1", agent=alice
    )
    working.add_message("user", "How does Python's GIL work?", speaker="bob")
    sources.advance(timedelta(seconds=1))
    working.add_message("assistant", "One thread runs bytecode at a time.")
    working.hand_over()
    memory = EpisodicMemory(alice, sources)
    assert [one.input for one in memory.query(asked="python", user="bob", session="s1")] == [
        "How does Python's GIL work?"
    ]
    assert memory.query(session="s1")[0].output == "One thread runs bytecode at a time."


def test_other_kinds_of_memory_are_no_episodes(alice: AgentHandle) -> None:
    receipt = alice.remember("Staging runs PostgreSQL 15")
    memory = alice.get(receipt.id or "")
    assert memory is not None
    assert to_episode(memory) is None
    assert EpisodicMemory(alice).get(memory.id) is None
    assert EpisodicMemory(alice).query() == []


def test_metadata_that_merely_looks_like_an_outcome_stays_metadata(alice: AgentHandle) -> None:
    memory = EpisodicMemory(alice)
    memory.record("a?", "b", metadata={"outcome": "shipped"})
    (found,) = memory.query()
    assert (found.outcome, found.metadata) == (None, {"outcome": "shipped"})


def test_similar_finds_by_meaning_best_first(episodes: EpisodicMemory) -> None:
    assert episodes.similar("decorators that wrap functions", k=2)[0].output == "Functions that wrap functions."
    assert [one.user for one in episodes.similar("deploy", k=1, when="in 2026")] == ["eve"]


def test_every_page_is_read(alice: AgentHandle, sources: FixedSources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodic, "_PAGE", 7)
    memory = EpisodicMemory(alice, sources)
    for n in range(30):
        sources.advance(timedelta(seconds=1))
        memory.record(f"question {n}", f"answer {n}", user="bob" if n % 3 == 0 else "eve")
    assert [one.input for one in memory.query(user="bob", limit=100)] == [f"question {n}" for n in range(27, -1, -3)]
    assert len(memory.query(limit=28)) == 28


def test_agents_do_not_see_each_others_episodes(brain: engram.Engram) -> None:
    EpisodicMemory(brain.agent("alice")).record("a?", "b")
    assert EpisodicMemory(brain.agent("bob")).query() == []


@given(st.text(max_size=200))
def test_any_words_mean_a_stretch_of_time_or_are_refused(words: str) -> None:
    try:
        start, end = time_span(words, NOW)
    except InvalidInput:
        return
    assert start is None or end is None or start < end


def test_an_episode_is_made_from_any_stored_memory_unchanged(alice: AgentHandle, episodes: EpisodicMemory) -> None:
    stored: list[Memory] = alice.list(limit=100)
    for memory, one in zip(stored, episodes.query(limit=100), strict=True):
        assert (one.id, one.output, one.input) == (memory.id, memory.text, memory.context)


def test_how_it_went_can_be_told_later_and_corrected(alice: AgentHandle, episodes: EpisodicMemory) -> None:
    receipt = episodes.record("Is it up?", "Yes.", user="bob", at="2026-11-15")
    assert receipt.id is not None
    assert episodes.outcome(receipt.id, "failure")
    assert not episodes.outcome(receipt.id, 0.0)
    with pytest.raises(Conflict, match="correct"):
        episodes.outcome(receipt.id, "success")
    assert days(episodes.query(outcome="failure")) == ["11-15", "11-04"]
    assert episodes.outcome(receipt.id, "success", correct=True)
    found = episodes.get(receipt.id)
    assert found is not None
    assert (found.outcome, found.went) == (1.0, "success")
    assert days(episodes.query(outcome="failure")) == ["11-04"]
    assert [one.outcome for one in episodes.query("up")] == [1.0]
    memory = alice.get(receipt.id)
    assert memory is not None
    assert "outcome" not in memory.metadata
    alice.forget(receipt.id)
    with pytest.raises(NotFound, match="no interaction"):
        episodes.outcome(receipt.id, "success")


def test_an_outcome_told_at_once_is_corrected_in_the_same_way(episodes: EpisodicMemory) -> None:
    (first,) = episodes.query("Windows")
    assert not episodes.outcome(first.id, "success")
    with pytest.raises(Conflict):
        episodes.outcome(first.id, "partial")
    assert episodes.outcome(first.id, "partial", correct=True)
    assert [one.went for one in episodes.query("Windows")] == ["partial"]


def test_only_interactions_have_such_an_outcome(alice: AgentHandle, sources: FixedSources) -> None:
    noted = alice.remember("just a note")
    for id in (noted.id, "nothing", ""):
        with pytest.raises(NotFound):
            alice.episodic.outcome(str(id), "success")
    with pytest.raises(Unsupported):
        EpisodicMemory(alice, sources).outcome(str(noted.id), "success")


WORDS = st.lists(st.sampled_from("the Python pythons rust async asyncIO 预发布 install deploy v2".split()), max_size=5)


@given(
    st.lists(st.tuples(WORDS, WORDS, st.integers(0, 3), st.sampled_from(["", "a", "b"])), max_size=25),
    WORDS,
    WORDS,
    st.integers(1, 30),
    st.sampled_from([None, "a"]),
    st.integers(0, 3),
)
def test_looking_words_up_finds_what_reading_everything_finds(
    talks: list[tuple[list[str], list[str], int, str]],
    about: list[str],
    asked: list[str],
    limit: int,
    session: str | None,
    since: int,
) -> None:
    sources = FixedSources(NOW, timedelta(seconds=1))
    with engram.open(":memory:", embedder="hashing", sources=sources) as brain:
        alice = brain.agent("alice")
        for input, output, day, held in talks:
            at = NOW - timedelta(days=day)  # often the same moment: the order must agree all the same
            alice.episodic.record(" ".join(input), " ".join(output), at=at, session=held or None, tags=held or ())
        plain = EpisodicMemory(alice, sources)
        where: dict[str, object] = {"session": session, "since": NOW - timedelta(days=since), "limit": limit}
        where |= {"tags": session or ()}
        words = {name: " ".join(text) for name, text in {"about": about, "asked": asked}.items() if text}
        assert alice.episodic.query(**words, **where) == plain.query(**words, **where)  # type: ignore[arg-type]


def test_rare_words_are_looked_up_and_common_ones_read(alice: AgentHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        alice.episodic.record(f"question {number}", "needle" if number == 7 else f"answer {number}")
    listed = list[int]()
    real = AgentHandle.list

    def counted(self: AgentHandle, **where: object) -> list[Memory]:
        found = real(self, **where)  # type: ignore[arg-type]
        listed.append(len(found))
        return found

    monkeypatch.setattr(AgentHandle, "list", counted)
    assert len(alice.episodic.query("needles")) == 1
    assert listed == []
    assert len(alice.episodic.query("question", limit=3)) == 3
    assert sum(listed) > 0


@pytest.fixture(params=["sqlite", "redis", "postgresql"])
def url(request: pytest.FixtureRequest, path: Path) -> str:
    if request.param == "sqlite":
        return str(path)
    if request.param == "redis":
        return f"{request.getfixturevalue('redis_url')}?prefix={path.parent.name}"
    return str(request.getfixturevalue("postgres_url"))


def test_episodes_are_the_same_on_every_store(url: str, sources: FixedSources) -> None:
    with engram.open(url, embedder="hashing", sources=sources) as brain:
        memory = brain.agent("alice").episodic
        for at, user, asked, answered, outcome, tags in TALKS:
            assert memory.record(asked, answered, user=user, outcome=outcome, tags=tags, at=at).ok
        for number in range(60):
            memory.record(f"Filler {number}", "Nothing.", at="2026-01-01")
        assert days(memory.query("Python")) == ["11-14", "11-05", "11-04", "03-10"]
        assert days(memory.query("Python", user="bob", when="in November")) == ["11-14", "11-04"]
        assert days(memory.query(asked="Python", tags="python")) == ["11-14", "11-04"]
        (deploy,) = memory.query("deploying")
        assert memory.outcome(deploy.id, "success")
        assert days(memory.query(outcome="success")) == ["11-14", "11-05", "03-10"]
        assert brain.agent("bob").episodic.query("Python") == []
        assert brain.agent("alice").forget(deploy.id).removed["events"] == 1


def test_an_answer_that_is_no_text_is_refused() -> None:
    with engram.open(":memory:", embedder="hashing") as brain, pytest.raises(InvalidInput, match="output"):
        brain.agent("alice").episodic.record("a question", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("when", ["March", "March 2026", "2026-03", " march ", "spring", "Q1"])
def test_a_name_that_stands_alone_is_a_time_too(episodes: EpisodicMemory, when: str) -> None:
    assert days(episodes.query(when=when)) == ["03-10"]


def test_an_hour_and_a_year_alone_are_times_too(episodes: EpisodicMemory) -> None:
    assert days(episodes.query(when="2026"))[-1] == "03-10"
    assert episodes.query(when="2025") == []
    assert days(episodes.query(when="the last hour", now="2026-11-14T15:45")) == ["11-14"]
    assert days(episodes.query(when="15:30")) == ["11-14"]


def test_a_time_in_plain_words_is_a_text(episodes: EpisodicMemory) -> None:
    with pytest.raises(InvalidInput, match="plain words"):
        episodes.query(when=2026)  # type: ignore[arg-type]


def test_similar_takes_the_time_that_plain_words_are_meant_from(episodes: EpisodicMemory) -> None:
    assert days(episodes.similar("Python", when="yesterday", now="2026-11-06T12:00")) == ["11-05"]
