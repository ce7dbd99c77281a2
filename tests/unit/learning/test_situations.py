"""Situations: learned kinds of context that users can list and edit, and that keep their edits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

import engram
from engram.cli import main
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotFound
from engram.learning import events as happened
from engram.learning.situations.nearness import DEFAULT_NEARNESS, Nearness
from engram.learning.situations.situations import Neighbour, Situations
from engram.learning.situations.wordings import wording_key
from engram.ports import Event, Scope

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LATE = "order 48213 is late at the customer"
BROKEN = "the parcel arrived with a broken lamp"


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[Engram]:
    with engram.open(tmp_path / "engram.db", embedder="hashing") as opened:
        yield opened


def taught(brain: Engram) -> AgentHandle:
    agent = brain.agent("alice")
    for number in range(4):
        agent.record_decision(context=f"order {48213 + number} is late at the customer", action="call the carrier")
        agent.record_decision(context=BROKEN, action="send a new lamp")
    return agent


def names(agent: AgentHandle) -> dict[str, int]:
    return {one.name: one.decisions for one in agent.situations.list()}


def test_contexts_that_differ_in_ids_only_are_one_situation(brain: Engram) -> None:
    assert names(taught(brain)) == {LATE: 4, BROKEN: 4}


def test_short_numbers_tell_situations_apart() -> None:
    assert wording_key("Stripe answers 429") != wording_key("Stripe answers 500")
    assert wording_key("order 48213 is late") == wording_key("Order 99120 is late.")


def test_a_situation_is_found_by_its_id_its_name_and_its_contexts(brain: Engram) -> None:
    agent = taught(brain)
    found = agent.situations.get("order 77777 is late at the customer")
    assert found == agent.situations.get(found.id) == agent.situations.get(LATE)
    assert found.actions == {"call the carrier": 4}
    with pytest.raises(NotFound, match="there is no situation"):
        agent.situations.get("bake a cake")


def test_what_a_person_arranges_stays_when_everything_is_learned_again(brain: Engram) -> None:
    agent = taught(brain)
    agent.situations.rename(LATE, "late parcels")
    agent.situations.merge("late parcels", [BROKEN])
    assert names(agent) == {"late parcels": 8}
    agent.situations.split("late parcels", [BROKEN], name="broken goods")
    before = agent.situations.list()
    assert {one.name: (one.decisions, one.pinned) for one in before} == {
        "late parcels": (4, True),
        "broken goods": (4, True),
    }
    brain._parts.experience.anew(Scope("alice"))
    assert agent.situations.list() == before
    agent.record_decision(context="order 60000 is late at the customer", action="call the carrier")
    assert names(agent) == {"late parcels": 5, "broken goods": 4}


def test_contexts_that_a_person_set_apart_advise_nothing_to_each_other(brain: Engram) -> None:
    agent = brain.agent("alice")
    staging, live = "release the shop to the staging cluster", "release the shop to the live cluster"
    for _ in range(5):
        agent.record_decision(context=staging, action="push at once", outcome="success")
        agent.record_decision(context=live, action="roll out slowly", outcome="success")
    agent.situations.list()
    if agent.situations.get(staging).id == agent.situations.get(live).id:
        agent.situations.split(staging, [live])
    agent.situations.pin(staging)
    agent.situations.pin(live)
    told = agent.suggest(context=live)
    assert [record.action for record in told.actions] == ["roll out slowly"]
    assert told.situation == live


def test_what_others_are_merged_into_keeps_its_name(brain: Engram) -> None:
    agent = taught(brain)
    agent.record_decision(context=BROKEN, action="send a new lamp")
    assert agent.situations.merge(LATE, [BROKEN]).name == LATE


def test_a_name_is_given_once(brain: Engram) -> None:
    agent = taught(brain)
    agent.situations.rename(LATE, "late parcels")
    with pytest.raises(InvalidInput, match="another situation is called"):
        agent.situations.rename(BROKEN, "Late parcels")
    with pytest.raises(InvalidInput, match="the name is empty"):
        agent.situations.rename(BROKEN, " ")


def test_a_name_has_200_characters_at_most_and_pins(brain: Engram) -> None:
    agent = taught(brain)
    with pytest.raises(InvalidInput, match="the name has 201 characters; give one of at most 200"):
        agent.situations.rename(LATE, "n" * 201)
    assert agent.situations.rename(LATE, "n" * 200).pinned
    agent.situations.merge(LATE, [BROKEN])
    with pytest.raises(InvalidInput, match="give one of at most 200"):
        agent.situations.split(LATE, [BROKEN], name="b" * 201)
    assert len(agent.situations.list()) == 1


def test_one_text_instead_of_a_list_is_refused_for_what_it_is(brain: Engram) -> None:
    agent = taught(brain)
    with pytest.raises(InvalidInput, match="the other situations must be a list of texts, not one text"):
        agent.situations.merge(LATE, BROKEN)
    with pytest.raises(InvalidInput, match="contexts must be a list of texts, not one text"):
        agent.situations.split(LATE, LATE)
    with pytest.raises(InvalidInput, match="contexts must be texts, not int"):
        agent.situations.split(LATE, 5)  # type: ignore[arg-type]
    assert names(agent) == {LATE: 4, BROKEN: 4}


def test_new_numbers_after_a_split_share_a_situation_in_which_is_learned_what_works(brain: Engram) -> None:
    agent = brain.agent("alice")
    line = "line {} of the bottling plant stands still".format
    for number in range(6):
        agent.record_decision(context=line(number), action="reset the drive", outcome="success")
    agent.situations.split(line(0), [line(4), line(5)], name="the old lines")
    for number in range(10, 52):
        agent.record_decision(context=line(number), action="clean the sensor", outcome="success")
    assert sorted(names(agent).values()) == [2, 4, 42]
    assert agent.suggest(line(77)).recommended == "clean the sensor"
    before = agent.situations.list()
    brain._parts.experience.anew(Scope("alice"))
    assert agent.situations.list() == before


def test_a_split_names_some_contexts_of_the_situation(brain: Engram) -> None:
    agent = taught(brain)
    with pytest.raises(NotFound, match="is not a context of this situation"):
        agent.situations.split(LATE, [BROKEN])
    with pytest.raises(InvalidInput, match="not all of them"):
        agent.situations.split(LATE, [LATE])


def test_nothing_of_a_forgotten_decision_stays_in_its_situation(brain: Engram) -> None:
    agent = taught(brain)
    agent.situations.rename(BROKEN, "broken goods")
    for memory in agent.list():
        if memory.context == BROKEN:
            agent.forget(memory.id)
    assert names(agent) == {LATE: 4}


def test_a_context_that_is_asked_about_belongs_to_its_nearest_neighbour_if_that_is_very_close() -> None:
    known = folded([("the disk is full", "clean up"), ("tests fail", "fix")])
    near = [Neighbour("the disk is full", 0.8), Neighbour("tests fail", 0.4)]
    assert known.nearest(near, DEFAULT_NEARNESS) == known.of("the disk is full")
    assert known.nearest([Neighbour("the disk is full", 0.6)], DEFAULT_NEARNESS) is None
    sure = Nearness(nearest=((0.5, 0.9), (1.0, 1.0)))
    assert known.nearest([Neighbour("the disk is full", 0.6)], sure) == known.of("the disk is full")


def test_wordings_in_which_the_same_is_done_with_the_same_success_are_one_situation() -> None:
    contexts = "Stripe answers slowly", "the card processor throttles us"
    habits = [(context, action) for context in contexts for action in ("wait", "retry at once")]
    others = [(f"{word} is broken", f"mend {word}") for word in ("lamp", "door", "pump", "roof", "wheel", "clock")]
    known = folded([*habits, ("tests fail", "fix"), *others] * 16)
    assert known.of("Stripe answers slowly") == known.of("the card processor throttles us")
    assert known.of("tests fail") != known.of("Stripe answers slowly")


def test_a_wording_in_which_other_things_are_done_leaves() -> None:
    known = folded([("deploy to Berlin", "at once"), ("deploy to Rome", "slowly")] * 8)
    assert known.of("deploy to Berlin") != known.of("deploy to Rome")
    assert {one.decisions for one in known.list_all()} == {8}


def test_contexts_that_differ_by_a_name_are_one_situation_if_the_same_is_done_whatever_it_is(brain: Engram) -> None:
    agent = brain.agent("alice")
    for name in "billing search checkout login orders mail".split():
        agent.record_decision(context=f"release of service {name}", action="rolling update", outcome="success")
        agent.record_decision(context=f"{name} is slow", action=f"profile {name}", outcome="success")
    found = agent.suggest("release of service payments")
    assert found.recommended == "rolling update"
    assert agent.suggest("rollback of service billing").abstained
    assert agent.suggest("payments is slow").abstained
    assert len([name for name in names(agent) if name.startswith("release")]) == 1


def test_a_name_for_which_something_else_is_done_stays_a_situation_of_its_own() -> None:
    verbs = {"start": "systemctl start", "stop": "systemctl stop", "restart": "systemctl restart"}
    found = folded([(f"{verb} the server", action) for verb, action in verbs.items() for _ in range(4)])
    assert len({found.of(f"{verb} the server") for verb in verbs}) == 3
    assert found.find_like("pause the server") is None


def test_what_a_person_arranged_stays_when_decisions_are_forgotten(brain: Engram) -> None:
    agent = taught(brain)
    agent.situations.rename(LATE, "late parcels")
    agent.situations.merge("late parcels", [BROKEN])
    agent.situations.split("late parcels", [BROKEN], name="broken goods")
    agent.forget([memory.id for memory in agent.list() if memory.context == LATE][-1])
    broken = [memory.id for memory in agent.list() if memory.context == BROKEN]
    agent.forget(broken[0])
    agent.forget(broken[-1])
    assert names(agent) == {"late parcels": 3, "broken goods": 2}
    assert all(one.pinned for one in agent.situations.list())


def test_only_what_is_exactly_meant_is_arranged(brain: Engram) -> None:
    agent = taught(brain)
    with pytest.raises(NotFound):
        agent.situations.merge(LATE, ["the parcel arrived with a lamp"])
    with pytest.raises(NotFound):
        agent.situations.pin("the parcel arrived with a lamp")


NAMES = "abcd12345678"
CONTEXTS = st.sampled_from(NAMES)
"""What tells one context from another: a word, or only a number."""
SPLIT: list[tuple[str, str, object]] = [("did", "1", "x"), ("did", "2", "x"), ("did", "3", "x"), ("split", "1", "2")]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("did"), CONTEXTS, st.sampled_from("xyz")),
            st.tuples(st.just("split"), CONTEXTS, CONTEXTS),
            st.tuples(st.just("merge"), CONTEXTS, CONTEXTS),
            st.tuples(st.just("pin"), CONTEXTS, st.booleans()),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_folding_again_and_loading_give_the_same_situations(
    steps: list[tuple[str, str, object]], begins_with_a_split: bool
) -> None:
    steps = [*(SPLIT if begins_with_a_split else ()), *steps]
    one, events = Situations(), list[Event]()
    for number, (kind, context, what) in enumerate(steps):
        at = NOW + timedelta(minutes=number)
        if kind == "did":
            body: dict[str, JsonValue] = {"context": f"situation {context}", "action": str(what)}
            event = Event(f"e{number:03}", happened.DECISION, at, f"m{number:03}", "", body)
        else:
            ids = {letter: one.of(f"situation {letter}") or "gone" for letter in NAMES}
            body = {"situation": ids[context], "wordings": [wording_key(f"situation {context}")]}
            if kind == "split":
                body |= {"split": f"new {number}", "contexts": [wording_key(f"situation {what}")]}
            elif kind == "merge":
                body |= {"twin": ids[str(what)]}
            else:
                body |= {"pinned": bool(what)}
            event = Event(f"e{number:03}", happened.SITUATION, at, "", "", body)
        events.append(event)
        one.fold(event)
    again = Situations()
    for number, event in enumerate(events):
        if number % 7 == 6:
            again = Situations.load(json.loads(json.dumps(again.dump())))
        again.fold(event)
    loaded = Situations.load(json.loads(json.dumps(one.dump())))
    assert again.list_all() == loaded.list_all() == one.list_all()
    assert again.dump() == loaded.dump() == one.dump()
    decided = sum(kind == "did" for kind, _, _ in steps)
    assert sum(found.decisions for found in one.list_all()) == decided


def folded(decisions: list[tuple[str, str]]) -> Situations:
    known = Situations()
    for number, (context, action) in enumerate(decisions):
        body: dict[str, JsonValue] = {"context": context, "action": action, "quality": float(action != "retry at once")}
        known.fold(Event(f"e{number}", happened.DECISION, NOW, f"m{number}", "", body))
    return known


def test_the_command_lists_and_arranges_situations(tmp_path: Path) -> None:
    database = str(tmp_path / "engram.db")
    with engram.open(database, embedder="hashing") as brain:
        taught(brain)

    def run(*arguments: str) -> str:
        told = CliRunner().invoke(
            main, ["--db", database, "learning", "situations", *arguments], env={"ENGRAM_EMBEDDER": "hashing"}
        )
        assert told.exit_code == 0, told.output
        return told.output

    assert LATE in run()
    assert BROKEN in run("list")
    assert "call the carrier (4×)" in run("show", LATE)
    assert "Renamed and pinned: late parcels" in run("rename", LATE, "late parcels", "--agent", "alice")
    assert "8 decisions" in run("merge", "late parcels", BROKEN, "--agent", "alice")
    assert "broken goods" in run(
        "split", "late parcels", "--context", BROKEN, "--name", "broken goods", "--agent", "alice"
    )
    assert "Pinned" in run("pin", "broken goods", "--agent", "alice")
    assert "No longer pinned" in run("unpin", "broken goods", "--agent", "alice")
