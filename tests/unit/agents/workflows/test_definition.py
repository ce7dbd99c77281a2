"""What a workflow may say, and what is said about one that cannot be carried out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from engram.agents.workflows.definition import (
    dependents,
    execution_order,
    fill,
    fill_text,
    read,
    required_steps,
    resolve_parameters,
)
from engram.errors import InvalidInput
from engram.model.workflow import Retry

RELEASE = """
name: release
description: Ship a version of the shop.
environment: staging
parameters:
  version: null
  batch: 10
stages:
  - name: development
    steps:
      - name: test
        command: [pytest, -q]
        seconds: 60
      - name: build
        run: shop.build
        needs: [test]
        with: {version: "${parameters.version}"}
  - name: rollout
    steps:
      - name: ship
        run: shop.ship
        with: {file: "${steps.build.output.file}"}
        when: {strategy: [canary]}
        retry: {times: 2, wait: 1}
      - name: strategy
        decide:
          context: how to roll out ${parameters.version}
          actions: [canary, all at once]
          default: canary
"""


def steps(*written: str, head: str = "") -> str:
    """A workflow of one stage with these steps."""
    return f"name: w\n{head}stages:\n  - name: s\n    steps:\n" + "".join(f"      - {step}\n" for step in written)


def test_a_workflow_is_read_with_its_steps_in_the_order_they_are_carried_out(tmp_path: Path) -> None:
    file = tmp_path / "release.yaml"
    file.write_text(RELEASE, encoding="utf-8")
    workflow = read(file)
    assert workflow == read(RELEASE)
    order = [(stage.name, [step.name for step in steps]) for stage, steps in execution_order(workflow)]
    assert order == [("development", ["test", "build"]), ("rollout", ["strategy", "ship"])]


def test_what_a_step_needs_is_what_it_names_waits_for_and_uses() -> None:
    workflow = read(RELEASE)
    assert {step.name: required_steps(step) for step in workflow.steps} == {
        "test": set(),
        "build": {"test"},
        "ship": {"build", "strategy"},
        "strategy": set(),
    }
    assert dependents(workflow, "test") == {"build", "ship"}


def test_a_workflow_survives_being_written_down() -> None:
    workflow = read(RELEASE)
    kept = workflow.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert read(kept) == workflow


def test_stages_come_as_written_unless_they_say_what_they_need() -> None:
    stage = "  - {name: %s, %ssteps: [{name: %s1, run: f}]}\n"
    written = "name: w\nstages:\n" + stage % ("a", "needs: [b], ", "a") + stage % ("b", "needs: [], ", "b")
    assert [stage.name for stage, _ in execution_order(read(written))] == ["b", "a"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (steps("{name: a, run: f, needs: [b]}", "{name: b, run: f, needs: [a]}"), "wait for each other: a → b → a"),
        (steps("{name: a, run: f, needs: [a]}"), "wait for each other: a → a"),
        (steps("{name: a, run: f, needs: [gone]}"), "step 'a' of stage 's' needs the step 'gone', which is not there"),
        (steps("{name: a, run: f}", "{name: a, run: g}"), "there are two steps called 'a'"),
        (steps("{name: a, run: f, when: {b: x}}", "{name: b, run: f}"), "which decides nothing"),
        (
            steps("{name: a, run: f, when: {b: y}}", "{name: b, decide: {context: c, actions: [x]}}"),
            "waits for 'b' to be 'y', which is none of its actions",
        ),
        (steps("{name: a, run: f, with: {x: '${steps.b.output.y}'}}"), "there is no step 'b'"),
        (steps("{name: a, run: f, with: {x: ['${parameters.b}']}}"), "there is no parameter 'b'"),
        (steps("{name: a, run: f, with: {x: '${os.environ}'}}"), "which is no reference"),
        (steps("{name: a, run: f, with: {x: '${steps.a}'}}"), "which is no reference"),
        (steps("{name: a}"), "exactly one of run, command and decide"),
        (steps("{name: a, run: f, command: [ls]}"), "exactly one of run, command and decide"),
        (steps("{name: a, decide: {context: c, actions: [x]}, seconds: 3}"), "a decision has no time limit"),
        ("name: w\nstages:\n  - {name: s, parallel: 0, steps: [{name: a, run: f}]}\n", "stages.0.parallel"),
        (steps("{name: a, command: [ls], with: {x: 1}}"), "only a function is given values"),
        (steps("{name: a, command: ls}"), "line 5: stages.0.steps.0.command"),
        (steps("{name: a, command: ['${parameters.p}']}", head="parameters: {p: ls}\n"), "names a program as it is"),
        (steps("{name: a, run: f, retry: {times: '3'}}"), "line 5: stages.0.steps.0.retry.times"),
        (steps("{name: a, run: f, retry: {times: true}}"), "line 5: stages.0.steps.0.retry.times"),
        (steps("{name: a, run: f, retry: {times: -1}}"), "line 5: stages.0.steps.0.retry.times"),
        (steps("{name: a, run: f, idempotent: 1}"), "line 5: stages.0.steps.0.idempotent"),
        (steps("{name: a, run: f, retries: 3}"), "line 5: stages.0.steps.0.retries"),
        (steps("{name: 'a b', run: f}"), "line 5: stages.0.steps.0.name"),
        (steps("{name: a, decide: {context: c, actions: []}}"), "line 5: stages.0.steps.0.decide.actions"),
        (steps("{name: a, decide: {context: c, actions: [x], default: y}}"), "none of the actions"),
        (steps("{name: a, decide: {context: c, actions: [x, x]}}"), "stands there twice"),
        ("name: w\nstages: []\n", "line 2: stages"),
        ("name: w\n", "stages"),
        ("- name: w\n", "does not fit"),
        ("name: [w\n", "is not YAML"),
        ("name: w\nstages:\n  - {name: a, needs: [z], steps: [{name: b, run: f}]}\n", "needs the stage 'z'"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_its_place(written: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(written)
    assert message in str(refused.value)


def test_a_step_cannot_need_one_of_a_later_stage() -> None:
    stage = "  - {name: %s, steps: [{name: %s, run: f%s}]}\n"
    with pytest.raises(InvalidInput, match="of a stage that comes later"):
        read("name: w\nstages:\n" + stage % ("s", "a", ", needs: [b]") + stage % ("t", "b", ""))


def test_references_are_replaced_and_nothing_is_evaluated() -> None:
    known: dict[str, JsonValue] = {"steps": {"a": {"output": {"n": 3, "l": ["x", {"y": None}]}}}, "run": {"id": "r1"}}
    assert fill("${steps.a.output.n}", known) == 3
    assert fill({"k": ["${steps.a.output.l}"]}, known) == {"k": [["x", {"y": None}]]}
    assert fill("${steps.a.output.l.0}-${run.id}", known) == "x-r1"
    assert fill_text("${steps.a.output.l.1} and $${run.id} and $ {x}", known) == '{"y": null} and ${run.id} and $ {x}'
    for wrong in ("${steps.a.output.z}", "${steps.a.output.l.2}", "${steps.a.output.n.real}", "${run.id.__class__}"):
        with pytest.raises(InvalidInput, match="is not there"):
            fill(wrong, known)


@given(st.lists(st.text(alphabet="$abc. ", max_size=5) | st.sampled_from(["${a}", "${}", "${steps.x}"]), max_size=8))
def test_what_is_escaped_is_text(parts: list[str]) -> None:
    text = "".join(parts)
    assert fill_text(text.replace("${", "$${"), {}) == text


def test_parameters_are_those_given_or_those_written() -> None:
    workflow = read(RELEASE)
    assert resolve_parameters(workflow, {"version": "2.0"}) == {"version": "2.0", "batch": 10}
    refused: list[tuple[dict[str, JsonValue], str]] = [
        ({}, "needs the parameter 'version'"),
        ({"version": "2", "x": 1}, "has no parameter 'x'"),
        ({"version": "2", "batch": "ten"}, "is a number, not a text"),
    ]
    for wrong, message in refused:
        with pytest.raises(InvalidInput, match=message):
            resolve_parameters(workflow, wrong)


def test_the_pause_grows_up_to_its_limit() -> None:
    retry = Retry(times=5, wait=2, factor=3, most=10)
    assert [retry.pause(n) for n in (1, 2, 3, 100)] == [2, 6, 10, 10]
    assert Retry(times=100, factor=10).pause(100) == 0
