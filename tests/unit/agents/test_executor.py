"""A task is carried out with what is known, and what becomes of it is learned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engram
from engram.agents.executor import Recovery, Strategy, Task, TaskExecutor
from engram.errors import ActionBlocked, InvalidInput
from engram.model import DecisionContent, Solution

CONTEXT = "install the packages of the web app in CI"
ACTIONS = ("npm install", "npm ci", "yarn install")


@pytest.fixture
def alice() -> Iterator[engram.AgentHandle]:
    with engram.open(":memory:", embedder="hashing") as brain:
        yield brain.agent("alice")


def decisions(agent: engram.AgentHandle) -> list[DecisionContent]:
    contents = [memory.content for memory in agent.list(kinds="decision")]
    return [content for content in contents if isinstance(content, DecisionContent)]


def teach(agent: engram.AgentHandle, action: str, outcome: str, times: int, error: str = "") -> None:
    for _ in range(times):
        agent.record_decision(context=CONTEXT, action=action, outcome=outcome, error=error)


def approach(strategy: Strategy) -> str:
    return strategy.chosen_approach


def test_the_first_action_is_taken_as_long_as_nothing_is_known(alice: engram.AgentHandle) -> None:
    result = TaskExecutor(alice).execute_with_memory(Task(CONTEXT, actions=ACTIONS), approach)
    assert (result.value, result.outcome, result.recovered, result.error) == ("npm install", "success", False, None)
    (content,) = decisions(alice)
    assert (content.chosen_action, content.alternative_actions) == ("npm install", ("npm ci", "yarn install"))
    assert content.outcome_quality == 1
    assert content.duration == pytest.approx(result.duration)
    assert result.decision_id is not None
    assert alice.get(result.decision_id) is not None


def test_what_worked_before_is_chosen_and_named_as_the_reason(alice: engram.AgentHandle) -> None:
    teach(alice, "npm ci", "success", 8)
    teach(alice, "npm install", "failure", 3)
    seen: list[Strategy] = []
    TaskExecutor(alice).execute_with_memory(Task(CONTEXT, actions=ACTIONS, default_action="npm install"), seen.append)
    (strategy,) = seen
    assert strategy.chosen_approach == "npm ci"
    assert strategy.suggestion is not None
    assert strategy.memories
    assert strategy.informed_by == (strategy.suggestion.id, strategy.memories.id)
    assert decisions(alice)[0].informed_by == strategy.informed_by
    stats = alice.learning.stats()
    assert stats.utilization.some == 1


def test_a_function_that_takes_nothing_is_recorded_as_what_it_is(alice: engram.AgentHandle) -> None:
    teach(alice, "npm ci", "success", 8)

    def install_packages() -> str:
        return "installed"

    executor = TaskExecutor(alice)
    assert executor.execute_with_memory(CONTEXT, install_packages).value == "installed"
    assert decisions(alice)[0].chosen_action == "install_packages"
    assert decisions(alice)[0].informed_by == ()
    executor.execute_with_memory(CONTEXT, lambda: "installed")
    assert decisions(alice)[0].chosen_action == CONTEXT
    executor.execute_with_memory(Task(CONTEXT, name="packages"), install_packages)
    assert decisions(alice)[0].chosen_action == "packages"
    executor.execute_with_memory(Task(CONTEXT, default_action="yarn install"), install_packages)
    assert decisions(alice)[0].chosen_action == "yarn install"
    executor.execute_with_memory(Task(CONTEXT, actions=["npm install"]), install_packages)
    assert decisions(alice)[0].chosen_action == "npm install"


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[engram.AgentHandle]:
    with engram.open(tmp_path / "team.db", embedder="hashing") as brain:
        yield brain.agent("bob")


def test_the_memories_that_were_used_get_the_credit_and_the_blame(bob: engram.AgentHandle) -> None:
    texts = ["packages of the web app in CI need the registry mirror", "the web app in CI has many packages"]
    mirror, other = [bob.remember(text).id for text in texts]

    def good(strategy: Strategy) -> None:
        for hit in strategy.memories:
            if hit.id == mirror:
                strategy.use(hit)
                strategy.use(hit.id)

    def bad(strategy: Strategy) -> None:
        strategy.use(str(other))
        raise TimeoutError("registry timed out")

    executor = TaskExecutor(bob)
    result = executor.execute_with_memory(CONTEXT, good)
    assert result.strategy.used == (mirror,)
    assert {mirror, other} <= {hit.id for hit in result.strategy.memories}
    assert bob.outcome(result.strategy.memories.id, "success", used=[str(mirror)]) is False
    for _ in range(4):
        with pytest.raises(TimeoutError):
            executor.execute_with_memory(CONTEXT, bad, ignore_blocks=True)
    assert [(memory.id, memory.hindered) for memory in bob.learning.harmful()] == [(other, 4)]


def test_memories_that_nobody_used_are_not_blamed(bob: engram.AgentHandle) -> None:
    for text in ("the web team meets on Mondays", "packages are counted in the app", "CI is green on Fridays"):
        bob.remember(text)
    seen = list[Strategy]()

    def run(strategy: Strategy) -> None:
        seen.append(strategy)
        raise TimeoutError("registry timed out")

    for _ in range(12):
        with pytest.raises(TimeoutError):
            TaskExecutor(bob).execute_with_memory(CONTEXT, run, ignore_blocks=True)
    assert all(strategy.memories for strategy in seen)
    assert bob.learning.harmful() == []
    assert bob.outcome(seen[-1].memories.id, "failure") is True


def test_what_was_not_shown_cannot_be_used_and_breaks_nothing(
    bob: engram.AgentHandle, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "engram"):
        result = TaskExecutor(bob).execute_with_memory(CONTEXT, lambda strategy: strategy.use("mem_unknown"))
    assert "'mem_unknown' is not among the memories" in caplog.text
    assert (result.outcome, result.strategy.used) == ("success", ())


def test_circumstances_and_session_are_recorded(alice: engram.AgentHandle) -> None:
    task = Task(CONTEXT, environment="linux", tool="npm", task_type="build", tags=["web"], session="s1")
    TaskExecutor(alice).execute_with_memory(task, approach)
    (memory,) = alice.list(kinds="decision")
    assert (memory.tags, memory.session) == (("web",), "s1")
    content = decisions(alice)[0]
    assert (content.environment, content.tool, content.task_type) == ("linux", "npm", "build")


def test_a_judge_says_how_good_the_result_is(alice: engram.AgentHandle) -> None:
    result = TaskExecutor(alice).execute_with_memory(CONTEXT, lambda _: 7, judge=lambda value: value / 10)
    assert (result.value, result.outcome) == (7, 0.7)
    assert decisions(alice)[0].outcome_quality == 0.7


@pytest.mark.parametrize("judge", [lambda _: "great", lambda _: 1 / 0, lambda _: None, lambda _: 1.5, lambda: 1])
@pytest.mark.parametrize("awaited", [False, True])
def test_a_result_that_cannot_be_judged_is_recorded_without_an_outcome(
    alice: engram.AgentHandle, caplog: pytest.LogCaptureFixture, judge: Any, awaited: bool
) -> None:
    executor = TaskExecutor(alice)
    with caplog.at_level(logging.WARNING, "engram"):
        if awaited:
            result = asyncio.run(executor.aexecute_with_memory(CONTEXT, lambda _: 7, judge=judge))
        else:
            result = executor.execute_with_memory(CONTEXT, lambda _: 7, judge=judge)
    assert "could not be judged" in caplog.text
    assert (result.value, result.outcome, result.error) == (7, None, None)
    (content,) = decisions(alice)
    assert content.outcome_quality is None
    assert result.decision_id is not None
    assert alice.outcome(result.decision_id, "success") is True


def test_a_judge_that_nobody_awaits_loses_nothing(alice: engram.AgentHandle) -> None:
    result = TaskExecutor(alice).execute_with_memory(CONTEXT, lambda _: 7, judge=lambda _: asyncio.sleep(0))  # type: ignore[arg-type,return-value]
    assert (result.value, result.outcome, len(decisions(alice))) == (7, None, 1)


def test_a_recovery_that_nobody_awaits_is_refused(alice: engram.AgentHandle) -> None:
    def run() -> None:
        raise TimeoutError("registry timed out")

    with pytest.raises(InvalidInput, match="aexecute_with_memory"):
        TaskExecutor(alice, lambda *_: asyncio.sleep(0)).execute_with_memory(CONTEXT, run)
    assert len(decisions(alice)) == 1


def test_memories_of_a_result_that_cannot_be_judged_get_no_credit(bob: engram.AgentHandle) -> None:
    bob.remember("packages of the web app in CI need the registry mirror")
    result = TaskExecutor(bob).execute_with_memory(
        CONTEXT, lambda strategy: strategy.use(strategy.memories[0]), judge=lambda _: "great"
    )
    assert result.strategy.used
    assert bob.outcome(result.strategy.memories.id, "success") is True


def test_an_error_is_learned_from_and_raised_again(alice: engram.AgentHandle) -> None:
    error = TimeoutError("registry timed out")

    def run(_: Strategy) -> None:
        raise error

    with pytest.raises(TimeoutError) as caught:
        TaskExecutor(alice).execute_with_memory(Task(CONTEXT, actions=ACTIONS), run)
    assert caught.value is error
    assert caught.value.__context__ is None
    assert decisions(alice)[0].outcome_quality == 0
    (pattern,) = alice.learning.failures()
    assert (pattern.kind, pattern.actions, pattern.occurrence_count) == ("TimeoutError", ("npm install",), 1)


def test_even_an_error_that_ends_iteration_comes_back_as_it_is(alice: engram.AgentHandle) -> None:
    with pytest.raises(StopIteration):
        TaskExecutor(alice).execute_with_memory(CONTEXT, lambda: next(iter(())))
    assert decisions(alice)[0].outcome_quality == 0


def test_an_interruption_teaches_nothing(alice: engram.AgentHandle) -> None:
    def run() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TaskExecutor(alice).execute_with_memory(CONTEXT, run)
    assert decisions(alice) == []


def test_known_solutions_are_offered_and_what_helped_is_learned(alice: engram.AgentHandle) -> None:
    error = TimeoutError("registry timed out")
    alice.learn_from_failure(error, "use the mirror", action="npm install", context=CONTEXT)
    offered: list[tuple[Exception, tuple[Solution, ...], Strategy]] = []

    def recover(error: Exception, solutions: tuple[Solution, ...], strategy: Strategy) -> str:
        offered.append((error, solutions, strategy))
        return "installed from the mirror"

    def run(_: Strategy) -> str:
        raise error

    task = Task(CONTEXT, default_action="npm install")
    result = TaskExecutor(alice, recover).execute_with_memory(task, run)
    assert (result.value, result.recovered, result.outcome) == ("installed from the mirror", True, "failure")
    assert result.error is error
    ((given, solutions, strategy),) = offered
    assert (given, [one.text for one in solutions], strategy) == (error, ["use the mirror"], result.strategy)
    (pattern,) = alice.learning.failures()
    assert [(one.text, one.tried, one.helped) for one in pattern.known_solutions] == [("use the mirror", 2, 2)]
    told = alice.list(kinds="failure")[0]
    assert told.provenance.sources[0] == result.decision_id


def test_a_recovery_says_which_solution_it_applied_and_whether_it_helped(alice: engram.AgentHandle) -> None:
    error = TimeoutError("registry timed out")

    def run(_: Strategy) -> str:
        raise error

    helps = TaskExecutor(alice, lambda *_: Recovery("yes", "use the mirror"))
    assert helps.execute_with_memory(CONTEXT, run).value == "yes"
    fails = TaskExecutor(alice, lambda *_: Recovery(solution="try again", helped=False))
    with pytest.raises(TimeoutError):
        fails.execute_with_memory(CONTEXT, run, ignore_blocks=True)
    (pattern,) = alice.learning.failures()
    known = {one.text: (one.tried, one.helped) for one in pattern.known_solutions}
    assert known == {"use the mirror": (1, 1), "try again": (1, 0)}


def test_a_recovery_without_known_solutions_is_called_by_what_it_does(alice: engram.AgentHandle) -> None:
    def restart(error: Exception, solutions: tuple[Solution, ...], strategy: Strategy) -> str:
        """Restart the registry."""
        return "ok"

    def run() -> str:
        raise TimeoutError("registry timed out")

    assert TaskExecutor(alice, restart).execute_with_memory(CONTEXT, run).recovered
    (pattern,) = alice.learning.failures()
    assert [one.text for one in pattern.known_solutions] == ["Restart the registry."]


def test_a_recovery_that_fails_is_learned_and_the_first_error_raised(
    alice: engram.AgentHandle, caplog: pytest.LogCaptureFixture
) -> None:
    alice.learn_from_failure(TimeoutError("registry timed out"), "use the mirror")

    def recover(error: Exception, solutions: tuple[Solution, ...], strategy: Strategy) -> str:
        raise OSError("no mirror")

    def run() -> str:
        raise TimeoutError("registry timed out")

    with pytest.raises(TimeoutError), caplog.at_level(logging.WARNING, "engram"):
        TaskExecutor(alice, recover).execute_with_memory(CONTEXT, run)
    assert "no mirror" in caplog.text
    (pattern,) = alice.learning.failures()
    assert [(one.tried, one.helped) for one in pattern.known_solutions] == [(2, 1)]


def test_a_recovery_that_does_not_try_teaches_nothing(alice: engram.AgentHandle) -> None:
    alice.learn_from_failure(TimeoutError("registry timed out"), "use the mirror")

    def recover(error: Exception, solutions: tuple[Solution, ...], strategy: Strategy) -> str:
        raise error

    def run() -> str:
        raise TimeoutError("registry timed out")

    with pytest.raises(TimeoutError):
        TaskExecutor(alice, recover).execute_with_memory(CONTEXT, run)
    (pattern,) = alice.learning.failures()
    assert [(one.tried, one.helped) for one in pattern.known_solutions] == [(1, 1)]


def test_what_is_blocked_is_replaced_by_the_best_other_action(alice: engram.AgentHandle) -> None:
    teach(alice, "npm install", "failure", 4, "TimeoutError: registry timed out")
    teach(alice, "npm ci", "success", 1)
    task = Task(CONTEXT, actions=("npm install", "npm ci"), default_action="npm install")
    result = TaskExecutor(alice).execute_with_memory(task, approach)
    assert result.value == "npm ci"
    assert result.strategy.verdict.decision == "allow"


def test_a_refusal_that_leads_to_another_action_is_named_as_the_reason(alice: engram.AgentHandle) -> None:
    teach(alice, "npm install", "failure", 4, "TimeoutError: registry timed out")
    task = Task(CONTEXT, actions=("npm install", "yarn install"), default_action="npm install")
    result = TaskExecutor(alice).execute_with_memory(task, approach)
    assert result.value == "yarn install"
    assert decisions(alice)[0].informed_by == result.strategy.informed_by
    (check,) = alice.learning.checks()
    assert check.effect is not None
    assert check.effect.after.opportunities == 1


def test_without_another_action_a_block_is_an_error_unless_it_is_ignored(alice: engram.AgentHandle) -> None:
    teach(alice, "npm install", "failure", 4, "TimeoutError: registry timed out")
    executor, ran = TaskExecutor(alice), list[str]()

    def run() -> None:
        ran.append("ran")

    task = Task(CONTEXT, default_action="npm install")
    with pytest.raises(ActionBlocked, match="failed 4 of 4 times") as caught:
        executor.execute_with_memory(task, run)
    assert caught.value.verdict.action == "npm install"
    choosing = Task(CONTEXT, actions=("npm install", "npm ci"), default_action="npm install")
    with pytest.raises(ActionBlocked):
        executor.execute_with_memory(choosing, run)
    assert ran == []
    result = executor.execute_with_memory(task, run, ignore_blocks=True)
    assert (ran, result.strategy.verdict.decision) == (["ran"], "block")
    assert result.strategy.failures


def test_an_action_that_an_inner_guard_stops_is_no_failure(alice: engram.AgentHandle) -> None:
    teach(alice, "npm install", "failure", 4, "TimeoutError: registry timed out")

    def run() -> None:
        with alice.guarding(action="npm install", context=CONTEXT):
            pass

    with pytest.raises(ActionBlocked):
        TaskExecutor(alice).execute_with_memory(Task(CONTEXT, name="release"), run)
    assert len(decisions(alice)) == 4


def test_the_steps_that_made_an_approach_work_come_with_the_strategy(alice: engram.AgentHandle) -> None:
    for run in range(8):
        for action in ("clear the cache", "log in to the registry", "npm ci"):
            alice.record_decision(context=CONTEXT, action=action, outcome="success", session=f"run {run}")
    result = TaskExecutor(alice).execute_with_memory(
        Task(CONTEXT, actions=("npm ci",)), lambda strategy: strategy.steps
    )
    assert "npm ci" in result.value
    assert set(result.value) <= {"clear the cache", "log in to the registry", "npm ci"}


def test_steps_that_somebody_told_come_with_the_strategy(alice: engram.AgentHandle) -> None:
    content = {"successful_approach": "npm ci", "replication_steps": ["clear the cache", "npm ci"]}
    alice.remember("npm ci worked for the packages of the web app in CI", kind="success", content=content)
    task = Task(CONTEXT, default_action="npm ci")
    assert TaskExecutor(alice).execute_with_memory(task, lambda strategy: strategy.steps).value == (
        "clear the cache",
        "npm ci",
    )


def test_a_closed_memory_breaks_no_task() -> None:
    brain = engram.open(":memory:", embedder="hashing")
    executor = TaskExecutor(brain.agent("alice"), lambda *_: "recovered")
    brain.close()
    result = executor.execute_with_memory(Task(CONTEXT, default_action="npm ci"), lambda strategy: strategy.steps)
    assert (result.value, result.strategy.chosen_approach) == ((), "npm ci")

    def run() -> None:
        raise TimeoutError("registry timed out")

    assert executor.execute_with_memory(CONTEXT, run).value == "recovered"


def test_coroutine_functions_are_awaited_and_take_the_same_steps(alice: engram.AgentHandle) -> None:
    async def recover(error: Exception, solutions: tuple[Solution, ...], strategy: Strategy) -> Recovery:
        await asyncio.sleep(0)
        return Recovery("recovered", "use the mirror")

    async def judge(value: str) -> float:
        return 0.5

    async def good(strategy: Strategy) -> str:
        await asyncio.sleep(0)
        return strategy.chosen_approach

    async def bad() -> str:
        raise TimeoutError("registry timed out")

    async def life() -> None:
        executor = TaskExecutor(alice, recover)
        result = await executor.aexecute_with_memory(Task(CONTEXT, actions=ACTIONS), good, judge=judge)
        assert (result.value, result.outcome) == ("npm install", 0.5)
        assert (await executor.aexecute_with_memory(CONTEXT, bad)).value == "recovered"
        assert (await executor.aexecute_with_memory(CONTEXT, lambda: "plain")).value == "plain"
        with pytest.raises(TimeoutError):
            await TaskExecutor(alice).aexecute_with_memory(CONTEXT, bad, ignore_blocks=True)

    asyncio.run(life())
    assert len(decisions(alice)) == 4
    assert [one.text for one in alice.learning.failures()[-1].known_solutions] == ["use the mirror"]


def test_the_async_facade_has_its_executor(alice: engram.AgentHandle) -> None:
    async def run(strategy: Strategy) -> str:
        return strategy.chosen_approach

    async def life() -> str:
        async with engram.AsyncEngram(engram.open(":memory:", embedder="hashing")) as brain:
            executor = engram.AsyncTaskExecutor(brain.agent("alice"))
            return (await executor.execute_with_memory(Task(CONTEXT, actions=ACTIONS), run)).value

    assert asyncio.run(life()) == "npm install"


def test_the_sync_executor_refuses_what_needs_to_be_awaited(alice: engram.AgentHandle) -> None:
    async def run() -> None: ...

    with pytest.raises(InvalidInput, match="aexecute_with_memory"):
        TaskExecutor(alice).execute_with_memory(CONTEXT, run)
    with pytest.raises(InvalidInput, match="aexecute_with_memory"):
        TaskExecutor(alice).execute_with_memory(CONTEXT, lambda: asyncio.sleep(0))
    assert decisions(alice) == []


@pytest.mark.parametrize(
    ("run", "given"),
    [
        (lambda: "nothing", False),
        (lambda retries=3: retries, False),
        (lambda strategy=None: strategy, True),
        (lambda one: one, True),
        (lambda *all: all, True),
    ],
)
def test_a_function_is_given_the_strategy_if_it_asks_for_it(alice: engram.AgentHandle, run: Any, given: bool) -> None:
    value = TaskExecutor(alice).execute_with_memory(CONTEXT, run).value
    assert ("Strategy" in repr(value)) == given


def test_what_cannot_be_carried_out_is_refused(alice: engram.AgentHandle) -> None:
    executor = TaskExecutor(alice)
    for run in ("npm ci", lambda one, two: None):
        with pytest.raises(InvalidInput, match="function"):
            executor.execute_with_memory(CONTEXT, run)  # type: ignore[arg-type]
    for task in ({"context": " "}, {"context": "c", "actions": "npm ci"}, {"context": "c", "tags": [""]}):
        with pytest.raises(InvalidInput):
            Task(**task)
    assert decisions(alice) == []


def _good(strategy: Strategy) -> str:
    return strategy.chosen_approach


def _bad(strategy: Strategy) -> str:
    raise TimeoutError("registry timed out")


def _mirror(error: Exception, solutions: tuple[Solution, ...], strategy: Strategy) -> Recovery:
    return Recovery("from the mirror", "use the mirror")


def _no_mirror(error: Exception, solutions: tuple[Solution, ...], strategy: Strategy) -> Recovery:
    return Recovery(None, "use the mirror", helped=False)


@pytest.mark.parametrize("run", [_good, _bad])
@pytest.mark.parametrize("recover", [None, _mirror, _no_mirror])
@pytest.mark.parametrize("known", [(), ("npm install", "failure"), ("npm ci", "success")])
def test_sync_and_async_leave_the_same_behind(run: Any, recover: Any, known: tuple[str, ...]) -> None:
    def life(awaited: bool) -> list[Any]:
        with engram.open(":memory:", embedder="hashing") as brain:
            alice = brain.agent("alice")
            if known:
                teach(alice, known[0], known[1], 6)
            executor, task = TaskExecutor(alice, recover), Task(CONTEXT, actions=ACTIONS)
            try:
                if awaited:
                    result = asyncio.run(executor.aexecute_with_memory(task, run))
                else:
                    result = executor.execute_with_memory(task, run)
                told: list[Any] = [result.value, result.outcome, result.recovered, result.strategy.chosen_approach]
            except TimeoutError as error:
                told = [str(error)]
            last = decisions(alice)[0]
            told += [last.chosen_action, last.outcome_quality, len(last.informed_by), bool(last.error)]
            patterns = alice.learning.failures()
            return [*told, [(one.text, one.tried, one.helped) for p in patterns for one in p.known_solutions]]

    assert life(awaited=False) == life(awaited=True)
