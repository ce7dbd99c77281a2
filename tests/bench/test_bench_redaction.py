"""The benchmark of redaction: what it makes is labelled rightly, and what it reports can be counted again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from engram.cli import main
from engram.errors import InvalidInput, NotFound
from engram.privacy import SecretRedactor
from engram_bench import redaction, sensitive
from engram_bench.redaction import read_clean, read_spans, run
from engram_bench.sensitive import CONTEXTS, PROVIDERS, Label, Sample

ROWS: list[dict[str, Any]] = [
    {"text": "My name is Ann", "spans": [{"type": "PERSON", "start": 11, "end": 14}]},
    {"text": "write to ann@acme.io", "spans": [{"type": "EMAIL_ADDRESS", "start": 9, "end": 20}], "template": 3},
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "SOURCE_LINES", 500)


def saved(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_there_are_fifty_formats_in_six_contexts() -> None:
    assert len(PROVIDERS) >= 50
    assert list(CONTEXTS) == ["chat", "env", "json", "code", "log", "curl"]
    made = list(sensitive.secrets(1, 1))
    providers = [sample for sample in made if sample.labels[0].type.startswith("provider:")]
    assert len(providers) == len(PROVIDERS) * len(CONTEXTS)


def test_the_same_seed_makes_the_same_texts() -> None:
    for make in (sensitive.secrets, sensitive.personal, sensitive.look_alikes):
        assert list(make(3, 1)) == list(make(3, 1))
        assert list(make(3, 1)) != list(make(4, 1))


def test_a_label_says_where_its_value_is() -> None:
    for sample in [*sensitive.secrets(5, 1), *sensitive.personal(5, 1)]:
        (label,) = sample.labels
        assert 0 <= label.start < label.end <= len(sample.text)


def test_the_goals_are_met_on_secrets_and_look_alikes() -> None:
    report, _ = run(rounds=1)
    assert report["secrets"]["provider formats"]["recall"] >= 0.98
    assert report["secrets"]["known by place"]["recall"] >= 0.85
    assert report["personal"]["generated"]["all"]["recall"] >= 0.87
    assert report["clean"]["all"]["secrets"] <= 0.001
    assert report["clean"]["all"]["personal"] < 0.005


def test_what_is_missed_and_what_is_falsely_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def secrets(seed: int, rounds: int) -> list[Sample]:
        return [Sample("the quiet word", (Label(4, 9, "place:word"),), "place")]

    monkeypatch.setattr(redaction, "secrets", secrets)
    labelled = [Sample("nobody", (), "x"), Sample("see me@acme.io", (), "x")]
    report, wrong = run(labelled, [Sample("ask me@acme.io", (), "mine")], rounds=1)
    assert report["secrets"]["known by place"]["recall"] == 0.0
    assert report["personal"]["data"]["all"]["false_alarms"] == 0.5
    assert report["clean"]["mine"]["personal"] == 1.0
    assert [(each["what"], each["text"]) for each in wrong if "quiet" in each["text"] or "acme" in each["text"]] == [
        ("missed", "the quiet word"),
        ("false alarm", "see me@acme.io"),
        ("false alarm", "ask me@acme.io"),
    ]


def test_detect_secrets_is_asked_about_every_text() -> None:
    pytest.importorskip("detect_secrets")
    key = PROVIDERS["github"](Random(2))
    find = redaction.detect_secrets()
    assert find is not None
    nothing, found = find(["good morning\nsecond line", f'x = "{key}"\n'])
    assert nothing == []
    assert key in found


def test_without_detect_secrets_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "detect_secrets", lambda: None)
    report, _ = run(rounds=1)
    assert report["secrets"]["provider formats"]["detect-secrets"] is None
    assert "not installed" in report["skipped"][0]


def test_labelled_files_are_read_packed_or_not(tmp_path: Path) -> None:
    plain = saved(tmp_path / "a.jsonl", ROWS)
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [s.labels for s in read_spans(plain)] == [s.labels for s in read_spans(packed)]
    assert read_spans(plain)[1].labels == (Label(9, 20, "personal:email"),)


@pytest.mark.parametrize("text", ["", "\n", "[]", '{"spans": []}', '{"text": 1}'])
def test_another_file_is_refused_clearly(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(InvalidInput, match="a line is"):
        read_spans(tmp_path / "a.jsonl")
    with pytest.raises(NotFound):
        read_spans(tmp_path / "b.jsonl")


def test_clean_texts_come_from_many_kinds_of_file(tmp_path: Path) -> None:
    assert [s.text for s in read_clean(saved(tmp_path / "a.jsonl", ROWS))] == [row["text"] for row in ROWS]
    (tmp_path / "b.txt").write_text("one\n\ntwo\n")
    assert [s.text for s in read_clean(tmp_path / "b.txt")] == ["one", "two"]
    (tmp_path / "c.json").write_text('{"a": 1}')
    with pytest.raises(InvalidInput, match="neither LoCoMo nor LongMemEval"):
        read_clean(tmp_path / "c.json")
    (tmp_path / "d.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_clean(tmp_path / "d.txt")


def test_the_command_prints_tables_and_writes_what_went_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(redaction, "ROUNDS", 1)
    saved(tmp_path / "data.jsonl", ROWS)
    (tmp_path / "clean.txt").write_text("nothing to see\n")
    arguments = ["bench", "redaction", "--data", "data.jsonl", "--clean", "clean.txt", "--out", "out.jsonl"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    for said in ("provider formats", "known by place", "personal:email", "clean.txt", "texts a second"):
        assert said in result.stdout
    report, *wrong = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert report["personal"]["data"]["all"]["recall"] == 1.0
    assert all(each["what"] in ("missed", "beside", "false alarm") for each in wrong)


def test_no_value_of_a_look_alike_changes() -> None:
    texts = [sample.text for sample in sensitive.look_alikes(9, 5)]
    changed = [c.text for c, text in zip(SecretRedactor().clean(texts), texts, strict=True) if c.text != text]
    assert len(changed) <= 0.001 * len(texts), changed
