from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import engram
from engram.cli import main
from engram.errors import StoreFull
from engram.stores.sql.memories import Memories


def add(path: Path, *options: str, lines: str | bytes, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["--db", str(path), "memory", "add", "--jsonl", "-", *options], input=lines)
    assert isinstance(result.exception, SystemExit | None), result.exc_info
    assert result.exit_code == code, result.output
    return result


def texts(path: Path, agent: str = "default") -> list[str]:
    with engram.open(path) as brain:
        return [memory.text for memory in reversed(brain.agent(agent).list(limit=5000))]


def test_lines_are_objects_or_strings_and_blank_ones_are_passed_over(path: Path) -> None:
    lines = '\ufeff"one"\n\n{"text": "two", "tags": ["t"], "kind": "plan"}\r\n  \n"three\\u2028same line"'
    assert add(path, lines=lines).stdout == "Stored 3, merged 0, rejected 0.\n"
    assert texts(path) == ["one", "two", "three\u2028same line"]


def test_options_hold_for_lines_that_do_not_say_otherwise(path: Path) -> None:
    add(
        path,
        "--agent",
        "carl",
        "--kind",
        "plan",
        "--tag",
        "d",
        lines='"a"\n{"text": "b", "kind": "message", "tags": []}',
    )
    with engram.open(path) as brain:
        b, a = brain.agent("carl").list()
    assert (a.kind, a.tags, b.kind, b.tags) == ("plan", ("d",), "message", ())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "it is not JSON"),
        ('{"text": "x", "importance": NaN}', "NaN is not JSON"),
        ('{"text": "x", "metadata": {"n": 1e999}}', "finite"),
        ('{"text": "x", "colour": "red"}', "unknown field 'colour'"),
        ('{"text": "x", "self": 1}', "unknown field 'self'"),
        ('{"kind": "plan"}', "no field 'text'"),
        ('{"text": "x", "kind": "weird"}', "kind"),
        ('{"text": 1}', "text"),
        ('{"text": "  "}', "the text is empty"),
        ('{"text": "a\\u0000b"}', "NUL"),
        ('{"text": "a\\ud800b"}', "surrogate"),
        ("[1]", "a JSON object or a string"),
        ("null", "a JSON object or a string"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_stored(path: Path, line: str, reason: str) -> None:
    result = add(path, lines=f'"first"\n{line}\n"last"\n', code=1)
    assert result.stdout == "Stored 2, merged 0, rejected 1.\n"
    assert "Error: line 2: " in result.stderr
    assert reason in result.stderr
    assert "the other lines are stored" in result.stderr
    assert texts(path) == ["first", "last"]


def test_bytes_that_are_not_utf_8_are_a_bad_line(path: Path) -> None:
    assert "line 1: it is not UTF-8" in add(path, lines=b'"\xff"\n"ok"', code=1).stderr


def test_json_counts_and_lists_the_rejections_in_order(path: Path) -> None:
    result = add(path, "--json", lines='{"text": ""}\n"ok"\n[]\n', code=1)
    tally = json.loads(result.stdout)
    assert (tally["stored"], tally["merged"], tally["rejected"]) == (1, 0, 2)
    assert [rejection["line"] for rejection in tally["rejections"]] == [1, 3]
    said = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line.get("line") for line in said] == [1, 3, None]


def test_keys_make_running_it_again_harmless(path: Path) -> None:
    lines = "".join(json.dumps({"text": f"memory {n}", "key": f"k{n}"}) + "\n" for n in range(1203))
    assert add(path, lines=lines).stdout == "Stored 1,203, merged 0, rejected 0.\n"
    add(path, lines=lines)
    assert texts(path) == [f"memory {n}" for n in range(1203)]


def test_what_is_stored_before_a_failure_stays_and_the_message_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = Memories.add, []

    def full_at_the_second(self: Memories, *arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) > 1:
            raise StoreFull("the disk is full; free some space")
        return whole(self, *arguments)

    monkeypatch.setattr(Memories, "add", full_at_the_second)
    result = add(path, lines='"x"\n' * 700, code=1)
    assert "500 lines are stored; lines with a `key` are not stored twice" in result.stderr
    assert "Error: the disk is full" in result.stderr
    assert len(texts(path)) == 500


def test_a_file_is_read_as_standard_input_is(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text('"one"\n"two"', encoding="utf-8")
    result = CliRunner().invoke(main, ["--db", str(path), "memory", "add", "--jsonl", str(file)])
    assert (result.exit_code, result.stdout) == (0, "Stored 2, merged 0, rejected 0.\n")
