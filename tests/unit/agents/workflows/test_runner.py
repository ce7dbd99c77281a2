"""Workflows are carried out with memory, and go on where they stopped."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram.agents.workflows.runner import WorkflowEngine
from engram.agents.workflows.steps import StepContext
from engram.errors import Conflict, InvalidInput, NotAllowed, NotFound
from engram.model.workflow import StepResult
from engram.ports import Scope

Make = Callable[..., WorkflowEngine]


@pytest.fixture
def make(brain: engram.Engram) -> Make:
    def make(agent: str = "alice", **options: Any) -> WorkflowEngine:
        options = {"sleep": lambda seconds: None} | options
        return WorkflowEngine(brain.agent(agent), brain.store, brain.redactor, brain.sources, **options)

    return make


def steps(*written: str, head: str = "", stage: str = "s") -> str:
    """A workflow of one stage with these steps."""
    return f"name: w\n{head}stages:\n  - name: {stage}\n    steps:\n" + "".join(f"      - {one}\n" for one in written)


class Killed(BaseException):
    """What ends a process, as far as the engine can see."""


class Counting:
    """A function that counts its calls, and fails or is killed at those it was told."""

    def __init__(self, fails: int = 0, kills: int = 0, error: str = "connection refused by host") -> None:
        self.calls, self.fails, self.kills, self.error = 0, fails, kills, error

    def __call__(self) -> dict[str, int]:
        self.calls += 1
        if self.calls <= self.kills:
            raise Killed
        if self.calls <= self.fails:
            raise RuntimeError(self.error)
        return {"calls": self.calls}


def test_outputs_and_parameters_go_from_step_to_step(make: Make) -> None:
    written = steps(
        "{name: both, run: add, with: {a: '${steps.one.output.value}', b: '${parameters.b}'}}",
        "{name: one, run: one}",
        "{name: told, run: tell, with: {text: 'sum ${steps.both.output.value} of ${run.id}'}}",
        head="parameters: {b: 1}\n",
    )
    engine = make(steps={"one": lambda: 40, "add": lambda a, b: a + b, "tell": lambda text: {"said": text}})
    result = engine.run(written, {"b": 2}, id="r1")
    assert (result.status, result.run, result.parameters) == ("done", "r1", {"b": 2})
    assert [step.name for step in result.steps] == ["one", "both", "told"]
    assert result.step("told").output == {"said": "sum 42 of r1"}
    assert engine.status("r1") == result


def test_how_each_step_went_is_recorded_under_the_run(brain: engram.Engram, make: Make) -> None:
    head = "context: nightly\nenvironment: ci\ntask_type: release\ntags: [shop]\n"
    engine = make(steps={"f": Counting(), "g": Counting(fails=9)})
    result = engine.run(steps("{name: a, run: f}", "{name: b, run: g, action: ship it}", head=head))
    assert result.status == "failed"
    assert "connection refused" in result.reason
    alice = brain.agent("alice")
    kept = alice.list(session=result.run, kinds="decision")
    assert [memory.id for memory in reversed(kept)] == [*result.step("a").decisions, *result.step("b").decisions]
    content: Any = kept[0].content
    assert (content.decision_context, content.chosen_action) == ("nightly: b", "ship it")
    assert (content.outcome_quality, content.environment, content.task_type) == (0.0, "ci", "release")
    assert kept[0].tags == ("shop",)
    assert kept[0].metadata == {"run": result.run, "step": "b", "attempt": 1}
    pattern = alice.learning.failure(kept[0].id)
    assert pattern is not None
    assert result.step("b").pattern == pattern.pattern_id


def test_a_failed_run_is_resumed_at_the_step_that_failed(make: Make) -> None:
    f, g, h = Counting(), Counting(fails=1), Counting()
    engine = make(steps={"f": f, "g": g, "h": h})
    first = engine.run(steps("{name: a, run: f}", "{name: b, run: g}", "{name: c, run: h}"))
    assert [step.status for step in first.steps] == ["done", "failed", "pending"]
    second = make(steps={"f": f, "g": g, "h": h}).resume(first.run)
    assert second.status == "done"
    assert (f.calls, g.calls, h.calls) == (1, 2, 1)
    assert second.step("b").attempts == 2
    assert engine.resume(first.run) == second
    assert h.calls == 1


def test_an_interrupted_step_is_shown_and_repeated_only_when_that_is_said(make: Make) -> None:
    f, g = Counting(), Counting(kills=1)
    engine = make(steps={"f": f, "g": g})
    with pytest.raises(Killed):
        engine.run(steps("{name: a, run: f}", "{name: b, run: g}"), id="r")
    for told in (engine.status("r"), engine.resume("r")):
        assert told.status == "interrupted"
        assert told.step("b").status == "interrupted"
        assert "'b' was started and not ended" in told.reason
    assert engine.resume("r", again=True).status == "done"
    assert (f.calls, g.calls) == (1, 2)


def test_an_idempotent_step_is_repeated_by_itself(make: Make) -> None:
    g = Counting(kills=1)
    engine = make(steps={"g": g})
    with pytest.raises(Killed):
        engine.run(steps("{name: b, run: g, idempotent: true}"), id="r")
    assert engine.resume("r").step("b").output == {"calls": 2}


def test_what_ended_before_a_kill_is_recorded_once_when_the_run_goes_on(brain: engram.Engram, make: Make) -> None:
    g = Counting()
    alice = brain.agent("alice")

    class Dying:
        """The agent, until it is to remember something."""

        def __getattr__(self, name: str) -> Any:
            return getattr(alice, name)

        def record_decision(self, **fields: Any) -> Any:
            raise Killed

    dying: Any = Dying()
    engine = WorkflowEngine(dying, brain.store, brain.redactor, brain.sources, steps={"g": g})
    with pytest.raises(Killed):
        engine.run(steps("{name: a, run: g}"), id="r")
    assert alice.list(session="r") == []
    result = make(steps={"g": g}).resume("r")
    assert g.calls == 1
    assert len(alice.list(session="r")) == len(result.step("a").decisions) == 1


def test_a_step_is_tried_again_as_often_as_it_says_with_growing_pauses(make: Make) -> None:
    pauses: list[float] = []
    f = Counting(fails=3)
    engine = make(steps={"f": f}, sleep=pauses.append)
    result = engine.run(steps("{name: a, run: f, retry: {times: 3, wait: 1, most: 3}}"))
    assert (result.status, f.calls, pauses) == ("done", 4, [1, 2, 3])
    assert len(result.step("a").decisions) == 2, "the failures of one pass are one, and then it succeeded"


def test_what_trying_again_does_is_learned_and_stops_what_it_does_not_help(brain: engram.Engram, make: Make) -> None:
    written = steps("{name: a, run: f, retry: {times: 2}}")
    calls = []
    for _ in range(5):
        f = Counting(fails=99)
        result = make(steps={"f": f}).run(written, ignore_blocks=True)
        calls.append(f.calls)
    assert calls == [3, 3, 3, 1, 1]
    assert "not tried again, which helped 0 of 3 times" in result.reason
    (pattern,) = brain.agent("alice").learning.failures()
    (known,) = [one for one in pattern.known_solutions if one.text == "retry"]
    assert (known.tried, known.helped) == (3, 0)
    assert result.step("a").solutions == (), "what never helped solves nothing"
    assert make(steps={"f": lambda: None}).resume(result.run).status == "done"
    (pattern,) = brain.agent("alice").learning.failures()
    (known,) = [one for one in pattern.known_solutions if one.text == "retry"]
    assert (known.tried, known.helped) == (4, 1)


def test_known_solutions_are_shown_to_the_hook_and_to_the_step_and_their_effect_is_learned(
    brain: engram.Engram, make: Make
) -> None:
    alice = brain.agent("alice")
    error = "ConnectionError: connection to db01 refused"
    alice.learn_from_failure(error, "start the tunnel", action="f()")
    tunnel: list[str] = []
    seen: list[Any] = []

    def f(step: StepContext) -> None:
        seen.append((step.attempt, step.key, [one.text for one in step.solutions], step.applied))
        if not tunnel:
            raise ConnectionError("connection to db01 refused")

    def recover(step: StepContext) -> str | None:
        tunnel.append(step.error)
        return step.solutions[0].text if step.solutions else None

    result = make(steps={"f": f}, recover=recover).run(steps("{name: a, run: f, retry: {times: 1}}"), id="r")
    assert result.status == "done"
    assert seen == [(1, "r:a", [], ""), (2, "r:a", ["start the tunnel"], "start the tunnel")]
    assert "refused" in tunnel[0]
    (pattern,) = alice.learning.failures()
    (known,) = pattern.known_solutions
    assert (known.text, known.tried, known.helped) == ("start the tunnel", 2, 2)


def test_a_hook_that_fails_does_not_break_the_run(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def recover(step: StepContext) -> str | None:
        raise OSError("no tunnel")

    with caplog.at_level(logging.WARNING):
        result = make(steps={"f": Counting(fails=1)}, recover=recover).run(
            steps("{name: a, run: f, retry: {times: 1}}")
        )
    assert result.status == "done"
    assert "no tunnel" in caplog.text


def test_what_is_known_to_fail_is_not_begun(brain: engram.Engram, make: Make) -> None:
    f = Counting()
    alice = brain.agent("alice")
    for _ in range(4):
        alice.record_decision(context="w: a", action="f()", outcome="failure", error="OSError: disk full")
        alice.record_decision(context="w: a", action="g()", outcome="success")
    result = make(steps={"f": f}).run(steps("{name: a, run: f}"), id="r")
    assert (result.status, result.step("a").status, f.calls) == ("blocked", "blocked", 0)
    assert "what worked instead: g()" in result.reason
    assert make(steps={"f": f}).resume("r").status == "done", "who resumes it knows"
    assert f.calls == 1
    assert make().status("r").step("a").warning
    assert make(steps={"f": f}).run(steps("{name: a, run: f}"), ignore_blocks=True).status == "done"


def test_after_an_outage_a_workflow_recovers_by_itself(brain: engram.Engram, make: Make) -> None:
    written = steps("{name: a, run: f, retry: {times: 2}}")
    down = Counting(fails=99)
    assert make(steps={"f": down}).run(written).status == "failed"
    assert down.calls == 3
    (pattern,) = brain.agent("alice").learning.failures()
    assert pattern.occurrence_count == 1, "three attempts in a row fail for one reason"
    up = Counting()
    for _ in range(3):
        assert make(steps={"f": up}).run(written).status == "done"
    assert up.calls == 3


def test_after_a_long_outage_what_has_no_alternative_is_tried_with_a_warning(brain: engram.Engram, make: Make) -> None:
    written = steps("{name: a, run: f}")
    for _ in range(6):
        make(steps={"f": Counting(fails=99)}).run(written)
    verdict = brain.agent("alice").check(action="f()", context="w: a")
    assert verdict.decision == "block"
    result = make(steps={"f": Counting()}).run(written)
    assert result.status == "done"
    assert "nothing is known to work instead" in result.step("a").warning


def test_a_pass_that_fails_in_two_ways_is_two_failures(brain: engram.Engram, make: Make) -> None:
    errors = [ConnectionError("connection refused"), KeyError("the column price is not there")]

    def f() -> None:
        if errors:
            raise errors.pop(0)

    result = make(steps={"f": f}).run(steps("{name: a, run: f, retry: {times: 2}}"))
    assert (result.status, len(result.step("a").decisions)) == ("done", 3)
    assert len(brain.agent("alice").learning.failures()) == 2


def test_a_decision_of_which_all_actions_fail_takes_the_likeliest(brain: engram.Engram, make: Make) -> None:
    alice = brain.agent("alice")
    for _ in range(5):
        for action in ("canary", "at once"):
            alice.record_decision(context="how to roll out", action=action, outcome="failure", error="OSError: no room")
    functions = {name: Counting() for name in ("careful", "fast", "after")}
    assert make(steps=functions).run(steps(*DECIDE)).status == "done"


def test_the_check_that_a_failure_gives_rise_to_comes_before_its_stage(brain: engram.Engram, make: Make) -> None:
    written = steps("{name: a, run: f}", stage="migrate")
    for _ in range(3):
        make(steps={"f": Counting(fails=99)}).run(written)
    (check,) = brain.agent("alice").learning.checks()
    assert check.stage == "migrate"
    other = steps("{name: b, run: g}", stage="development")
    assert make(steps={"g": Counting()}).run(other).checks == ()


def test_a_check_stays_before_the_stage_that_somebody_said(brain: engram.Engram, make: Make) -> None:
    alice = brain.agent("alice")
    for _ in range(2):
        make(steps={"f": Counting(fails=99)}).run(steps("{name: a, run: f}", stage="migrate"))
    (pattern,) = alice.learning.failures()
    alice.learning.generate(pattern.pattern_id, stage="review")
    make(steps={"f": Counting(fails=99)}).run(steps("{name: a, run: f}", stage="migrate"))
    (check,) = alice.learning.checks()
    assert check.stage == "review"


DECIDE = (
    "{name: how, decide: {context: how to roll out, actions: [canary, at once], default: at once}}",
    "{name: careful, run: careful, when: {how: canary}}",
    "{name: fast, run: fast, when: {how: at once}}",
    "{name: after, run: after, needs: [careful, fast]}",
)


def test_what_was_learned_decides_and_the_default_does_before(brain: engram.Engram, make: Make) -> None:
    done: list[str] = []
    functions = {name: lambda name=name: done.append(name) for name in ("careful", "fast", "after")}
    first = make(steps=functions).run(steps(*DECIDE))
    assert first.step("how").output["how"] == "default"
    assert first.step("careful").status == "skipped"
    assert done == ["fast", "after"]
    alice = brain.agent("alice")
    for _ in range(5):
        alice.record_decision(context="how to roll out", action="canary", outcome="success")
        alice.record_decision(context="how to roll out", action="at once", outcome="failure")
    second = make(steps=functions).run(steps(*DECIDE))
    output = second.step("how").output
    assert (output["action"], output["how"]) == ("canary", "learned")
    assert done == ["fast", "after", "careful", "after"]
    (id,) = second.step("how").decisions
    decision = alice.get(id)
    assert decision is not None
    content: Any = decision.content
    assert (content.chosen_action, content.alternative_actions) == ("canary", ("at once",))
    assert content.informed_by
    assert [told.quality for told in alice.outcomes(id)] == [1.0]


def test_a_decision_is_blamed_for_the_steps_that_waited_for_it_until_they_succeed(
    brain: engram.Engram, make: Make
) -> None:
    fast = Counting(fails=1)
    engine = make(steps={"careful": Counting(), "fast": fast, "after": Counting()})
    first = engine.run(steps(*DECIDE))
    (id,) = first.step("how").decisions
    alice = brain.agent("alice")
    assert [told.quality for told in alice.outcomes(id)] == [0.0]
    second = engine.resume(first.run)
    assert second.status == "done"
    assert second.step("how").decisions == (id,)
    assert [told.quality for told in alice.outcomes(id)] == [0.0, 1.0]


def test_a_decision_passes_over_what_is_known_to_fail(brain: engram.Engram, make: Make) -> None:
    alice = brain.agent("alice")
    for _ in range(4):
        alice.record_decision(context="how to roll out", action="at once", outcome="failure", error="OSError: no room")
    functions = {name: Counting() for name in ("careful", "fast", "after")}
    result = make(steps=functions).run(steps(*DECIDE))
    assert result.step("how").output["action"] == "canary"
    assert functions["careful"].calls == 1


def test_a_run_goes_on_without_an_optional_step_and_what_needs_it(make: Make) -> None:
    engine = make(steps={"f": Counting(fails=9), "g": Counting()})
    result = engine.run(
        steps(
            "{name: a, run: f, optional: true}",
            "{name: b, run: g, needs: [a]}",
            "{name: c, run: g, needs: [b]}",
            "{name: d, run: g}",
        )
    )
    assert result.status == "done"
    assert [(step.name, step.status) for step in result.steps] == [
        ("a", "failed"),
        ("b", "skipped"),
        ("c", "skipped"),
        ("d", "done"),
    ]


def test_an_optional_step_that_is_killed_between_two_attempts_has_the_others_left(make: Make) -> None:
    def killed(seconds: float) -> None:
        raise Killed

    f = Counting(fails=1)
    written = steps("{name: a, run: f, optional: true, retry: {times: 1}}")
    with pytest.raises(Killed):
        make(steps={"f": f}, sleep=killed).run(written, id="r")
    assert make(steps={"f": f}).resume("r").step("a").status == "done"


def checked(brain: engram.Engram, exits: int) -> None:
    """A prevention check of the stage `development` whose command exits so."""
    alice = brain.agent("alice")
    pattern = None
    for _ in range(2):
        pattern = alice.learn_from_failure("npm ERR! network timeout", "verify npm cache", action="npm install")
    assert pattern is not None
    command = [sys.executable, "-c", f"raise SystemExit({exits})"]
    assert alice.learning.generate(pattern.pattern_id, stage="development", command=command)


@pytest.mark.process
def test_the_checks_of_a_stage_come_before_it(brain: engram.Engram, make: Make) -> None:
    checked(brain, 1)
    f = Counting()
    written = steps("{name: a, run: f}", stage="development")
    result = make(steps={"f": f}).run(written, id="r", allow_commands=True)
    assert (result.status, f.calls) == ("blocked", 0)
    (check,) = result.checks
    assert (check.stage, check.met, check.stops) == ("development", False, True)
    assert check.name in result.reason
    assert make(steps={"f": f}).resume("r", allow_commands=True, ignore_blocks=True).status == "done"
    other = steps("{name: a, run: f}", stage="testing")
    assert make(steps={"f": f}).run(other, allow_commands=True).checks == ()


@pytest.mark.process
def test_a_check_that_is_met_or_may_not_be_run_lets_the_stage_begin(brain: engram.Engram, make: Make) -> None:
    checked(brain, 0)
    written = steps("{name: a, run: f}", stage="development")
    met = make(steps={"f": Counting()}).run(written, allow_commands=True)
    assert (met.status, met.checks[0].met) == ("done", True)
    unknown = make(steps={"f": Counting()}).run(written)
    assert (unknown.status, unknown.checks[0].met) == ("done", None)
    assert "not allowed" in unknown.checks[0].reason


@pytest.mark.process
def test_commands_run_only_with_permission_and_without_a_shell(make: Make) -> None:
    program = "import sys, json; print(json.dumps({'got': sys.argv[1:]}))"
    written = steps(
        f'{{name: a, command: ["{sys.executable}", "-c", "{program}", "${{parameters.p}}", "; echo $HOME"]}}',
        "{name: b, run: f, with: {x: '${steps.a.output.json.got}'}}",
        head="parameters: {p: a b}\n",
    )
    got: list[Any] = []

    def f(x: list[str]) -> None:
        got.append(x)

    engine = make(steps={"f": f})
    with pytest.raises(NotAllowed, match="step 'a' would run"):
        engine.run(written)
    assert engine.runs() == []
    assert engine.run(written, allow_commands=True).status == "done"
    assert got == [["a b", "; echo $HOME"]]


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("import sys; sys.stderr.write('ValueError: no such target'); sys.exit(3)", "exit code 3"),
        ("import time; time.sleep(60)", "stopped after 0.5 seconds"),
    ],
)
def test_a_command_that_fails_or_takes_too_long_is_a_failure(make: Make, program: str, error: str) -> None:
    written = steps(f'{{name: a, command: ["{sys.executable}", "-c", "{program}"], seconds: 0.5}}')
    result = make().run(
        written.replace("seconds: 0.5", "seconds: 30") if "exit" in error else written, allow_commands=True
    )
    assert result.status == "failed"
    assert error in result.step("a").error


@pytest.mark.process
def test_a_program_that_is_not_there_is_a_failure(make: Make) -> None:
    result = make().run(steps("{name: a, command: [no-such-program-here]}"), allow_commands=True)
    assert "cannot be started" in result.step("a").error


def test_nothing_is_begun_if_a_function_is_missing_or_does_not_take_what_it_is_given(make: Make) -> None:
    async def later() -> None:
        pass

    engine = make(steps={"f": lambda x: x, "later": later})
    for written, message in (
        ("{name: a, run: g}", "runs 'g', which is not registered"),
        ("{name: a, run: f}", "cannot run 'f'"),
        ("{name: a, run: f, with: {y: 1}}", "cannot run 'f'"),
        ("{name: a, run: later}", "no plain function"),
    ):
        with pytest.raises(InvalidInput, match=message):
            engine.run(steps(written))
    assert engine.runs() == []


def test_installed_packages_bring_functions_too(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_steps.py").write_text("def ship():\n    return 'shipped'\n", encoding="utf-8")
    info = tmp_path / "shop_steps-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-steps\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[engram.steps]\nshop.ship = shop_steps:ship\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make().run(steps("{name: a, run: shop.ship}")).step("a").output == {"value": "shipped"}


@pytest.mark.parametrize(
    ("value", "message"),
    [(object(), "is not JSON"), (float("nan"), "is not JSON"), ("x" * 200_000, "characters"), ("a\0b", "NUL")],
)
def test_what_cannot_be_kept_is_a_failure_of_the_step(make: Make, value: Any, message: str) -> None:
    result = make(steps={"f": lambda: value}).run(steps("{name: a, run: f}"))
    assert result.status == "failed"
    assert message in result.step("a").error


def test_a_missing_output_fails_the_step_and_teaches_nothing(brain: engram.Engram, make: Make) -> None:
    engine = make(steps={"f": lambda: {"x": 1}, "g": lambda v: v})
    result = engine.run(steps("{name: a, run: f}", "{name: b, run: g, with: {v: '${steps.a.output.y}'}}"))
    assert result.status == "failed"
    assert "nothing is called 'y'" in result.reason
    assert result.step("b").decisions == ()
    assert brain.agent("alice").learning.failures() == []


SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


def test_secrets_are_neither_written_down_nor_handed_on(brain: engram.Engram, make: Make) -> None:
    got: list[str] = []

    def g(value: str) -> None:
        got.append(value)
        raise RuntimeError(f"bad token {SECRET}")

    engine = make(steps={"f": lambda: f"token {SECRET}", "g": g})
    result = engine.run(steps("{name: a, run: f}", "{name: b, run: g, with: {value: '${steps.a.output.value}'}}"))
    assert SECRET not in result.model_dump_json()
    assert SECRET not in got[0]
    store: Any = brain.store
    assert SECRET not in repr(store.events_after(Scope("alice"), 0, 1000))
    for written, told in (
        (steps(f"{{name: a, run: f, action: 'use {SECRET}'}}"), {}),
        (steps("{name: a, run: f}", head="parameters: {p: x}\n"), {"p": SECRET}),
    ):
        with pytest.raises(InvalidInput, match="must not hold a secret"):
            engine.run(written, told)


def test_an_id_is_given_once_and_runs_are_private(brain: engram.Engram, make: Make) -> None:
    written = steps("{name: a, run: f}")
    make(steps={"f": Counting()}).run(written, id="nightly")
    with pytest.raises(Conflict, match="there is a run 'nightly' already"):
        make(steps={"f": Counting()}).run(written, id="nightly")
    for ask in (make("bob").status, make("bob").resume):
        with pytest.raises(NotFound):
            ask("nightly")
    assert make("bob", steps={"f": Counting()}).run(written, id="nightly").status == "done"
    for wrong in ("", " ", "a b", "a:step:b:1", "x" * 101, SECRET):
        with pytest.raises(InvalidInput):
            make(steps={"f": Counting()}).run(written, id=wrong)


def test_two_that_carry_on_the_same_run_do_not_both_do_a_step(make: Make) -> None:
    inside, go = threading.Event(), threading.Event()
    calls: list[str] = []

    def slow() -> None:
        calls.append("slow")
        inside.set()
        assert go.wait(60)

    written = steps("{name: a, run: slow}", "{name: b, run: quick}")
    failures: list[BaseException] = []

    def first() -> None:
        try:
            make(steps={"slow": slow, "quick": lambda: calls.append("quick")}).run(written, id="r")
        except Conflict as error:
            failures.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)
    other = make(steps={"slow": lambda: calls.append("again"), "quick": lambda: calls.append("quick")})
    assert other.resume("r").status == "interrupted"
    assert other.resume("r", again=True).status == "done"
    go.set()
    thread.join()
    assert calls == ["slow", "again", "quick"]
    assert len(failures) == 1
    assert other.status("r").status == "done"


def test_runs_are_listed_newest_first(make: Make) -> None:
    engine = make(steps={"f": Counting(), "g": Counting(fails=1)})
    one = engine.run(steps("{name: a, run: f}"))
    two = engine.run(steps("{name: a, run: g}", "{name: b, run: f}").replace("name: w\n", "name: v\n"))
    assert [(run.run, run.status, run.done, run.steps) for run in engine.runs()] == [
        (two.run, "failed", 0, 2),
        (one.run, "done", 1, 1),
    ]
    assert [run.run for run in engine.runs(workflow="w")] == [one.run]
    assert [run.run for run in engine.runs(limit=1)] == [two.run]
    with pytest.raises(InvalidInput):
        engine.runs(limit=0)


def test_each_step_that_ends_is_told(make: Make) -> None:
    seen: list[StepResult] = []
    engine = make(steps={"f": Counting(), "g": Counting(fails=9)}, watch=seen.append)
    engine.run(steps("{name: a, run: f}", "{name: b, run: g, retry: {times: 1}}"))
    assert [(step.name, step.status, step.attempts) for step in seen] == [("a", "done", 1), ("b", "failed", 2)]


@settings(max_examples=25)
@given(st.data())
def test_whatever_is_interrupted_every_step_is_done_after_what_it_needs(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 6))
    needs = {n: data.draw(st.sets(st.integers(0, n - 1), max_size=2)) if n else set() for n in range(size)}
    dying = {n: data.draw(st.integers(0, 2)) for n in range(size)}
    failing = {n: data.draw(st.integers(0, 2)) for n in range(size)}
    done: list[int] = []

    def act(n: int) -> None:
        if dying[n]:
            dying[n] -= 1
            raise Killed
        if failing[n]:
            failing[n] -= 1
            raise RuntimeError("not yet")
        done.append(n)

    order = data.draw(st.permutations(range(size)))
    written = steps(
        *(f"{{name: n{n}, run: act, with: {{n: {n}}}, needs: {[f'n{m}' for m in needs[n]]}}}" for n in order)
    )
    with engram.open(":memory:") as brain:
        alice = brain.agent("alice")
        engine = WorkflowEngine(alice, brain.store, brain.redactor, brain.sources, steps={"act": act})
        expected = sum(failing.values()) + size
        for turn in range(60):
            try:
                again = engine.resume("r", again=True, ignore_blocks=True) if turn else engine.run(written, id="r")
            except Killed:
                continue
            if again.status == "done":
                break
        assert engine.status("r").status == "done"
        assert len(alice.list(session="r", limit=1000)) == expected
    assert sorted(done) == list(range(size))
    assert all(done.index(m) < done.index(n) for n in range(size) for m in needs[n])


def test_a_database_with_runs_is_sound_and_what_is_learned_can_be_folded_again(
    brain: engram.Engram, make: Make
) -> None:
    make(steps={"f": Counting(fails=1)}).run(steps("{name: a, run: f, retry: {times: 1}}"))
    assert brain.upkeep.database.check() == []
    before = brain.agent("alice").learning.failures()
    assert brain._parts.experience.anew(Scope("alice")) == 1
    assert brain.agent("alice").learning.failures() == before


def test_a_run_works_in_memory_too() -> None:
    with engram.open(":memory:") as brain:
        engine = WorkflowEngine(
            brain.agent("alice"), brain.store, brain.redactor, brain.sources, steps={"f": Counting(fails=1)}
        )
        first = engine.run(steps("{name: a, run: f}"))
        assert engine.resume(first.run).status == "done"


def side_by_side(*written: str, parallel: int = 3) -> str:
    return steps(*written).replace("    steps:", f"    parallel: {parallel}\n    steps:")


def when_ended(name: str, event: threading.Event) -> Callable[[StepResult], None]:
    """Hears of each step that ends, and tells of one of them."""

    def watch(step: StepResult) -> None:
        if step.name == name:
            event.set()

    return watch


def test_steps_that_wait_for_nothing_of_each_other_run_at_the_same_time(make: Make) -> None:
    meeting, threads = threading.Barrier(3, timeout=30), set[int]()

    def meet() -> None:
        meeting.wait()
        threads.add(threading.get_ident())

    after = list[str]()
    text = side_by_side(
        "{name: a, run: meet}",
        "{name: b, run: meet}",
        "{name: c, run: meet}",
        "{name: d, run: last, needs: [a, b, c]}",
    )
    watched = list[str]()
    engine = make(
        steps={"meet": meet, "last": lambda: after.append("last")}, watch=lambda step: watched.append(step.name)
    )
    result = engine.run(text)
    assert (result.status, after) == ("done", ["last"])
    assert len(threads) == 3
    assert threading.get_ident() not in threads
    assert [step.name for step in result.steps] == ["a", "b", "c", "d"]
    assert sorted(watched[:3]) == ["a", "b", "c"]
    assert all(step.decisions for step in result.steps)


def test_no_more_steps_run_at_the_same_time_than_may(make: Make) -> None:
    lock, now, most = threading.Lock(), list[str](), list[int]()

    def work(name: str) -> None:
        with lock:
            now.append(name)
            most.append(len(now))
        threading.Event().wait(0.05)
        with lock:
            now.remove(name)

    written = [f"{{name: s{n}, run: work, with: {{name: s{n}}}}}" for n in range(6)]
    assert make(steps={"work": work}).run(side_by_side(*written, parallel=2)).status == "done"
    assert max(most) <= 2
    most.clear()
    assert make(steps={"work": work}).run(steps(*written)).status == "done"
    assert max(most) == 1


def test_a_failure_stops_what_was_not_begun_and_the_rest_is_heard(make: Make) -> None:
    failed, begun = threading.Event(), list[str]()

    def fail() -> None:
        raise RuntimeError("no")

    def slow() -> dict[str, bool]:
        failed.wait(30)
        return {"heard": True}

    text = side_by_side(
        "{name: slow, run: slow}",
        "{name: bad, run: fail}",
        "{name: later, run: later, needs: [slow]}",
        parallel=2,
    )
    engine = make(
        steps={"fail": fail, "slow": slow, "later": lambda: begun.append("later")},
        watch=when_ended("bad", failed),
    )
    result = engine.run(text, id="r")
    assert (result.status, begun) == ("failed", [])
    assert "step 'bad' failed" in result.reason
    assert [step.status for step in result.steps] == ["done", "failed", "pending"]
    assert result.step("slow").output == {"heard": True}
    again = make(steps={"fail": lambda: None, "slow": slow, "later": lambda: begun.append("later")}).resume("r")
    assert (again.status, begun, again.step("slow").attempts) == ("done", ["later"], 1)


def test_a_step_that_would_be_tried_again_is_left_for_later_when_another_stops_the_run(make: Make) -> None:
    waits = list[float]()
    flaky, meeting = Counting(fails=1), threading.Barrier(2, timeout=30)

    stopped = threading.Event()

    def shaky() -> dict[str, int]:
        meeting.wait()
        stopped.wait(30)
        return flaky()

    def bad() -> None:
        meeting.wait()
        raise RuntimeError("no")

    text = side_by_side("{name: shaky, run: shaky, retry: {times: 3, wait: 5}}", "{name: bad, run: bad}", parallel=2)
    engine = make(steps={"shaky": shaky, "bad": bad}, sleep=waits.append, watch=when_ended("bad", stopped))
    result = engine.run(text, id="r")
    assert (result.step("bad").status, result.step("shaky").status, flaky.calls, waits) == ("failed", "failed", 1, [])
    assert make(steps={"shaky": flaky, "bad": lambda: None}).resume("r").status == "done"


def test_what_ends_the_process_in_a_thread_ends_the_run(make: Make) -> None:
    engine = make(steps={"work": Counting(kills=1), "other": lambda: None})
    text = side_by_side("{name: a, run: work}", "{name: b, run: other}")
    with pytest.raises(Killed):
        engine.run(text, id="r")
    assert engine.status("r").step("a").status == "interrupted"
    assert engine.resume("r", again=True).status == "done"


@settings(max_examples=15)
@given(st.data())
def test_the_same_steps_come_to_the_same_end_however_many_run_at_once(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 6))
    needs = [
        data.draw(st.sets(st.sampled_from([f"s{m}" for m in range(n)]) if n else st.nothing())) for n in range(count)
    ]
    fails = data.draw(st.sets(st.integers(0, count - 1), max_size=2))
    written = [
        f"{{name: s{n}, run: {'bad' if n in fails else 'good'}, optional: true, needs: {sorted(needs[n])}}}"
        for n in range(count)
    ]
    ends = []
    for parallel in (1, 4):
        with engram.open(":memory:", embedder="hashing") as brain:
            engine = WorkflowEngine(
                brain.agent("alice"),
                brain.store,
                brain.redactor,
                brain.sources,
                steps={"good": lambda: {"ok": True}, "bad": Counting(fails=100)},
            )
            result = engine.run(side_by_side(*written, parallel=parallel))
            ends.append([(step.name, step.status, step.output, step.reason, step.attempts) for step in result.steps])
    assert ends[0] == ends[1]


def test_a_function_that_takes_too_long_is_ignored_and_that_is_learned(make: Make, brain: engram.Engram) -> None:
    going_on = threading.Event()
    slow = Counting()

    def hang() -> dict[str, int]:
        if not slow.calls:
            slow()
            going_on.wait(60)
            return {"late": 1}
        return slow()

    text = steps("{name: a, run: hang, seconds: 2, retry: {times: 1}}")
    result = make(steps={"hang": hang}).run(text)
    going_on.set()
    assert (result.status, result.step("a").output, result.step("a").attempts) == ("done", {"calls": 2}, 2)
    (pattern,) = brain.agent("alice").learning.failures()
    assert pattern.kind == "TimeoutError"
    assert pattern.known_solutions[0].text == "retry"
    assert "took more than" in pattern.error_signature


def test_a_function_in_time_gives_what_it_gives(make: Make) -> None:
    text = steps("{name: a, run: work, seconds: 30}")
    assert make(steps={"work": Counting()}).run(text).step("a").output == {"calls": 1}
    assert "connection refused" in make(steps={"work": Counting(fails=9)}).run(text).reason
    with pytest.raises(Killed):
        make(steps={"work": Counting(kills=1)}).run(text)


def test_runs_of_one_workflow_are_found_however_many_of_others_came_after(make: Make) -> None:
    engine = make(steps={"f": Counting()})
    rare = engine.run(steps("{name: a, run: f}").replace("name: w\n", "name: rare\n"))
    for _ in range(12):
        engine.run(steps("{name: a, run: f}"))
    assert [run.run for run in engine.runs(limit=1, workflow="rare")] == [rare.run]
    assert [run.run for run in engine.runs(limit=2, workflow="rare")] == [rare.run]
    assert len(engine.runs(limit=5, workflow="w")) == 5
    assert engine.runs(limit=1, workflow="none") == []


@pytest.mark.parametrize(("code", "status"), [(None, "done"), (0, "done"), (2, "failed"), ("no disk", "failed")])
@pytest.mark.parametrize("more", ["", ", seconds: 30"])
def test_a_function_that_ends_like_a_program_ends_only_its_step(
    make: Make, code: int | str | None, status: str, more: str
) -> None:
    def main() -> None:
        sys.exit(code)

    result = make(steps={"main": main}).run(steps(f"{{name: a, run: main{more}}}"))
    assert (result.status, result.step("a").status) == (status, status)
    assert ("SystemExit" in result.step("a").error) == (status == "failed")
