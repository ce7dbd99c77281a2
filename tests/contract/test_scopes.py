"""No way of asking lets one agent see, change or forget what is another's, however alike their names are."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotFound
from engram.model import Draft, Memory
from engram.ports import MAX_NAME

FAMILIES = 3_000 if "ENGRAM_LONG" in os.environ else 90
"""Each has up to six names that look alike, and so up to 30 pairs of one who asks and one who has."""

CYRILLIC = str.maketrans("aceopxyABEHKMOPCTX", "асеорхуАВЕНКМОРСТХ")
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}

TWISTS: list[Callable[[str], str]] = [
    lambda name: name + "%",
    lambda name: "%",
    lambda name: "%" + name + "%",
    lambda name: "_" * len(name),
    lambda name: name[:-1] + "_",
    lambda name: name[:-1] + "*",
    lambda name: name[:-1] or "b",
    lambda name: name + name[-1],
    lambda name: name + "b",
    lambda name: "b" + name,
    str.upper,
    str.lower,
    str.swapcase,
    str.casefold,
    str.title,
    lambda name: name + " ",
    lambda name: " " + name,
    lambda name: name + "\t",
    lambda name: name + "\n",
    lambda name: name + "\u00a0",
    lambda name: name + "\u200b",
    lambda name: name + "\ufe0f",
    lambda name: "\ufeff" + name,
    lambda name: "\u202e" + name,
    lambda name: unicodedata.normalize("NFC", name),
    lambda name: unicodedata.normalize("NFD", name),
    lambda name: unicodedata.normalize("NFKC", name),
    lambda name: unicodedata.normalize("NFKD", name),
    lambda name: name.translate(CYRILLIC),
    lambda name: name.translate(FULL_WIDTH),
    lambda name: f"'{name}'",
    lambda name: f'"{name}"',
    lambda name: name + "' OR '1'='1",
    lambda name: name + "'; DROP TABLE memories; --",
    lambda name: name + "--",
    lambda name: name + "/",
    lambda name: "../" + name,
    lambda name: name + "\\",
    lambda name: name + ":",
    lambda name: name + "\x1f",
    lambda name: "[" + name + "]",
    lambda name: name.replace("a", "[a-z]"),
    lambda name: "^" + name + "$",
    lambda name: name + "." + name,
    lambda name: (name * 300)[:MAX_NAME],
    lambda name: name[::-1],
    lambda name: "None",
    lambda name: "NULL",
    lambda name: "*",
]
letters = st.text(st.sampled_from("abcAB1_% é'e\u0301\u00e9ßſıİ\uff41а"), min_size=1, max_size=6)
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=12)
names = (
    st.sampled_from(["a", "ab", "alice", "Alice", "caf\u00e9", "\u212bngström", "ﬁle"]) | letters | anything
).filter(str.strip)


@pytest.fixture(params=["memory", "sqlite"])
def brain(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engram]:
    place = ":memory:" if request.param == "memory" else tmp_path / "team.db"
    with engram.open(place, embedder="hashing", durable=False) as opened:
        yield opened


@pytest.fixture
def numbers() -> Iterator[int]:
    return count(1)


@pytest.mark.slow
@settings(max_examples=FAMILIES)
@given(name=names, twists=st.lists(st.sampled_from(TWISTS), min_size=5, max_size=5, unique=True))
def test_no_read_path_leaks_however_alike_the_names_are(
    brain: Engram, numbers: Iterator[int], name: str, twists: list[Callable[[str], str]]
) -> None:
    family = {name, *(twist(name) for twist in twists)}
    agents = [
        brain.agent(member)
        for member in family
        if member.strip() and len(member) <= MAX_NAME and member != "everyone"
        if not member.startswith(("group:", "\x1f"))
    ]
    number = next(numbers)
    kept = {agent.name: remember(agent, number) for agent in agents}
    everybody = [memory for memories in kept.values() for memory in memories]
    assert len({memory.id for memory in everybody}) == 3 * len(agents)
    for asker in agents:
        foreign = [memory for memory in everybody if memory.agent != asker.name]
        ask_everything(asker, foreign, number)
        change_everything(asker, foreign[:1])
    for owner in agents:
        assert [without_counts(owner.get(memory.id)) for memory in kept[owner.name]] == kept[owner.name]
        assert all(owner.forget(memory.id).forgotten for memory in kept[owner.name])


def remember(agent: AgentHandle, number: int) -> list[Memory]:
    """An event, a statement and a decision; every agent of a family stores the very same."""
    words = canary(number)
    receipts = agent.remember(
        [Draft(words, tags=["canary"], session=f"s{number}", key=f"k{number}"), Draft(words, kind="knowledge")]
    )
    receipts.append(agent.record_decision(context=f"release {number}", action=words, outcome="success"))
    assert [receipt.status for receipt in receipts] == ["stored"] * 3
    memories = [agent.get(receipt.id or "") for receipt in receipts]
    return [memory for memory in memories if memory is not None]


def canary(number: int) -> str:
    return f"canary{number} flew to mine{number}"


def ask_everything(asker: AgentHandle, foreign: list[Memory], number: int) -> None:
    words, ids = canary(number), {memory.id for memory in foreign}
    assert all(asker.get(memory.id) is None for memory in foreign[number % 3 :: 3])  # one of each other agent
    context = f"release {number}"
    lists = [
        asker.list(limit=10),
        asker.list(tags="canary", limit=10),
        asker.list(session=f"s{number}"),
        asker.list(kinds="knowledge", limit=10),
        asker.decisions(context),
        [hit.memory for hit in asker.recall(words, k=10)],
        [hit.memory for hit in asker.recall(f"canary{number}", k=3, tags="canary")],
        [hit.memory for hit in asker.recall(words, k=3, session=f"s{number}", group_by="session")],
    ]
    for found in lists:
        assert found, "the asker's own memory is found"
        assert {memory.agent for memory in found} == {asker.name}
        assert not ids & {memory.id for memory in found}
    suggestion = asker.suggest(context=context)
    assert not ids & set(suggestion.evidence)
    assert [record.attempts for record in suggestion.actions] == [1]


def change_everything(asker: AgentHandle, foreign: list[Memory]) -> None:
    refusals = []
    for id in ("0" * 26, *(memory.id for memory in foreign)):
        receipt = asker.forget(id)
        assert (receipt.forgotten, receipt.removed) == (False, {})
        with pytest.raises(NotFound) as caught:
            asker.annotate(id, tags=["stolen"], importance=0.0)
        refusals.append(str(caught.value).replace(id, ""))
    assert len(set(refusals)) == 1, "a foreign id answers like one that does not exist"


def without_counts(memory: Memory | None) -> Memory | None:
    return memory and memory.model_copy(update={"access_count": 0, "last_accessed": None})


@pytest.mark.parametrize(
    "name",
    ["", " ", "\t\n", "\u00a0", "n" * (MAX_NAME + 1), "🚀" * 300, "a\x00", "\x00", "a\ud800", "\udfff", None, 7, b"a"],
    ids=ascii,
)
def test_a_name_that_cannot_be_kept_is_refused(brain: Engram, name: str) -> None:
    with pytest.raises(InvalidInput, match="agent"):
        brain.agent(name)
    assert brain.agents() == []


def test_the_longest_name_is_kept_exactly(brain: Engram) -> None:
    longest = "🚀" * MAX_NAME
    brain.agent(longest).remember("something")
    assert brain.agents() == [longest]
    assert brain.agent(longest[:-1]).list() == []


def test_looking_does_not_make_an_agent(brain: Engram) -> None:
    agent = brain.agent("only looks")
    agent.list()
    agent.recall("anything")
    agent.suggest(context="anything")
    agent.forget("nobody")
    assert brain.agents() == []


def test_merging_and_keys_stay_inside_a_scope(brain: Engram) -> None:
    for name in ("a", "A", "a%"):
        receipt = brain.agent(name).remember("The sky is blue", kind="knowledge", key="k")
        assert receipt.status == "stored"
    assert brain.agent("a").remember("The sky is blue", kind="knowledge").status == "merged"
    evidence = {name: brain.agent(name).list()[0].evidence for name in ("a", "A", "a%")}
    assert evidence == {"a": 2, "A": 1, "a%": 1}
