"""The life of an agent: each cycle is begun once and ends once, and nothing is done twice unless somebody says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.agents import cycles as module
from engram.agents.cycles import Insight, Life, Resolution, describe_cycle
from engram.errors import Conflict, InvalidInput, NotFound, Unsupported
from engram.model.agent import AgentCycle
from engram.ports import Event, KeepsEvents, Scope

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def life_of(brain: engram.Engram, name: str = "alice") -> Life:
    return Life(brain.agent(name), brain.store, brain.redactor, brain.sources)


@pytest.fixture
def life(brain: engram.Engram) -> Life:
    return life_of(brain)


def complete(life: Life, tool: str, **result: Any) -> int:
    return life.result(life.propose(tool=tool), **result).index


def test_a_cycle_is_a_proposal_and_a_result_as_they_were_given(life: Life) -> None:
    begun = life.propose(
        thoughts={"text": "the tests are slow", "criticism": None},
        tool="run_tests",
        arguments={"path": "tests", "workers": 4, "é": [1, 2.5, None]},
        reasoning="see which one",
        plan=["run", "read", "fix"],
        workspace="snapshot:abc",
    )
    assert (begun.agent, begun.index, begun.status, begun.result) == ("alice", 1, "open", None)
    assert begun.proposal.arguments == {"path": "tests", "workers": 4, "é": [1, 2.5, None]}
    assert (begun.proposal.plan, begun.proposal.retry_of) == (("run", "read", "fix"), None)
    ended = life.result(begun, output={"failed": 0}, artifacts=["report.xml"])
    assert (ended.status, ended.complete, ended.proposal) == ("done", True, begun.proposal)
    assert ended.result is not None
    assert (ended.result.output, ended.result.artifacts, ended.result.ok) == ({"failed": 0}, ("report.xml",), True)
    assert life.cycle(1) == ended
    assert life.cycle(2) is None
    assert life.propose(thoughts="next").index == 2


@pytest.mark.parametrize("output", [0, "", False, [], {}, None, "text", [1, {"a": None}]])
def test_an_output_comes_back_as_it_was(life: Life, output: Any) -> None:
    ended = life.result(life.propose(tool="t"), output=output)
    assert ended.result is not None
    assert ended.result.output == output
    assert type(ended.result.output) is type(output)


def test_an_error_is_a_text_an_exception_or_a_mapping(life: Life) -> None:
    text = life.result(life.propose(tool="a"), error="no such file")
    assert text.status == "failed"
    assert text.result is not None
    assert text.result.error is not None
    assert (text.result.error.message, text.result.ok) == ("no such file", False)
    try:
        raise ValueError("bad")
    except ValueError as raised:
        exception = life.result(life.propose(tool="b"), error=raised)
    assert exception.result is not None
    assert exception.result.error is not None
    assert (exception.result.error.kind, exception.result.error.message) == ("ValueError", "bad")
    assert "Traceback" in str(exception.result.error.details)
    mapping = life.result(life.propose(tool="c"), error={"message": "HTTP 503", "kind": "http", "status": 503})
    assert mapping.result is not None
    assert mapping.result.error is not None
    assert (mapping.result.error.kind, mapping.result.error.details) == ("http", {"status": 503})


def test_telling_a_result_again_changes_nothing_and_another_one_is_a_conflict(life: Life) -> None:
    index = complete(life, "deploy", output="fine")
    before = life.cycle(index)
    assert life.result(index, output="fine") == before
    for change in ({"output": "bad"}, {"error": "it failed"}, {"output": "fine", "artifacts": ["a"]}):
        with pytest.raises(Conflict, match="is done already"):
            life.result(index, **change)
    ways: tuple[Resolution, ...] = ("abandon", "retry")
    for how in ways:
        with pytest.raises(Conflict):
            life.resolve(index, how)
    assert life.cycle(index) == before
    assert life.resume().next_index == 2


def test_what_cannot_be_kept_is_refused_and_nothing_is_begun(life: Life) -> None:
    empty: list[dict[str, Any]] = [{}, {"thoughts": ""}, {"arguments": {"a": 1}}, {"thoughts": {}}]
    wrong: list[dict[str, Any]] = [
        {"tool": 3},
        {"tool": "a", "arguments": [1]},
        {"tool": "a", "arguments": {"x": object()}},
        {"tool": "a", "arguments": {"x": float("nan")}},
        {"tool": "a", "arguments": {"x": "\x00"}},
        {"tool": "a", "arguments": {"x": "\ud800"}},
        {"tool": "a", "arguments": {"x": "y" * 1_000_001}},
        {"tool": "a", "plan": [1]},
    ]
    for fields in (*empty, *wrong):
        with pytest.raises(InvalidInput):
            life.propose(**fields)
    assert life.resume().next_index == 1
    begun = life.propose(tool="a")
    bad: list[dict[str, Any]] = [{"output": object()}, {"error": ""}, {"error": {"code": 1}}, {"error": 3}]
    for result in (*bad, {"artifacts": [1]}):
        with pytest.raises(InvalidInput):
            life.result(begun, **result)
    assert life.cycle(1) == begun


def test_a_cycle_that_is_not_there_is_not_found(life: Life, brain: engram.Engram) -> None:
    theirs = life_of(brain, "bob").propose(tool="a")
    calls: list[Callable[[Any], object]] = [
        lambda which: life.result(which, output=1),
        lambda which: life.record(which, "insight"),
        lambda which: life.resolve(which, "abandon"),
    ]
    for call in calls:
        for which in (1, theirs):
            with pytest.raises(NotFound):
                call(which)
    with pytest.raises(InvalidInput):
        life.result("1", output=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="abandon"):
        life_of(brain, "bob").resolve(1, "again")  # type: ignore[arg-type]


def test_cycles_hold_no_secrets(life: Life, brain: engram.Engram) -> None:
    begun = life.propose(
        tool="curl", arguments={"url": f"https://x/?t={SECRET}", "password": "hunter2"}, thoughts=SECRET
    )
    ended = life.result(begun, output={"echo": SECRET}, error=f"401 for {SECRET}")
    life.resolve(life.propose(tool="x"), "abandon", reason=SECRET)
    assert begun.proposal.redacted
    assert ended.result is not None
    assert ended.result.redacted
    kept = "".join(cycle.model_dump_json() for cycle in life.cycles())
    assert SECRET not in kept
    assert "hunter2" not in kept


def test_cycles_are_listed_newest_first_and_stay_in_their_scope(life: Life, brain: engram.Engram) -> None:
    for number in range(7):
        complete(life, f"tool{number}", output=number)
    assert [cycle.index for cycle in life.cycles(3)] == [7, 6, 5]
    assert [cycle.index for cycle in life.cycles(3, before=5)] == [4, 3, 2]
    assert [cycle.index for cycle in life.cycles(3, before=2)] == [1]
    assert life.cycles(3, before=1) == []
    assert len(life.cycles()) == 7
    assert life_of(brain, "bob").cycles() == []
    assert life_of(brain, "Alice").resume().next_index == 1


def test_an_agent_that_never_lived_begins_at_one(life: Life) -> None:
    state = life.resume()
    assert (state.agent, state.next_index, state.last_complete, state.interrupted) == ("alice", 1, None, None)
    assert state.unfinished == ()


def test_a_killed_agent_goes_on_after_its_last_complete_cycle(life: Life, path: Path) -> None:
    complete(life, "build", output="ok")
    complete(life, "test", error="two failed")
    begun = life.propose(tool="deploy", arguments={"to": "staging"})
    with engram.open(path) as other:
        again = life_of(other)
        state = again.resume()
        assert state.last_complete is not None
        assert (state.next_index, state.last_complete.index) == (4, 2)
        assert state.interrupted == begun.proposal
        assert state.unfinished == (begun,)
        with pytest.raises(Conflict, match="cycle 3 proposed just that"):
            again.propose(tool="deploy", arguments={"to": "staging"})
        assert again.propose(tool="deploy", arguments={"to": "production"}).index == 4


def test_an_interrupted_cycle_is_retried_as_a_new_one_that_names_it(life: Life) -> None:
    begun = life.propose(tool="deploy", arguments={"to": "staging"}, plan=["one"], thoughts="now")
    retry = life.resolve(begun, "retry")
    assert (retry.index, retry.status, retry.proposal.retry_of) == (2, "open", 1)
    assert (retry.proposal.tool, retry.proposal.arguments, retry.proposal.plan) == (
        "deploy",
        {"to": "staging"},
        ("one",),
    )
    old = life.cycle(1)
    assert old is not None
    assert (old.status, old.retried_by, old.complete) == ("retried", 2, False)
    with pytest.raises(Conflict, match="retried as cycle 2"):
        life.resolve(1, "retry")
    with pytest.raises(Conflict, match="retried as cycle 2"):
        life.result(1, output="late")
    assert life.resume().unfinished == (retry,)
    life.result(retry, output="ok")
    assert life.resume().unfinished == ()


def test_an_abandoned_cycle_is_over(life: Life) -> None:
    begun = life.propose(tool="deploy")
    ended = life.resolve(begun, "abandon", reason="the target is gone")
    assert (ended.status, ended.reason, ended.complete) == ("abandoned", "the target is gone", False)
    assert life.resolve(1, "abandon", reason="the target is gone") == ended
    with pytest.raises(Conflict, match="is abandoned already"):
        life.result(begun, output="late")
    state = life.resume()
    assert (state.next_index, state.interrupted, state.last_complete) == (2, None, None)
    assert life.propose(tool="deploy").index == 2


def test_the_same_call_beside_an_open_one_needs_to_be_said(life: Life) -> None:
    life.propose(tool="poll")
    with pytest.raises(Conflict, match="again=True"):
        life.propose(tool="poll")
    assert life.propose(tool="poll", again=True).index == 2
    assert life.propose(thoughts="hm").index == 3
    assert life.propose(thoughts="hm").index == 4
    assert [cycle.index for cycle in life.resume().unfinished] == [1, 2, 3, 4]


def test_a_kill_while_a_retry_is_begun_leaves_both_open_and_the_result_of_the_new_one_ends_the_old(life: Life) -> None:
    first = life.propose(tool="deploy")
    half = life._begin({"tool": "deploy", "retry_of": 1}, again=True)
    assert [cycle.index for cycle in life.resume().unfinished] == [1, 2]
    with pytest.raises(Conflict):
        life.propose(tool="deploy")
    third = life.resolve(half, "retry")
    assert third.proposal.retry_of == 2
    old = life.cycle(first.index)
    assert old is not None
    assert (old.status, old.retried_by) == ("retried", 2)
    assert life.resume().unfinished == (third,)
    fourth = life._begin({"tool": "x", "retry_of": 3}, again=True)
    life.result(fourth, output=1)
    assert life.resume().unfinished == ()


def test_of_two_who_retry_at_once_one_does(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = life.propose(tool="deploy")
    begin = life._begin

    def slowly(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(life, "_begin", begin)
        life.resolve(begun, "retry")
        return begin(*args, **options)

    monkeypatch.setattr(life, "_begin", slowly)
    with pytest.raises(Conflict, match="retried as cycle 2"):
        life.resolve(begun, "retry")
    assert [(cycle.index, cycle.status) for cycle in life.cycles()] == [(3, "abandoned"), (2, "open"), (1, "retried")]


def test_a_retry_that_came_too_late_cannot_be_retried(life: Life) -> None:
    ends: list[Callable[[AgentCycle], object]] = [
        lambda cycle: life.result(cycle, output="late"),
        lambda cycle: life.resolve(cycle, "retry"),
    ]
    for number, end in enumerate(ends):
        first = life.propose(tool=f"deploy{number}")
        half = life._begin({"tool": first.proposal.tool, "retry_of": first.index}, again=True)
        end(first)
        before = life.resume().next_index
        with pytest.raises(Conflict, match=f"cycle {first.index} "):
            life.resolve(half, "retry")
        assert life.resume().next_index == before
        assert life.resolve(half, "abandon").status == "abandoned"


def test_too_many_open_cycles_are_refused(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OPEN", 3)
    for number in range(3):
        life.propose(tool=f"t{number}")
    with pytest.raises(Conflict, match="3 cycles have no result"):
        life.propose(tool="t3")
    life.resolve(2, "abandon")
    assert life.propose(tool="t3").index == 4


def test_an_old_open_cycle_is_not_forgotten_among_many(life: Life) -> None:
    old = life.propose(tool="slow")
    for number in range(120):
        life.resolve(life.propose(tool=f"t{number}"), "abandon")
    state = life.resume()
    assert state.unfinished == (old,)
    assert (state.last_complete, state.next_index) == (None, 122)
    life.result(old, output="at last")
    newest = life.resume().last_complete
    assert newest is not None
    assert newest.index == 1


def test_processes_that_live_one_life_share_the_indexes_without_a_gap(path: Path) -> None:
    mine: dict[str, list[int]] = {name: [] for name in "abc"}
    with engram.open(path, durable=False) as first:
        life_of(first).resume()

    def live(name: str) -> None:
        with engram.open(path, durable=False) as brain:
            life = life_of(brain)
            for number in range(12):
                cycle = life.propose(tool=name, arguments={"number": number})
                mine[name].append(cycle.index)
                life.result(cycle, output=[name, number])

    threads = [threading.Thread(target=live, args=(name,)) for name in mine]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(index for indexes in mine.values() for index in indexes) == list(range(1, 37))
    with engram.open(path) as brain:
        cycles = {cycle.index: cycle for cycle in life_of(brain).cycles()}
        for name, indexes in mine.items():
            results = [cycles[index].result for index in indexes]
            assert [result and result.output for result in results] == [[name, number] for number in range(12)]
        assert life_of(brain).resume().unfinished == ()
        assert brain.upkeep.database.check() == []


def test_insights_name_their_cycle_and_are_kept_once(life: Life, brain: engram.Engram) -> None:
    index = complete(life, "test", error="flaky")
    insights: list[Insight] = ["the clock test is flaky", engram.Draft("wait for the server", kind="plan", tags=["ci"])]
    receipts = life.record(index, insights, tags=["tests"])
    assert [receipt.status for receipt in receipts] == ["stored", "stored"]
    assert [receipt.id for receipt in life.record(index, insights, tags=["tests"])] == [r.id for r in receipts]
    one, two = (brain.agent("alice").get(str(receipt.id)) for receipt in receipts)
    assert one is not None
    assert two is not None
    assert (one.kind, one.metadata, one.tags) == ("reflection", {"cycle": index}, ("tests",))
    assert (two.kind, two.metadata, two.tags) == ("plan", {"cycle": index}, ("ci",))
    other = life.record(complete(life, "again"), "the clock test is flaky", metadata={"a": 1}, kind="observation")
    assert other[0].id != receipts[0].id
    third = brain.agent("alice").get(str(other[0].id))
    assert third is not None
    assert (third.kind, third.metadata) == ("observation", {"a": 1, "cycle": 2})
    assert len(brain.agent("alice").list()) == 3


def test_recall_merges_memories_with_their_cycles_and_recent_results(life: Life, brain: engram.Engram) -> None:
    noted = complete(life, "build", output="42 warnings")
    life.record(noted, "the compiler warnings come from the generated parser")
    brain.agent("alice").remember("staging runs PostgreSQL 15")
    deployed = complete(life, "deploy", output="the api answered with a timeout on staging")
    newest = complete(life, "ls", output=["a", "b"])
    found = life.recall("deploy api timeout staging", k=3)
    assert found.id
    assert [each.found for each in found].count("memory") >= 1
    assert deployed in [each.cycle.index for each in found if each.cycle and each.found == "recent"]
    assert newest in [each.cycle.index for each in found if each.cycle]
    warnings = life.recall("generated parser warnings", k=3)
    assert warnings[0].hit is not None
    assert warnings[0].cycle is not None
    assert (warnings[0].found, warnings[0].cycle.index) == ("memory", noted)
    assert [each.cycle.index for each in warnings if each.cycle].count(noted) == 1
    assert all(each.found == "memory" for each in life.recall("deploy api timeout staging", k=3, recent=0))
    assert len(life.recall("deploy", k=1)) == 1


def test_recall_of_an_agent_without_memories_gives_its_last_result(life: Life) -> None:
    assert life.recall("anything") == []
    complete(life, "ls", output="a")
    (only,) = life.recall("anything")
    assert (only.found, only.hit) == ("recent", None)


def test_an_error_is_learned_from_if_that_is_asked_for(life: Life, brain: engram.Engram) -> None:
    complete(life, "npm", error="network timeout at the registry")
    assert brain.agent("alice").learning.failures() == []
    begun = life.propose(tool="npm", arguments={"do": "install"}, reasoning="large dependency trees")
    for _ in range(2):
        life.result(begun, error="network timeout at the registry", learn=True)
    (pattern,) = brain.agent("alice").learning.failures()
    assert (pattern.occurrence_count, pattern.contexts) == (1, ("large dependency trees",))
    assert pattern.actions == ("npm(do=install)",)
    life.result(life.propose(tool="npm"), output="fine", learn=True)
    assert len(brain.agent("alice").learning.failures()) == 1


def test_a_cycle_in_words_is_its_call_or_what_it_thought(life: Life) -> None:
    assert describe_cycle(life.propose(tool="cp", arguments={"from": "a", "n": [1]})) == "cp(from=a, n=[1])"
    assert describe_cycle(life.propose(thoughts={"text": "hm"})) == '{"text": "hm"}'
    assert describe_cycle(life.propose(plan=["one", "two"])) == "one; two"


def test_a_store_without_events_says_so(brain: engram.Engram) -> None:
    with pytest.raises(Unsupported):
        Life(brain.agent("alice"), object(), brain.redactor, brain.sources)  # type: ignore[arg-type]


STEPS = st.lists(
    st.tuples(st.sampled_from(["propose", "done", "failed", "abandon", "retry", "reopen"]), st.integers(0, 9))
)


@given(STEPS)
def test_whatever_happens_the_state_is_what_the_cycles_say(steps: list[tuple[str, int]]) -> None:
    with engram.open(":memory:", embedder="hashing") as brain:
        life, status = life_of(brain), dict[int, str]()
        for number, (step, which) in enumerate(steps):
            index = which % len(status) + 1 if status else 1
            if step == "propose":
                index = life.propose(tool=f"t{number}").index
                assert index == len(status) + 1
                status[index] = "open"
            elif step == "reopen":
                life = life_of(brain)
            elif not status or status[index] != "open":
                with pytest.raises((Conflict, NotFound)):
                    life.result(index, output=f"other {number}")
            elif step in ("done", "failed"):
                life.result(index, output=number, error="bad" if step == "failed" else None)
                status[index] = step
            elif step == "abandon":
                status[index] = life.resolve(index, "abandon").status
            else:
                status[life.resolve(index, "retry").index], status[index] = "open", "retried"
        state = life.resume()
        assert state.next_index == len(status) + 1
        assert [cycle.index for cycle in state.unfinished] == sorted(i for i, s in status.items() if s == "open")
        ended = [index for index, how in status.items() if how in ("done", "failed")]
        assert (state.last_complete.index if state.last_complete else None) == max(ended, default=None)
        assert {cycle.index: cycle.status for cycle in life.cycles()} == status


def test_cycles_are_found_by_their_workspace(life: Life) -> None:
    for number in range(120):
        life.result(life.propose(tool=f"t{number}", workspace="site" if number % 40 == 0 else "other"))
    assert [cycle.index for cycle in life.cycles(workspace="site")] == [81, 41, 1]
    assert [cycle.index for cycle in life.cycles(1, workspace="site", before=81)] == [41]
    assert life.cycles(workspace="nowhere") == []
    assert len(life.cycles(120, workspace="other")) == 117


def test_a_forgotten_cycle_is_gone_and_its_index_is_not_given_again(life: Life, brain: engram.Engram) -> None:
    for tool in ("one", "two", "three"):
        complete(life, tool, output=f"{tool} gave this")
    (kept,) = life.record(2, "what two taught")
    assert life.forget(2).removed == {"events": 2}
    assert life.cycle(2) is None
    assert [cycle.index for cycle in life.cycles(2)] == [3, 1]
    assert brain.agent("alice").get(str(kept.id)) is not None
    (found,) = life.recall("what two taught", k=1)
    assert (found.found, found.cycle) == ("memory", None)
    newest = life.cycle(3)
    assert newest is not None
    life.forget(newest)
    state = life.resume()
    assert (state.next_index, state.unfinished) == (4, ())
    assert state.last_complete == life.cycle(1)
    assert complete(life, "four") == 4
    life.forget(1)
    life.forget(4)
    assert (life.cycles(), life.resume().next_index, life.resume().last_complete) == ([], 5, None)
    assert [memory.id for memory in brain.agent("alice").list()] == [kept.id]
    assert brain.upkeep.database.check() == []
    for index in (2, 9):
        with pytest.raises(NotFound):
            life.forget(index)


def test_a_cycle_without_a_result_is_not_forgotten_and_those_that_are_open_stay_known(life: Life) -> None:
    begun = life.propose(tool="deploy")
    assert begun.interrupted
    with pytest.raises(Conflict, match='resolve\\(1, "abandon"\\)'):
        life.forget(begun)
    complete(life, "other")
    life.forget(2)
    assert [cycle.index for cycle in life.resume().unfinished] == [1]
    retried = life.resolve(begun, "retry")
    life.forget(1)
    assert life.result(retried, output="ok").status == "done"
    assert life.result(retried, output="ok").status == "done"
    assert [cycle.index for cycle in life.cycles()] == [3]
    with pytest.raises(NotFound, match="another agent"):
        life.forget(retried.model_copy(update={"agent": "bob"}))


def test_a_count_that_comes_late_does_not_hold_up_whoever_goes_on(life: Life, brain: engram.Engram) -> None:
    complete(life, "one")
    complete(life, "two")
    late = module._counter_event(
        Event("x", "proposal", brain.sources.now(), "cycle:1", body={"index": 1}), brain.sources.now()
    )
    assert isinstance(brain.store, KeepsEvents)
    brain.store.append(Scope("alice"), [late])
    assert complete(life, "three") == 3
