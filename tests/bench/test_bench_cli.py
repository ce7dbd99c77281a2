from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_bench_data import LOCOMO, LONGMEMEVAL, SHARED

from engram.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("ENGRAM_DB", str(tmp_path / "mine.db"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["bench", *arguments])
        assert isinstance(result.exception, SystemExit | None), result.exc_info
        assert result.exit_code == code, result.output
        return result

    return run


def saved(folder: Path, value: Any, name: str = "data.json") -> str:
    (folder / name).write_bytes(gzip.compress(json.dumps(value).encode()))
    return name


def test_locomo_prints_what_was_asked_and_left_out(run: Run, tmp_path: Path) -> None:
    shown = run("locomo", "--data", saved(tmp_path, LOCOMO)).stdout
    assert "3 turns of 1 conversation" in shown
    assert "5: 4 answerable, 1 not" in shown
    assert "3 at turn level, 3 at session level" in shown
    assert "pieces of evidence that name no turn: 2" in shown
    assert "area under the curve" in shown
    assert "Turn level" in shown
    assert "Session level" in shown
    assert not (tmp_path / "mine.db").exists()


def test_longmemeval_says_so_when_one_store_is_all_there_is(run: Run, tmp_path: Path) -> None:
    data = saved(tmp_path, LONGMEMEVAL)
    assert "one store" not in run("longmemeval", "--data", data).output
    assert "LongMemEval, one store" in run("longmemeval", "--data", data, "--single-store").stdout
    implied = run("longmemeval", "--data", saved(tmp_path, SHARED))
    assert "searched in one store" in implied.stderr
    assert "4 turns of 1 conversation" in implied.stdout


def test_rankings_recompute_to_the_same_report(run: Run, tmp_path: Path) -> None:
    printed = run("locomo", "--data", saved(tmp_path, LOCOMO), "--out", "r.jsonl", "--compare", "--json")
    again = run("recompute", "r.jsonl", "--json")
    assert json.loads(again.stdout) == json.loads(printed.stdout)
    assert {row["system"] for row in json.loads(again.stdout)["results"]} >= {"engram", "BM25", "vectors"}
    written = (tmp_path / "r.jsonl").read_text(encoding="utf-8")
    assert "pear" not in written
    assert "kite" not in written
    assert "BM25" in run("recompute", "r.jsonl").stdout


def test_a_database_that_is_named_is_kept_and_used_again(run: Run, tmp_path: Path) -> None:
    data = saved(tmp_path, LOCOMO)
    first = run("locomo", "--data", data, "--db", "kept.db", "--json").stdout
    assert (tmp_path / "kept.db").exists()
    assert (
        json.loads(run("locomo", "--data", data, "--db", "kept.db", "--json").stdout)["results"]
        == json.loads(first)["results"]
    )
    refused = run("locomo", "--data", data, "--db", "kept.db", "--embedder", "hashing:32", code=2)
    assert "reembed" in refused.stderr


def test_a_limit_asks_fewer_questions(run: Run, tmp_path: Path) -> None:
    report = json.loads(run("locomo", "--data", saved(tmp_path, LOCOMO), "--limit", "2", "--json").stdout)
    assert report["questions"]["asked"] == 2


def test_files_that_are_wrong_or_missing_are_errors_that_say_what_is_expected(run: Run, tmp_path: Path) -> None:
    data = saved(tmp_path, LOCOMO)
    assert "engram bench locomo" in run("longmemeval", "--data", data, code=2).stderr
    assert "LoCoMo is a list of" in run("locomo", "--data", saved(tmp_path, {"a": 1}, "b.json"), code=2).stderr
    assert "there is no file" in run("locomo", "--data", "none.json", code=3).stderr
    assert "is not of a rankings file" in run("recompute", data, code=2).stderr
    assert run("locomo", code=2)


def test_hostile_names_do_not_act_on_the_terminal(run: Run, tmp_path: Path) -> None:
    hostile = [{**entry, "question_type": "\x1b[31mred"} for entry in LONGMEMEVAL]
    shown = run("longmemeval", "--data", saved(tmp_path, hostile), "--out", "r.jsonl").stdout
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown
    assert "\x1b" not in run("recompute", "r.jsonl").stdout


@pytest.mark.slow
def test_latency_reports_and_writes(run: Run, tmp_path: Path) -> None:
    shown = run("latency", "--sizes", "30,60", "--queries", "3", "--keep", "kept", "--out", "l.json").stdout
    assert "60 memories, 3 queries" in shown
    assert "Growth of p50 from 30 to 60 memories" in shown
    report = json.loads((tmp_path / "l.json").read_text(encoding="utf-8"))
    assert [line["memories"] for line in report["sizes"]] == [30, 60]
    assert (
        json.loads(run("latency", "--sizes", "30", "--queries", "3", "--keep", "kept", "--json").stdout)["queries"] == 3
    )


@pytest.mark.parametrize("sizes", ["", "a", "0", "10,,20", "-5"])
def test_sizes_are_numbers(run: Run, sizes: str) -> None:
    assert "not a list of numbers" in run("latency", f"--sizes={sizes}", code=2).output
