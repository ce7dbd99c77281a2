from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import engram as library
from engram.cli import main
from engram.cli.formatting import (
    escaped,
    format_age,
    format_size,
    json_safe,
    mask_password,
    one_line,
    plural,
    truncated,
)
from engram.clock import EPOCH, from_micros

Run = Callable[..., Result]


@pytest.fixture
def db(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ENGRAM_DB", str(path))
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def run(db: Path) -> Run:
    """Runs a command line in this process and asserts its exit code."""

    def run(line: str, *more: str, code: int = 0, input: str | bytes | None = None) -> Result:
        arguments = [*shlex.split(line.removeprefix("engram ")), *more]
        result = CliRunner().invoke(main, arguments, input=input)
        assert isinstance(result.exception, SystemExit | None), result.exc_info
        assert result.exit_code == code, result.output
        return result

    return run


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "engram", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


def stored(result: Result) -> str:
    word, id = result.stdout.split()[:2]
    assert word == "Stored"
    return id


def value(result: Result) -> Any:
    return json.loads(result.stdout)


def told(content: dict[str, Any]) -> dict[str, Any]:
    """The details that somebody gave."""
    return {name: given for name, given in content.items() if given not in ("", [], None) and name != "lent"}


# Seed 001


def test_seed_001_learns_from_an_authentication_failure(run: Run) -> None:
    run(
        "engram memory record --agent alice --type decision "
        '--context "api-auth-timeout" --action "increase-timeout" --outcome failure'
    )
    run(
        "engram memory record --agent alice --type decision "
        '--context "api-auth-timeout" --action "retry-with-exponential-backoff" --outcome success'
    )
    assert run('engram learning suggest --context "api-auth-timeout"').stdout == (
        "Based on past experience:\n"
        "  • retry-with-exponential-backoff (67% success rate, 1 attempt)\n"
        "  • increase-timeout (33% success rate, 1 attempt)\n"
        "  Recommended: retry-with-exponential-backoff\n"
    )


def test_seed_001_lists_searches_and_retrieves(run: Run) -> None:
    id = stored(
        run(
            'engram memory record --agent alice --type decision --context "auth-failure" '
            '--action "retry-with-backoff" --outcome success'
        )
    )
    assert id in run("engram memory list --agent alice").stdout
    assert run('engram memory search "authentication failure"').stdout.startswith("Found 1 memory from alice:\n  • ")
    assert id in run('engram memory retrieve --agent alice --context "auth-failure"').stdout


# The global options


def test_db_json_and_quiet_are_taken_before_and_after_the_command(run: Run, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    run("memory add here")
    for line in (f"--db {other} memory add there", f"memory --db {other} add there", f"memory add there --db {other}"):
        run(line)
    assert [memory["text"] for memory in value(run("memory list --json"))] == ["here"]
    assert len(value(run(f"--json memory list --db {other}"))) == 3
    assert len(value(run(f"memory --json list --quiet --db {other}"))) == 3


def test_help_and_version_are_everywhere() -> None:
    for line in (["-h"], ["memory", "-h"], ["memory", "add", "-h"], ["doctor", "--help"]):
        result = CliRunner().invoke(main, line)
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: engram")
    assert CliRunner().invoke(main, ["--version"]).stdout == f"engram {library.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["memory", "--help"], ["memory", "add", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    heavy = {"pydantic", "sqlalchemy", "numpy", "onnxruntime", "rich", "alembic", "platformdirs", "engram.engine"}
    script = "import sys; from engram.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: ")
    assert heavy & set(done.stderr.split()) == set()


# Adding


def test_add_says_stored_merged_and_redacted(run: Run) -> None:
    id = stored(run("memory add 'Staging runs PostgreSQL 15' --kind knowledge --tag db"))
    merged = run("memory add 'Staging runs PostgreSQL 15' --kind knowledge")
    assert merged.stdout == f"Merged with {id} (evidence 2)\n"
    secret = run("memory add", f"the key is sk-ant-api03-{'a' * 93}AA")
    assert secret.stdout.endswith("\nRedacted: anthropic-key\n")


def test_add_takes_every_field(run: Run) -> None:
    id = stored(
        run(
            "memory add hello --agent carl --kind message --tag a --tag b --at 2026-01-31T10:00+01:00 "
            "--session s --role user --speaker Dana --importance 0.9 --context greeting",
            "--metadata",
            '{"n": 1}',
        )
    )
    memory = value(run(f"memory show {id} --json"))
    assert memory["agent"] == "carl"
    assert memory["kind"] == "message"
    assert memory["tags"] == ["a", "b"]
    assert memory["happened_at"] == "2026-01-31T09:00:00Z"
    assert memory["importance"] == 0.9
    assert memory["context"] == "greeting"
    assert memory["metadata"] == {"n": 1}
    said = memory["provenance"]
    assert (said["session"], said["role"], said["speaker"]) == ("s", "user", "Dana")


def test_add_reads_standard_input_as_one_text(run: Run) -> None:
    run("memory add -", input="first\nsecond\n")
    assert value(run("memory list --json"))[0]["text"] == "first\nsecond"
    assert "UTF-8" in run("memory add -", input=b"\xff\xfe", code=2).stderr


def test_a_rejected_text_exits_with_1_and_a_taken_key_with_5(run: Run) -> None:
    assert "the text is empty" in run("memory add", "", code=1).stderr
    id = stored(run("memory add one --key k"))
    assert run("memory add one --key k").stdout == f"Stored {id} (already stored under this key)\n"
    refused = run("memory add two --key k --json", code=5)
    assert value(refused)["status"] == "rejected"
    assert json.loads(refused.stderr)["code"] == "conflict"


@pytest.mark.parametrize("line", [
    "memory add",
    "memory add x --jsonl -",
    "memory add --jsonl - --key k",
    "memory add --jsonl nowhere.jsonl",
    "memory add x --kind weird",
    "memory add x --importance nan",
    "memory add x --importance 1.5",
    "memory add x --at yesterday",
    "memory add x --at 99999999999w",
    "memory add x --metadata [1]",
    "memory add x --metadata '{\"a\": NaN}'",
    "memory add x --metadata {",
    "memory list --since soon",
    "memory list --limit 0",
    "memory search",
    "memory annotate x",
    "memory annotate x --tag a --no-tags",
    "memory forget",
    "memory record --action a --outcome success --text t",
    "memory record --context c --outcome success",
    "memory record --context c --action a --outcome great",
    "memory record --type failure",
    "memory record --type failure --error e --alternative a",
    "memory record --type failure --error e --solution-helped no",
    "memory record --type failure --error e --solution s --solution-helped rather",
    "memory record --type failure --environment ci",
    "learning suggest",
    "nonsense",
    "memory nonsense",
    "",
])  # fmt: skip
def test_what_is_not_understood_exits_with_2(run: Run, db: Path, line: str) -> None:
    failed = run(line, code=2)
    assert failed.stdout == ""
    assert failed.stderr
    if line.startswith("memory add"):
        assert not db.exists()


def test_usage_errors_are_json_when_json_is_asked_for(run: Run) -> None:
    failed = run("memory list --nonsense --json", code=2)
    assert failed.stdout == ""
    assert json.loads(failed.stderr)["code"] == "usage"


# Recording


def test_a_decision_takes_alternatives_and_a_number_as_outcome(run: Run) -> None:
    id = stored(
        run(
            "memory record --context c --action a --outcome 0.7 --alternative b --alternative c2 --tag t "
            "--session s --at 7d --key k"
        )
    )
    memory = value(run(f"memory show {id} --json"))
    assert memory["agent"] == "default"
    assert told(memory["content"]) == {
        "kind": "decision",
        "decision_context": "c",
        "chosen_action": "a",
        "outcome_quality": 0.7,
        "alternative_actions": ["b", "c2"],
    }


@pytest.mark.parametrize(("line", "content", "text"), [
    ("failure --error e --root-cause r --solution s --prevention p",
     {"error_signature": "e", "root_cause": "r", "solution_applied": "s", "prevention_strategy": "p"}, "e; r; s; p"),
    ("success --context c --approach a --factor f --factor g --step s",
     {"context_signature": "c", "successful_approach": "a", "key_factors": ["f", "g"], "replication_steps": ["s"]},
     "a; f, g; s"),
    ("collaboration --partner bob --interaction review --outcome merged --lesson 'ask early' --text 'with bob'",
     {"partner_agents": ["bob"], "interaction_type": "review", "outcome": "merged", "lessons_learned": ["ask early"]},
     "with bob"),
    ("knowledge --text fact --domain d --knowledge-type k --expertise e --related r",
     {"domain": "d", "knowledge_type": "k", "expertise_level": "e", "related_entities": ["r"]}, "fact"),
    ("procedure --step one --step two", {"steps": ["one", "two"]}, "one, two"),
    ("result --outcome failure --error boom --artifact log.txt",
     {"ok": False, "error": "boom", "artifacts": ["log.txt"]}, "boom; log.txt"),
    ("reflection --text hm", {}, "hm"),
])  # fmt: skip
def test_each_type_of_experience_has_its_details(run: Run, line: str, content: dict[str, Any], text: str) -> None:
    id = stored(run(f"memory record --type {line}"))
    memory = value(run(f"memory show {id} --json"))
    assert memory["text"] == text
    assert told(memory["content"]) == {"kind": line.split(maxsplit=1)[0], **content}


# Reading


def test_reading_does_not_create_a_database(run: Run, db: Path) -> None:
    for line in ("memory list", "memory search x", "memory retrieve --context x", "memory show x", "memory forget x",
                 "memory annotate x --no-tags", "learning suggest --context x", "db info", "db check",
                 "db backup b.db", "upkeep reembed", "upkeep rebuild"):  # fmt: skip
        failed = run(line, code=3)
        assert failed.stderr == f"Error: there is no database at {db} yet; `engram memory add` creates it\n"
        assert not db.exists()
    run("model list")
    run("config show")
    assert not db.exists()


def test_without_an_agent_all_agents_are_read_and_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("memory add 'the cat sat' --agent alice --at 3d")
    run("memory add 'a cat ran' --agent bob --at 2d")
    run("memory add 'my cat' --at 1d")
    assert [m["agent"] for m in value(run("memory list --json"))] == ["default", "bob", "alice"]
    assert [m["agent"] for m in value(run("memory list --json --limit 2"))] == ["default", "bob"]
    assert {h["memory"]["agent"] for h in value(run("memory search cat --json"))} == {"alice", "bob", "default"}
    assert [m["agent"] for m in value(run("memory list --json --agent bob"))] == ["bob"]
    monkeypatch.setenv("ENGRAM_AGENT", "alice")
    assert [m["agent"] for m in value(run("memory list --json"))] == ["alice"]
    assert "Stored" in run("memory add mine").stdout
    assert [m["text"] for m in value(run("memory list --json"))] == ["mine", "the cat sat"]


def test_list_filters_by_kind_tag_time_and_session(run: Run) -> None:
    run("memory add old --kind knowledge --tag a --at 2020-01-01")
    run("memory add new --tag a --tag b --session s --at 1h")
    run("memory add plan --kind plan --at 1h")

    def texts(line: str) -> set[str]:
        return {memory["text"] for memory in value(run(f"memory list --json {line}"))}

    assert texts("--kind knowledge --kind plan") == {"old", "plan"}
    assert texts("--tag a") == {"old", "new"}
    assert texts("--tag a --tag b") == {"new"}
    assert texts("--session s") == {"new"}
    assert texts("--since 2d") == {"new", "plan"}
    assert texts("--until 2021-01-01") == {"old"}
    assert texts("--as-of 2020-06-01") == {"old"}
    assert run("memory list --tag nothing").stdout == "No memories.\n"


def test_search_takes_its_options(run: Run) -> None:
    run("memory add 'red apple pie' --session s")
    run("memory add 'red apple tree' --session s")
    run("memory add 'nothing alike'")
    assert run("memory search 'red apple' -n 2").stdout.startswith("Found 2 memories from default:\n  • red apple")
    assert len(value(run("memory search 'red apple' --json --group-by session --min-score 0.3"))) == 1
    assert len(value(run("memory search 'red apple' --json --budget-tokens 4"))) == 1
    assert run("memory search zebra --min-score 1").stdout == "Found no memories.\n"
    assert run("memory search zebra --min-score 1 --json").stdout == "[]\n"


def test_explain_prints_how_each_hit_was_found_and_what_its_score_is_made_of(run: Run) -> None:
    run("memory add 'red apple pie' --session s --speaker Ann --tag fruit --importance 0.9")
    run("memory add 'a car' --session s --speaker Bob --tag fruit")
    plain = run("memory search 'red apple' --tag fruit -n 1").stdout
    lines = run("memory search 'red apple' --tag fruit -n 1 --explain --min-score 0.01 --since 2d").stdout.splitlines()
    head, limits, text, facts, found, parts = lines
    assert [head, text, facts] == plain.splitlines()
    assert limits.startswith("  only tag fruit, since 20")
    assert limits.endswith(", valid now, min score 0.01")
    assert found.startswith("    found by both, similarity 0.")
    names, sizes = zip(*(part.rsplit(" ", 1) for part in parts.strip().split(", ")), strict=True)
    assert {"similar", "words near", "importance"} <= set(names)
    assert not {"found by", "similarity", "passage"} & set(names)
    assert list(map(abs, map(float, sizes))) == sorted(map(abs, map(float, sizes)), reverse=True)
    assert all(size[0] in "+-" for size in sizes)


def test_explain_says_what_limited_a_search_that_found_nothing(run: Run) -> None:
    run("memory add 'red apple pie'")
    assert run("memory search apple --kind plan --as-of 2020-01-01 --session s --explain").stdout == (
        "Found no memories.\n  only kind plan, as of 2020-01-01 00:00:00Z, session s\n"
    )


def test_explain_names_the_passage_of_a_long_text(run: Run) -> None:
    long = " ".join(f"Line {n} is about the weather in the mountains." for n in range(200))
    run(f"memory add '{long} Marmots whistle.'")
    assert ", passage " in run("memory search 'Marmots whistle' --explain").stdout


def test_explain_says_that_a_decision_is_of_the_same_context(run: Run) -> None:
    run("memory record --context deploy-freeze --action wait --outcome success")
    said = run("memory retrieve --context deploy-freeze --explain").stdout
    assert "\n  only valid now\n" in said
    assert "\n    found by same context\n" in said


def test_the_token_budget_holds_for_all_agents_together(run: Run) -> None:
    for agent in ("alice", "bob"):
        run(f"memory add 'red apple pie' --agent {agent}")
    assert len(value(run("memory search apple --json --budget-tokens 4"))) == 1


def test_retrieve_puts_the_decisions_of_the_context_first(run: Run) -> None:
    run("memory record --agent alice --context deploy-freeze --action wait --outcome success --at 2d")
    run("memory record --agent bob --context deploy-freeze --action push --outcome failure --at 1d")
    run("memory add 'the deploy freeze ends on Monday' --agent bob")
    found = value(run("memory retrieve --context deploy-freeze --json"))
    assert [hit["memory"]["agent"] for hit in found] == ["bob", "alice", "bob"]
    assert [hit["why"]["found_by"] for hit in found[:2]] == ["same context"] * 2
    assert len({hit["id"] for hit in found}) == 3
    assert len(value(run("memory retrieve --context deploy-freeze --json --limit 1"))) == 1


def test_suggest_pools_agents_narrows_and_abstains(run: Run) -> None:
    run("memory record --agent alice --context c --action a --outcome success")
    assert run("learning suggest --context c").stdout == (
        "Based on past experience:\n"
        "  • a (67% success rate, 1 attempt)\n"
        "  No recommendation: too little evidence: only 1 attempt in this situation\n"
    )
    run("memory record --agent bob --context c --action a --outcome success")
    pooled = run("learning suggest --context c -v").stdout
    assert re.search(r"^  • a \(7\d% success rate, 2 attempts, 95% interval \d+–99%\)$", pooled, re.MULTILINE)
    assert "\n  Recommended: a\n" in pooled
    assert value(run("learning suggest --context c --agent bob --json"))["abstained"]
    assert "• b (50% success rate, 0 attempts)" in run("learning suggest --context c --action a --action b").stdout
    assert "Recommended: " in run("learning suggest --context c --explore --action a --action b").stdout
    assert run("learning suggest --context other").stdout == "No experience with this context yet.\n"


def test_show_prints_every_field_and_the_whole_text(run: Run) -> None:
    long = "word " * 500 + "end"
    id = stored(run("memory add", long, "--agent", "alice"))
    shown = run(f"memory show {id}").stdout
    assert shown.endswith(f"\n\n{long}\n")
    for name in ("id", "agent", "kind", "tags", "importance", "happened_at", "author", "origin", "version"):
        assert f"\n{name} " in "\n" + shown
    assert run(f"memory show {id} --agent bob", code=3).stdout == ""
    assert json.loads(run("memory show nothing --json", code=3).stderr)["code"] == "not_found"


def test_text_is_whole_and_harmless_when_printed_for_a_pipe(run: Run) -> None:
    nasty = "\x1b[31mred\x1b[0m [red]markup[/red]\nsecond \u202eline\x9b" + "x" * 300
    id = stored(run("memory add", nasty, "--agent", "a\x1b[1mb", "--tag", "[bold]\x07"))
    for line in ("memory list", "memory search red", f"memory show {id}"):
        out = run(line).stdout
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\x9b" not in out
        assert "[red]markup[/red]" in out
        assert "x" * 300 in out
        assert r"\x1b[31mred" in out
    assert "\\nsecond" in run("memory list").stdout
    exact = run("memory list --json")
    assert value(exact)[0]["text"] == nasty
    assert "\x9b" not in exact.stdout


# Changing and forgetting


def test_annotate_changes_what_surrounds_a_memory(run: Run) -> None:
    id = stored(run("memory add x --tag old --agent alice"))
    assert (
        run(f"memory annotate {id} --tag new --importance 1 --confidence 0.5").stdout == f"Changed {id} (version 2)\n"
    )
    changed = value(run(f"memory annotate {id} --valid-until 2099-01-01 --json"))
    assert (changed["tags"], changed["importance"], changed["confidence"]) == (["new"], 1.0, 0.5)
    assert changed["valid_until"].startswith("2099")
    assert value(run(f"memory annotate {id} --no-tags --expect-version 3 --json"))["tags"] == []
    assert "version" in run(f"memory annotate {id} --no-tags --expect-version 3", code=5).stderr
    run(f"memory annotate {id} --no-tags --agent bob", code=3)


def test_forget_is_all_or_nothing_and_says_what_went(run: Run) -> None:
    one, two = (stored(run(f"memory add text --agent {name}")) for name in ("alice", "bob"))
    assert "nothing-here" in run(f"memory forget {one} nothing-here", code=3).stderr
    assert len(value(run("memory list --json"))) == 2
    assert run(f"memory forget {one}").stdout == f"Forgot {one} (memories 1, vectors 1, words 1)\n"
    assert value(run(f"memory forget {two} --yes --json"))[0]["forgotten"]
    run(f"memory forget {one}", code=3)
    assert run("memory list").stdout == "No memories.\n"


# Models, upkeep, settings


def test_models_are_listed_and_verified(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("memory add x")
    listed = value(run("model list --json"))
    assert listed["in_use"] == "hashing-256@1"
    assert {model["name"] for model in listed["models"]} >= {"arctic-embed-s", "minilm"}
    assert sum(model["default"] for model in listed["models"]) == 1
    table = run("model list").stdout
    assert table.startswith("NAME ")
    assert table.endswith("This database uses hashing-256@1.\n")
    damaged = tmp_path / "models" / "minilm"
    damaged.mkdir(parents=True)
    (damaged / "model.onnx").write_bytes(b"not a model")
    monkeypatch.setattr("engram.embed.models.default_folders", lambda: [tmp_path / "nothing"])
    monkeypatch.setattr("engram.wiring.default_folders", lambda: [tmp_path / "nothing"])
    assert "no model is installed" in run("model verify", code=1).stderr
    monkeypatch.setenv("ENGRAM_MODELS", str(tmp_path / "models"))
    assert "damaged" in run("model list").stdout
    assert json.loads(run("model verify minilm --json", code=1).stderr)["code"] == "model_corrupt"
    run("model verify nonsense", code=2)
    assert (
        "model.onnx" in run("model install minilm", "--from", str(damaged), "--to", str(tmp_path / "to"), code=1).stderr
    )


def test_reembed_switches_the_embedder_and_rebuild_counts(run: Run) -> None:
    run("memory add one --tag t")
    run("memory add two")
    assert run("upkeep reembed --embedder hashing:64").stdout == "Embedded 2 memories with hashing-64@1.\n"
    assert value(run("upkeep reembed --embedder hashing:64 --drop-old --json")) == {
        "embedder": "hashing-64@1", "added": 0, "left": 0,
    }  # fmt: skip
    assert value(run("db info --json"))["memory_index"] == 2
    assert value(run("upkeep rebuild --json"))["words"] == 2
    assert run("upkeep rebuild").stdout.startswith("Rebuilt:\n")
    run("upkeep reembed --embedder nonsense", code=2)


def test_config_shows_values_and_origins(run: Run, db: Path, tmp_path: Path) -> None:
    (tmp_path / "engram.toml").write_text("busy_seconds = 7\n")
    shown = value(run("config show --json"))
    assert shown["settings"]["busy_seconds"]["value"] == 7
    assert shown["settings"]["busy_seconds"]["origin"].endswith("engram.toml")
    assert shown["settings"]["db"]["origin"] == "ENGRAM_DB"
    assert {place["name"] for place in shown["files"]} == {"project", "user"}
    plain = run("config show", "--db", "postgresql://me:hunter2@host/x").stdout
    assert "postgresql://me:***@host/x" in plain
    assert "hunter2" not in plain
    (tmp_path / "engram.toml").write_text("colour = 'red'\n")
    assert "colour" in run("config show", code=2).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(run: Run, shell: str) -> None:
    assert "_ENGRAM_COMPLETE" in run(f"completion {shell}").stdout
    assert "_ENGRAM_COMPLETE" in value(run(f"completion {shell} --json"))


def test_completion_completes_commands_and_kinds(db: Path) -> None:
    def complete(words: str) -> str:
        index = str(len(words.split()))
        return process(
            env={**os.environ, "_ENGRAM_COMPLETE": "bash_complete", "COMP_WORDS": f"{words} ", "COMP_CWORD": index}
        ).stdout

    assert "plain,memory" in complete("engram")
    assert "plain,retrieve" in complete("engram memory")
    assert "plain,observation" in complete("engram memory add --kind")


# As a process


def test_exit_codes_and_streams_of_a_process(db: Path) -> None:
    added = process("memory", "add", "x", "--json")
    assert (added.returncode, json.loads(added.stdout)["status"], added.stderr) == (0, "stored", "")
    missing = process("memory", "show", "nothing", "--json", "--db", str(db))
    assert (missing.returncode, missing.stdout) == (3, "")
    assert set(json.loads(missing.stderr)) == {"code", "message"}


def test_a_reader_that_has_seen_enough_ends_it_quietly(run: Run, db: Path) -> None:
    run("memory add --jsonl -", input="".join(f'"memory {"x" * 200} {n}"\n' for n in range(2000)))
    command = f"{shlex.quote(sys.executable)} -m engram memory list -n 2000 | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ID ")


def test_a_full_disk_on_standard_output_is_an_error(db: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "engram", "config", "show"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "No space left" in done.stderr


def test_an_encoding_without_the_characters_is_survived(run: Run) -> None:
    run("memory add 'naïve → 😀'")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    assert process("memory", "list", env=environment, encoding="latin-1").returncode == 0
    exact = process("memory", "list", "--json", env=environment, encoding="latin-1")
    assert json.loads(exact.stdout)[0]["text"] == "naïve → 😀"


def test_ctrl_c_exits_with_130_and_says_what_stays(db: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "engram", "memory", "add", "--jsonl", "-"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        running.stdin.write(b'"x"\n' * 500)
        running.stdin.flush()
        _until_stored(db, 500)
        running.stdin.write(b'"x"\n' * 100)
        running.stdin.flush()
        _until_read(running.stdin.fileno())  # it goes on with the next ones, so it knows that the first are stored
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"500 lines are stored; lines with a `key` are not stored twice" in said
    assert b"Traceback" not in said


def _until_read(pipe: int) -> None:
    """Until whoever reads from a pipe has taken everything."""
    deadline = time.monotonic() + 60
    while any(ioctl(pipe, termios.FIONREAD, bytes(4))):
        assert time.monotonic() < deadline, "nobody reads"
        time.sleep(0.01)


def _until_stored(db: Path, number: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if db.exists() and db.stat().st_size:
            with library.open(db) as brain:
                if len(brain.agent("default").list(limit=number)) == number:
                    return
        time.sleep(0.1)
    pytest.fail("nothing was stored")


# The words


def test_text_for_a_person() -> None:
    assert escaped("a\tb\nc\x00\x1b\x7f\u202e\ud800") == "a\tb\nc\\x00\\x1b\\x7f\\u202e\\ud800"
    assert one_line("a\tb\nc") == r"a\tb\nc"
    assert truncated("a  b\nc", 10) == "a b c"
    assert truncated("abcdef", 4) == "abc…"
    assert truncated("a" * 100, 4) == "aaa…"
    assert json.loads(json_safe(json.dumps("\x9b\u202e\U000e0041é", ensure_ascii=False))) == "\x9b\u202e\U000e0041é"
    assert (plural(1, "memory"), plural(2, "memory"), plural(1000, "attempt")) == (
        "1 memory",
        "2 memories",
        "1,000 attempts",
    )
    assert [format_size(n) for n in (5, 1500, 15_000, 2e9, 3e12)] == ["5 bytes", "1.5 kB", "15 kB", "2.0 GB", "3.0 TB"]
    assert mask_password("postgresql://u:a/b@h/d") == "postgresql://u:***@h/d"
    assert mask_password("sqlite:///x@y.db") == "sqlite:///x@y.db"


def test_ages_are_in_one_unit() -> None:
    def ago(seconds: int) -> str:
        return format_age(EPOCH, from_micros(seconds * 1_000_000))

    assert [ago(s) for s in (5, 60, 7200, 3 * 86400, 30 * 86400)] == ["now", "1m", "2h", "3d", "4w"]
    assert format_age(from_micros(86_400_000_000), EPOCH) == "1970-01-02"
