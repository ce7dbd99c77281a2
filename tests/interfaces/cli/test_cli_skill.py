"""The commands about skills."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import Run, value

EXPLAIN = """name: explain
description: Explain something in three steps
triggers:
  phrases:
  - explain
  patterns:
  - what is (?P<topic>.+)
parameters:
  topic:
    required: true
  points:
    type: list
    default:
    - one
steps:
- prompt: Say what {{ topic }} is.
- name: example
  prompt: |-
    Show it:
    {% for point in points %}
    - {{ point }}
    {% endfor %}
- action: open {{ topic | quote }}
"""


@pytest.fixture(autouse=True)
def _file(tmp_path: Path) -> None:
    (tmp_path / "explain.yaml").write_text(EXPLAIN)


def test_a_skill_is_added_once_from_a_file_from_standard_input_or_as_text(run: Run) -> None:
    assert run("skill add explain.yaml --agent alice").stdout.startswith("Added explain, version 1 (")
    assert run("skill add - --agent alice", given=EXPLAIN).stdout.startswith("Unchanged: explain, version 1 (")
    changed = EXPLAIN.replace("three", "3")
    again = value(run("skill add --agent alice --json --text", changed))
    assert (again["new"], again["version"], again["description"]) == (True, 2, "Explain something in 3 steps")
    assert "Give a file" in run("skill add", code=2).stderr
    assert "Give a file" in run("skill add explain.yaml --text x", code=2).stderr


def test_what_is_no_skill_is_refused_and_no_database_is_made(run: Run, path: Path) -> None:
    assert "line 1: it has the tag" in run("skill add --text", "!!python/name:os.system", code=2).stderr
    assert "cannot be read" in run("skill add none.yaml", code=2).stderr
    assert "larger than" in run("skill add -", code=2, given="#" * 1_000_002).stderr
    bad = EXPLAIN.replace("{{ topic }}", "{{ topic.__class__ }}")
    assert (
        "skill explain, step 1, line 1 of the template: the attribute" in run("skill add -", code=2, given=bad).stderr
    )
    assert not path.exists()


def test_skills_are_listed_and_shown_as_they_can_be_added(run: Run) -> None:
    run("memory add hello --agent alice")
    assert run("skill list").stdout == "No skills yet.\n"
    run("skill add explain.yaml --agent alice")
    for outcome in ("success", "success", "failure"):
        run(f"memory record --agent alice --context 'explain asyncio' --action skill:explain@1 --outcome {outcome}")
    heading, row = run("skill list").stdout.splitlines()
    assert heading.split() == ["NAME", "VERSION", "USES", "SUCCESS", "AGENT", "DESCRIPTION"]
    assert row.split()[:6] == ["explain", "1", "3", "60%", "alice", "Explain"]
    assert value(run("skill list --json"))[0]["agent"] == "alice"
    shown = run("skill show explain").stdout
    assert shown.startswith("# version 1 of alice, added 20")
    assert shown.splitlines()[0].endswith("; 3 uses, 60% success rate")
    assert shown.split("\n", 1)[1] == EXPLAIN
    assert run("skill add - --agent alice", given=shown).stdout.startswith("Unchanged: ")
    assert value(run("skill show explain --json"))["steps"][2]["action"] == "open {{ topic | quote }}"


def test_versions_are_listed_and_stay_readable(run: Run) -> None:
    run("skill add explain.yaml --agent alice")
    run("skill add --agent alice --text", EXPLAIN.replace("three", "3"))
    heading, first, second = run("skill history explain").stdout.splitlines()
    assert heading.split()[:2] == ["VERSION", "ADDED"]
    assert (first.split()[0], second.split()[0]) == ("1", "2")
    assert [one["version"] for one in value(run("skill history explain --json"))] == [1, 2]
    assert "three steps" in run("skill show explain --version 1").stdout
    assert "3 steps" in run("skill show explain").stdout
    assert "engram skill history explain" in run("skill show explain --version 9", code=3).stderr


def test_the_skill_that_fits_is_found(run: Run) -> None:
    run("skill add explain.yaml --agent alice")
    lines = run("skill match 'please explain this'").stdout.splitlines()
    assert lines == ["  • explain (version 1 of alice), score 0.70", "    it says 'explain'"]
    lines = run("skill match 'what is a monad'").stdout.splitlines()
    assert lines[1:] == [
        "    it fits the pattern 'what is (?P<topic>.+)'",
        "    parameters in the request: topic=a monad",
    ]
    (found,) = value(run("skill match 'what is a monad' --json -n 1"))
    assert (found["agent"], found["parameters"]) == ("alice", {"topic": "a monad"})
    assert run("skill match 'zebra unicorn'").stdout == "No skill matches.\n"


def test_the_steps_are_printed_with_the_parameters(run: Run) -> None:
    run("skill add explain.yaml --agent alice")
    assert run("skill render explain --set 'topic=a=b c' --set points=x,y").stdout.splitlines() == [
        "1. Say what a=b c is.",
        "2. Show it:",
        "   - x",
        "   - y",
        "3. open 'a=b c'",
    ]
    steps = value(run("skill render explain --set topic=x --json"))
    assert [(step["name"], step["kind"]) for step in steps] == [("", "prompt"), ("example", "prompt"), ("", "action")]
    assert "needs topic" in run("skill render explain", code=2).stderr
    assert "not NAME=VALUE" in run("skill render explain --set topic", code=2).stderr
    assert "no parameter 'colour'" in run("skill render explain --set colour=red", code=2).stderr
    run("skill render other", code=3)


def test_a_skill_that_several_have_needs_a_name(run: Run) -> None:
    run("skill add explain.yaml --agent alice")
    run("skill add explain.yaml --agent bob")
    assert "alice, bob; choose with --agent" in run("skill show explain", code=2).stderr
    assert run("skill show explain --agent bob").stdout.startswith("# version 1 of bob")
    assert len(value(run("skill match 'explain it' --json"))) == 2


def test_a_success_pattern_becomes_a_skill(run: Run) -> None:
    for _ in range(6):
        run("memory record --agent alice --context 'flaky login test' --action 'retry with backoff' --outcome success")
        run("memory record --agent alice --context 'flaky login test' --action 'sleep longer' --outcome failure")
    known = value(run("learning patterns --type success --json"))
    assert known
    made = run(f"skill promote {known[0]['pattern_id']} --name flaky-login").stdout
    assert made.startswith("Made flaky-login, version 1 (")
    assert made.endswith("), with 1 step\n")
    assert run("skill render flaky-login").stdout == "1. retry with backoff\n"
    assert value(run(f"skill promote {known[0]['pattern_id']} --name flaky-login --json"))["version"] == 1
    assert "learning patterns --type success" in run("skill promote nothing", code=3).stderr


def test_without_a_database_there_are_no_skills(run: Run, path: Path) -> None:
    for line in ("list", "show x", "match x", "render x", "history x", "promote x"):
        assert "there is no database" in run(f"skill {line}", code=3).stderr
    assert not path.exists()
