"""A guard checks before the action, records after it, and never gets in the way."""

from __future__ import annotations

import asyncio
import functools
import logging
import pickle
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.agents.guard import GuardedBlock, guard
from engram.errors import ActionBlocked, InvalidInput, NotAllowed, StoreFull
from engram.model import DecisionContent, Memory, Receipt, Verdict


@pytest.fixture
def brain() -> Iterator[engram.Engram]:
    with engram.open(":memory:", embedder="hashing") as opened:
        yield opened


@pytest.fixture
def alice(brain: engram.Engram) -> engram.AgentHandle:
    return brain.agent("alice")


def newest(agent: engram.AgentHandle) -> tuple[Memory, DecisionContent]:
    memory = agent.list(kinds="decision", limit=1)[0]
    assert isinstance(memory.content, DecisionContent)
    return memory, memory.content


def fail(agent: engram.AgentHandle, action: str, context: str, times: int) -> None:
    for _ in range(times):
        agent.record_decision(context=context, action=action, outcome="failure", error="TimeoutError: npm timed out")


class Deaf:
    """An agent whose memory is full and cannot be read."""

    def check(self, **_: Any) -> Verdict:
        raise StoreFull("no space left; free some")

    def record_decision(self, /, **_: Any) -> Receipt:
        raise StoreFull("no space left; free some")


def plain(text: str) -> str:
    return text


def test_a_call_is_recorded_as_a_decision_with_its_outcome_and_duration(alice: engram.AgentHandle) -> None:
    @alice.guard
    def deploy(target: str, force: bool = False) -> str:
        """Put a release on a machine.

        More about it.
        """
        return f"deployed to {target}"

    assert deploy("staging") == "deployed to staging"
    _, content = newest(alice)
    assert (content.chosen_action, content.decision_context) == (
        "deploy(target='staging')",
        "Put a release on a machine.",
    )
    assert content.outcome_quality == 1
    assert content.duration is not None
    assert deploy.__name__ == "deploy"


def test_an_error_is_recorded_with_its_traceback_and_raised_unchanged(alice: engram.AgentHandle) -> None:
    error = TimeoutError("npm timed out after 30 s")

    @alice.guard(context="ci", environment="linux", tool="npm", task_type="build", tags=["web"])
    def install() -> None:
        raise error

    with pytest.raises(TimeoutError) as caught:
        install()
    assert caught.value is error
    memory, content = newest(alice)
    assert content.outcome_quality == 0
    assert "Traceback" in content.error
    assert "npm timed out" in content.error
    assert (content.environment, content.tool, content.task_type) == ("linux", "npm", "build")
    assert memory.tags == ("web",)


def test_what_is_known_to_fail_is_not_done_and_the_error_says_what_worked(alice: engram.AgentHandle) -> None:
    fail(alice, "npm install", "ci", 4)
    for _ in range(4):
        alice.record_decision(context="ci", action="npm ci --prefer-offline", outcome="success")
    ran = []

    @alice.guard(action="npm install", context="ci")
    def install() -> None:
        ran.append(1)

    with pytest.raises(ActionBlocked) as caught:
        install()
    assert ran == []
    assert "failed 4 of 4 times" in str(caught.value)
    assert "npm ci --prefer-offline" in str(caught.value)
    assert caught.value.verdict.decision == "block"
    assert isinstance(caught.value, NotAllowed)
    assert (caught.value.exit_code, caught.value.code) == (4, "blocked")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.verdict) == (str(caught.value), caught.value.verdict)


def test_a_warning_goes_to_the_listener_and_the_action_goes_ahead(alice: engram.AgentHandle) -> None:
    fail(alice, "npm install", "ci", 1)
    heard: list[Verdict] = []

    @alice.guard(action="npm install", context="ci", on_warn=heard.append)
    def install() -> str:
        return "installed"

    assert install() == "installed"
    assert [verdict.decision for verdict in heard] == ["warn"]
    _, content = newest(alice)
    assert content.informed_by == (heard[0].id,)
    assert content.outcome_quality == 1


def test_without_a_listener_a_warning_is_logged(alice: engram.AgentHandle, caplog: pytest.LogCaptureFixture) -> None:
    fail(alice, "npm install", "ci", 1)
    with caplog.at_level(logging.WARNING, "engram"), alice.guarding(action="npm install", context="ci") as verdict:
        assert verdict.decision == "warn"
    assert "npm install: it failed 1 of 1 times in this context" in caplog.text


def test_a_block_is_guarded_like_a_call(alice: engram.AgentHandle) -> None:
    with alice.guarding(action="npm install", context="ci", environment="linux") as verdict:
        assert verdict.decision == "allow"
    assert newest(alice)[1].outcome_quality == 1
    with pytest.raises(OSError, match="disk"), alice.guarding(action="npm install", context="ci"):
        raise OSError("disk")
    assert newest(alice)[1].outcome_quality == 0


def test_the_same_for_coroutine_functions_and_async_with(alice: engram.AgentHandle) -> None:
    @alice.guard
    async def fetch(url: str) -> str:
        """Fetch a page."""
        await asyncio.sleep(0)
        if url == "bad":
            raise ConnectionError("refused")
        return url

    async def life() -> None:
        assert await fetch("good") == "good"
        assert newest(alice)[1].chosen_action == "fetch(url='good')"
        with pytest.raises(ConnectionError):
            await fetch(url="bad")
        assert newest(alice)[1].outcome_quality == 0
        fail(alice, "npm install", "ci", 4)
        with pytest.raises(ActionBlocked):
            async with alice.guarding(action="npm install", context="ci"):
                raise AssertionError("it must not run")

    asyncio.run(life())


def test_the_async_facade_guards_coroutine_functions(brain: engram.Engram) -> None:
    alice = engram.AsyncEngram(brain).agent("alice")

    @alice.guard
    async def fetch() -> str:
        return "page"

    @alice.guard(context="web")
    async def post() -> str:
        return "sent"

    async def life() -> None:
        assert (await fetch(), await post()) == ("page", "sent")
        async with alice.guarding(action="read", context="web") as verdict:
            assert verdict.decision == "allow"
        assert len(await alice.list(kinds="decision")) == 3

    asyncio.run(life())


def test_a_cancelled_call_teaches_nothing(alice: engram.AgentHandle) -> None:
    @alice.guard
    async def wait() -> None:
        await asyncio.sleep(60)

    async def life() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(life())
    assert alice.list(kinds="decision") == []


def test_what_was_stopped_by_an_inner_guard_is_no_failure_of_the_outer_one(alice: engram.AgentHandle) -> None:
    fail(alice, "npm install", "ci", 4)
    before = len(alice.list(kinds="decision"))
    with pytest.raises(ActionBlocked), alice.guarding(action="release", context="ci"):  # noqa: SIM117 - one in another
        with alice.guarding(action="npm install", context="ci"):
            pass
    assert len(alice.list(kinds="decision")) == before


def test_a_memory_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    @guard(Deaf(), plain)
    def add(a: int, b: int) -> int:
        return a + b

    with caplog.at_level(logging.WARNING, "engram"):
        assert add(1, 2) == 3
        with GuardedBlock(Deaf(), "add", "sums", {}) as verdict:
            assert verdict.decision == "allow"
    assert caplog.text.count("no space left") == 4


def test_a_closed_memory_breaks_nothing(alice: engram.AgentHandle, brain: engram.Engram) -> None:
    @alice.guard
    def work() -> str:
        return "done"

    brain.close()
    assert work() == "done"


def test_a_decision_that_is_rejected_is_logged(alice: engram.AgentHandle, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "engram"), alice.guarding(action="work", context=" "):
        pass
    assert "was not recorded" in caplog.text


def test_the_duration_is_what_the_clock_says(brain: engram.Engram) -> None:
    alice, ticks = brain.agent("alice"), iter([10.0, 12.5])

    @guard(alice, plain, clock=lambda: next(ticks))
    def work() -> None:
        """Do it."""

    work()
    assert newest(alice)[1].duration == 2.5


class Client:
    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def __repr__(self) -> str:
        if self.fails:
            raise ValueError("no name")
        return object.__repr__(self)

    def send(self, to: str) -> None: ...

    def __call__(self, to: str) -> None: ...


def positional(first: int, *rest: int, **named: int) -> None: ...


def crowded(**named: int) -> None: ...


def one(value: object) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (positional, (1, 2, 3), {"x": 4}, "positional(first=1, 2, 3, x=4)"),
        (Client.send, (Client(), "bob"), {}, "send(to='bob')"),
        (Client().send, ("bob",), {}, "send(to='bob')"),
        (Client(), ("bob",), {}, "Client(to='bob')"),
        (functools.partial(positional, 1), (2,), {}, "positional(2)"),
        (one, (Client(),), {}, "one(value=<test_guard.Client object>)"),
        (one, (Client(fails=True),), {}, "one(value=<Client>)"),
        (one, ({"b": [1, 2], "a": {3, 1}},), {}, "one(value={'a': {1, 3}, 'b': [1, 2]})"),
        (one, ("x" * 100,), {}, f"one(value='{'x' * 80}…')"),
        (crowded, (), {f"n{n}": n for n in range(13)}, f"crowded({', '.join(f'n{n}={n}' for n in range(12))}, …)"),
    ],
)
def test_the_action_is_the_call_in_words(
    brain: engram.Engram, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], expected: str
) -> None:
    alice = brain.agent("alice")
    alice.guard(function)(*args, **kwargs)
    assert newest(alice)[1].chosen_action == expected


def test_action_and_context_may_be_made_from_the_arguments(alice: engram.AgentHandle) -> None:
    @alice.guard(action=lambda command, **_: command, context=lambda command, folder: f"shell in {folder}")
    def shell(command: str, *, folder: str) -> None: ...

    shell("npm ci", folder="web")
    _, content = newest(alice)
    assert (content.chosen_action, content.decision_context) == ("npm ci", "shell in web")


def test_without_documentation_the_context_is_the_qualified_name(alice: engram.AgentHandle) -> None:
    @alice.guard
    def work() -> None: ...

    work()
    expected = "test_without_documentation_the_context_is_the_qualified_name.work"
    assert newest(alice)[1].decision_context == expected


def test_no_half_of_a_secret_is_left_when_a_value_is_cut(alice: engram.AgentHandle) -> None:
    url = "connect to the database for the nightly report, at postgres://report:hunter2hunter2@db.example/reports now"

    @alice.guard
    def connect(how: str) -> None: ...

    connect(url)
    assert "hunter2" not in newest(alice)[1].chosen_action


@given(st.text(max_size=200))
def test_any_value_can_be_named(value: str) -> None:
    seen: list[str] = []

    class Records(Deaf):
        def check(self, **asked: Any) -> Verdict:
            seen.append(asked["action"])
            return Verdict(decision="allow", action="a", confidence=0, reason="")

    guard(Records(), plain)(one)(value)
    assert seen[0].startswith("one(value=")
    assert len(seen[0]) <= 12 + 10 * 82


def test_a_wrong_call_fails_as_it_would_without_a_guard(alice: engram.AgentHandle) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        alice.guard(one)()  # type: ignore[call-arg]


def numbers() -> Generator[int]:
    yield 1


async def listens(verdict: Verdict) -> None: ...


def test_what_cannot_be_guarded_is_refused_at_once(alice: engram.AgentHandle) -> None:
    with pytest.raises(InvalidInput, match="guarding"):
        alice.guard(numbers)
    with pytest.raises(InvalidInput, match="on_warn"):
        alice.guard(on_warn=listens)
    with pytest.raises(InvalidInput, match="on_warn"):
        alice.guarding(action="a", context="c", on_warn="loud")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="enviroment"):
        alice.guard(enviroment="ci")  # type: ignore[call-overload]


def test_a_guard_learns_to_block_what_keeps_failing(alice: engram.AgentHandle) -> None:
    calls = []

    @alice.guard
    def flaky(target: str) -> None:
        calls.append(target)
        raise TimeoutError("npm timed out")

    for _ in range(6):
        with pytest.raises((TimeoutError, ActionBlocked)):
            flaky("staging")
    assert 2 <= len(calls) < 6
