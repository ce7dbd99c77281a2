"""The commands that carry out workflows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.command_line import Run, run_line, value

STEPS = """
import pathlib

def build(version):
    return {"file": f"shop-{version}.whl"}

def ship(file, batch):
    path = pathlib.Path("shipped")
    if not pathlib.Path("ready").exists():
        raise RuntimeError("the server is not ready")
    path.write_text(f"{file} {batch}")
"""

RELEASE = """
name: release
parameters: {version: null, batch: 10}
stages:
  - name: development
    steps:
      - {name: build, run: build, with: {version: "${parameters.version}"}}
  - name: rollout
    steps:
      - name: ship
        run: ship
        with: {file: "${steps.build.output.file}", batch: "${parameters.batch}"}
      - {name: how, decide: {context: how to tell, actions: [mail, post]}}
"""


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command of the group in a folder with a workflow, and asserts its exit code."""
    monkeypatch.setenv("ENGRAM_DB", str(path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "release.yaml").write_text(RELEASE, encoding="utf-8")
    (tmp_path / "shop.py").write_text(STEPS, encoding="utf-8")
    return lambda line, code=0: run_line(f"workflow {line}", code=code)


RUN = "run release.yaml --steps shop.py --set version=2.0 --agent alice --id r1 -q"


def test_a_run_says_how_each_step_went_and_how_to_go_on(run: Run, tmp_path: Path) -> None:
    lines = run(RUN, code=1).stdout.splitlines()
    assert lines[0] == "done     build"
    assert lines[1] == "failed   ship: RuntimeError: the server is not ready"
    assert lines[-2] == "Failed: step 'ship' failed: RuntimeError: the server is not ready"
    assert lines[-1] == "To continue: engram workflow resume r1"
    (tmp_path / "ready").touch()
    assert run("resume r1 --steps shop.py -q").stdout.splitlines() == [
        "done     ship",
        "done     how: mail (default)",
        "Done: all steps are done",
    ]
    assert (tmp_path / "shipped").read_text() == "shop-2.0.whl 10"


def test_status_and_list_show_where_runs_stand(run: Run) -> None:
    run(RUN, code=1)
    lines = run("status r1").stdout.splitlines()
    assert lines[0].startswith("Run r1 of release, started 20")
    assert lines[1].split() == ["STAGE", "STEP", "STATUS", "ATTEMPTS", "SECONDS", "DETAIL"]
    assert [line.split()[:4] for line in lines[2:5]] == [
        ["development", "build", "done", "1"],
        ["rollout", "ship", "failed", "1"],
        ["rollout", "how", "pending", "0"],
    ]
    told = value(run("status r1 --json"))
    assert told["status"] == "failed"
    assert told["steps"][1]["decisions"]
    assert told["steps"][1]["pattern"]
    assert run("list").stdout.splitlines()[1].split()[:6] == ["r1", "release", "failed", "1", "of", "3"]
    (one,) = value(run("list --json --workflow release"))
    assert (one["agent"], one["run"], one["done"]) == ("alice", "r1", 1)
    assert value(run("list --json --workflow other")) == []
    assert run("list --agent bob").stdout == "No runs yet.\n"


def test_json_is_all_that_is_printed(run: Run) -> None:
    assert value(run(RUN + " --json", code=1))["status"] == "failed"


def test_parameters_are_text_or_json_as_the_workflow_has_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ready").touch()
    run(RUN + " --set batch=3")
    assert (tmp_path / "shipped").read_text() == "shop-2.0.whl 3"
    for line, message in (
        ("--set batch=many", "must be JSON"),
        ("--set batch", "is not NAME=VALUE"),
        ("--set colour=red", "has no parameter 'colour'"),
    ):
        assert message in run(f"run release.yaml --steps shop.py --set version=2 {line}", code=2).stderr
    assert "needs the parameter 'version'" in run("run release.yaml --steps shop.py", code=2).stderr


def test_commands_need_permission(run: Run, tmp_path: Path) -> None:
    program = f'["{sys.executable}", "-c", "print(7)"]'
    text = f"name: w\nstages:\n  - {{name: s, steps: [{{name: a, command: {program}}}]}}\n"
    (tmp_path / "w.yaml").write_text(text, encoding="utf-8")
    assert "would run" in run("run w.yaml", code=4).stderr
    assert value(run("run w.yaml --allow-commands --json"))["steps"][0]["output"]["text"] == "7"


def test_validate_shows_the_order_or_what_is_wrong(run: Run, tmp_path: Path) -> None:
    assert run("validate release.yaml").stdout.splitlines() == [
        "release is valid: 2 stages, 3 steps",
        "development",
        "  build",
        "rollout",
        "  ship (after build)",
        "  how",
    ]
    assert value(run("validate release.yaml --json"))["stages"][1]["steps"][0] == {"name": "ship", "needs": ["build"]}
    (tmp_path / "bad.yaml").write_text(RELEASE.replace("run: ship", "runs: ship"), encoding="utf-8")
    assert "line 11: stages.1.steps.0" in run("validate bad.yaml", code=2).stderr
    run("validate gone.yaml", code=2)


def test_what_is_not_there_is_not_found(run: Run) -> None:
    run("list", code=3)
    run(RUN, code=1)
    assert "there is no run 'r2'" in run("status r2", code=3).stderr
    run("resume r2", code=3)
    assert "there is a run 'r1' already" in run(RUN, code=5).stderr
    assert "cannot be imported" in run("resume r1 --steps gone.py", code=2).stderr
    assert "which is not registered" in run("resume r1", code=2).stderr


def test_a_run_that_several_have_needs_its_agent(run: Run) -> None:
    run(RUN, code=1)
    run(RUN.replace("alice", "bob"), code=1)
    assert "several agents have run 'r1': alice, bob" in run("status r1", code=2).stderr
    run("status r1 --agent bob")


def test_a_run_is_a_task_that_suggestions_and_patterns_belong_to(run: Run, tmp_path: Path) -> None:
    run(RUN, code=1)
    assert value(run_line("learning suggest --task r1 --json"))["context"] == "release: ship"
    failed = value(run("status r1 --json"))["steps"][1]
    (tmp_path / "ready").touch()
    run("resume r1 --steps shop.py -q")
    applied = value(run_line(f"learning apply-pattern {failed['pattern']} --task r1 --agent alice --json"))
    assert (applied["task"], applied["action"]) == ("r1", "retry")
    own = value(run_line("memory list --session r1 --kind decision --json"))
    assert applied["decision"] in {memory["id"] for memory in own}
    assert set(failed["decisions"]) < {memory["id"] for memory in own}


def test_a_program_that_fails_shows_the_last_that_it_said(run: Run, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; sys.exit('no such table: prices')"]
    written = json.dumps({"name": "p", "stages": [{"name": "s", "steps": [{"name": "a", "command": program}]}]})
    (tmp_path / "program.yaml").write_text(written, encoding="utf-8")
    shown = run("run program.yaml -q --allow-commands", code=1).stdout
    assert f"{sys.executable}: exit code 1: no such table: prices" in shown
    refused = run("run program.yaml -q", code=4)
    assert "--allow-commands" in refused.stderr


def test_a_function_that_is_not_there_names_the_option_that_brings_it(run: Run) -> None:
    assert "--steps" in run("run release.yaml --set version=2.0 -q", code=2).stderr


def test_warnings_are_json_where_json_is_asked_for(run: Run) -> None:
    for _ in range(3):
        ended = run("run release.yaml --steps shop.py --set version=2.0 --json", code=1)
    notices = [json.loads(line)["notice"] for line in ended.stderr.splitlines()]
    assert any("nothing is known to work instead" in notice for notice in notices)


def test_functions_may_stand_in_any_python_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Part:\n    name: str\n\ndef build(version):\n    return Part(version).name\n",
        encoding="utf-8",
    )
    (tmp_path / "w.yaml").write_text(
        "{name: w, stages: [{name: s, steps: [{name: a, run: build, with: {version: x}}]}]}", encoding="utf-8"
    )
    assert value(run("run w.yaml --steps parts.py --json"))["steps"][0]["output"] == {"value": "x"}
    (tmp_path / "parts.py").rename(tmp_path / "json.py")
    assert value(run("run w.yaml --steps json.py --json"))["status"] == "done"
    assert sys.modules["json"] is json


def test_a_file_of_functions_that_fails_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("undefined_name\n", encoding="utf-8")
    told = run("run release.yaml --steps bad.py --set version=2", code=2).stderr
    assert "bad.py cannot be imported: NameError: name 'undefined_name' is not defined" in told
