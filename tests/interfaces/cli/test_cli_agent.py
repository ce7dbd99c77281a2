"""The commands about agents and their cycles."""

from __future__ import annotations

from pathlib import Path

import pytest

import engram
from engram.agents.cycles import Life
from support.command_line import Run, value


@pytest.fixture
def lived(path: Path) -> None:
    """Alice built, failed to test, and was killed while she deployed."""
    with engram.open(path) as brain:
        life = Life(brain.agent("alice"), brain.store, brain.redactor, brain.sources)
        life.result(life.propose(tool="build", reasoning="it changed"), output={"warnings": 2}, artifacts=["app.whl"])
        life.result(life.propose(tool="test"), error="two \x1b[31mfailed")
        life.propose(tool="deploy", arguments={"to": "staging"})


def test_an_agent_is_created_changed_and_shown(run: Run) -> None:
    line = "agent create alice --description 'keeps the trains running' --directive 'be brief' --config model=small"
    assert run(line).stdout == "Created alice (version 1)\n"
    assert run(line).stdout == "Unchanged: alice (version 1)\n"
    assert run(line + " --config temperature=0.2").stdout == "Changed alice (version 2)\n"
    lines = run("agent show alice").stdout.splitlines()
    assert lines[0].split() == ["name", "alice"]
    assert lines[1].split() == ["version", "2"]
    assert lines[4:] == ["  • be brief", '  model = "small"', "  temperature = 0.2", "0 cycles, 0 without a result"]
    shown = value(run("agent show alice --json"))
    assert shown["definition"]["config"] == {"model": "small", "temperature": 0.2}
    assert [agent["version"] for agent in value(run("agent show alice --history --json"))] == [1, 2]
    assert run("agent show alice --history").stdout.count("name") == 2
    assert value(run(line + " --json"))[0]["changed"] is True


def test_agents_are_created_from_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    for name in ("alice", "bob"):
        (tmp_path / "agents" / f"{name}.yaml").write_text("directives: [be kind]\n", encoding="utf-8")
    assert run("agent create --file agents").stdout == "Created alice (version 1)\nCreated bob (version 1)\n"
    assert run("agent create --file agents/bob.yaml").stdout == "Unchanged: bob (version 1)\n"
    (tmp_path / "agents" / "bob.yaml").write_text("directive: [be kind]\n", encoding="utf-8")
    assert "line 1: directive" in run("agent create --file agents", code=2).stderr
    run("agent create --file nowhere", code=3)
    table = run("agent list").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["NAME", "alice", "bob"]
    assert "agent create --file agents" in run("agent create agents").stderr


@pytest.mark.parametrize(
    "line",
    ["agent create", "agent create --directive x", "agent create alice --file a.yaml", "agent create a --config x"],
)
def test_half_a_definition_is_a_usage_error(run: Run, line: str) -> None:
    run(line, code=2)


@pytest.mark.parametrize("name", ["everyone", "group:team"])
def test_a_name_that_means_others_is_refused_and_nobody_is_kept_from_reading(run: Run, name: str) -> None:
    run("memory add 'A bus was late' --agent alice")
    assert "in grants this means others" in run(f"agent create {name}", code=2).stderr
    assert len(value(run("memory list --json"))) == 1


@pytest.mark.usefixtures("lived")
def test_agents_are_listed_with_their_cycles(run: Run) -> None:
    run("agent create bob --description 'helps alice'")
    table = [line.split() for line in run("agent list").stdout.splitlines()]
    assert table[1:] == [["alice", "-", "3", "1", "-"], ["bob", "1", "0", "0", "helps", "alice"]]
    assert [each["cycles"] for each in value(run("agent list --json"))] == [3, 0]
    assert run("agent show alice").stdout == "alice has no definition.\n3 cycles, 1 without a result\n"


@pytest.mark.usefixtures("lived")
def test_cycles_are_listed_newest_first_and_shown_whole(run: Run) -> None:
    table = [line.split() for line in run("agent cycles alice").stdout.splitlines()]
    assert [(row[0], row[1], row[-1]) for row in table[1:]] == [
        ("3", "interrupted", "deploy(to=staging)"),
        ("2", "failed", "test()"),
        ("1", "done", "build()"),
    ]
    assert [each["index"] for each in value(run("agent cycles alice -n 1 --before 3 --json"))] == [2]
    whole = run("agent cycles alice 1").stdout.splitlines()
    assert whole[-1] == '{"warnings": 2}'
    assert whole[0].split() == ["cycle", "1", "of", "alice"]
    assert "\\x1b[31m" in run("agent cycles alice 2").stdout
    assert value(run("agent cycles alice 2 --json"))["status"] == "failed"
    run("agent cycles alice 9", code=3)
    run("agent cycles carol", code=3)


@pytest.mark.usefixtures("lived")
def test_an_interrupted_cycle_is_shown_and_retried_only_when_told(run: Run) -> None:
    lines = run("agent resume alice").stdout.splitlines()
    assert lines[0] == "alice continues with cycle 4"
    assert lines[1].startswith("  Last complete: cycle 2, failed ")
    assert lines[2].startswith("  Without a result: cycle 3, begun ")
    assert lines[2].endswith(": deploy(to=staging)")
    state = value(run("agent resume alice --json"))
    assert (state["interrupted"]["tool"], state["next_index"]) == ("deploy", 4)
    assert run("agent resume alice --retry 3").stdout == "Cycle 3 is retried as cycle 4: deploy(to=staging)\n"
    run("agent resume alice --retry 3", code=5)
    assert run("agent resume alice --abandon 4 --reason 'wrong target'").stdout == "Abandoned cycle 4\n"
    table = run("agent cycles alice").stdout
    assert "retried as 4" in table
    assert "abandoned" in table
    assert len(run("agent resume alice").stdout.splitlines()) == 2
    assert value(run("agent resume alice --abandon 4 --reason 'wrong target' --json"))["status"] == "abandoned"


@pytest.mark.usefixtures("lived")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--retry 3 --abandon 3", 2),
        ("--reason x", 2),
        ("--retry 3 --reason x", 2),
        ("--retry 0", 2),
        ("--retry 9", 3),
        ("--abandon 1", 5),
    ],
)
def test_what_cannot_be_resolved_says_so(run: Run, line: str, code: int) -> None:
    run(f"agent resume alice {line}", code=code)


def test_without_a_database_there_is_nothing_to_show(run: Run) -> None:
    for line in ("list", "show alice", "cycles alice", "resume alice"):
        run(f"agent {line}", code=3)


def test_an_agent_without_cycles_goes_on_with_the_first(run: Run) -> None:
    run("memory add hello --agent alice")
    assert run("agent resume alice").stdout == "alice continues with cycle 1\n"
    assert run("agent cycles alice").stdout == "alice has no cycles.\n"


@pytest.mark.usefixtures("lived")
def test_cycles_are_forgotten_and_found_by_workspace(run: Run, path: Path) -> None:
    assert run("agent forget alice 1 2").stdout == "Forgot 2 cycles of alice\n"
    assert [each["index"] for each in value(run("agent cycles alice --json"))] == [3]
    run("agent forget alice 1", code=3)
    run("agent forget alice 3", code=5)
    run("agent forget bob 3", code=3)
    run("agent forget alice", code=2)
    assert run("agent cycles alice --workspace site").stdout == "alice has no cycles.\n"
    with engram.open(path) as brain:
        brain.agent("alice").life.propose(tool="write", workspace="site")
    assert [each["index"] for each in value(run("agent cycles alice --workspace site --json"))] == [4]
    run("agent resume alice --abandon 3")
    assert value(run("agent forget alice 3 --json"))[0]["removed"] == {"events": 2}
