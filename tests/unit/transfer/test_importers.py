"""Other programs' files: found out by their content, read record by record, refused where they are not as they say."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

import engram
from engram.errors import InvalidInput
from engram.model.bundle import Incoming
from engram.model.content import MemoryType
from engram.transfer.importers import IMPORTERS, detect, incoming
from engram.transfer.importers.markdown import pieces
from engram.transfer.untrusted import ReadLimits

MEM0 = [
    {
        "id": "f38b689d",
        "memory": "Dev works at TechCorp",
        "user_id": "dev",
        "run_id": "r1",
        "hash": "62bc",
        "metadata": {"type": "professional"},
        "categories": ["work"],
        "created_at": "2024-07-25T23:57:00.108347-07:00",
        "updated_at": "2024-07-26T23:57:00.108347-07:00",
    },
    {"id": "2", "memory": "Likes tea", "user_id": "dev", "metadata": None, "categories": None, "created_at": None},
]
GRAPH = [
    {"type": "entity", "name": "Alice", "entityType": "person", "observations": ["Speaks Spanish", "Alice likes tea"]},
    {"type": "entity", "name": "Acme", "entityType": "company", "observations": []},
    {"type": "relation", "from": "Alice", "to": "Acme", "relationType": "works_at"},
]


def node(id: str, parent: str | None, role: str, *parts: object, **fields: object) -> dict[str, object]:
    content = {"content_type": "text", "parts": list(parts)}
    message = {"id": id, "author": {"role": role, "name": None}, "create_time": 1700000000.5, "content": content}
    return {"id": id, "parent": parent, "children": [], "message": {**message, **fields}}


OPENAI = {
    "id": "c1",
    "conversation_id": "c1",
    "title": "Deploying",
    "create_time": 1700000000.0,
    "current_node": "d",
    "mapping": {
        "root": {"id": "root", "parent": None, "children": ["s"], "message": None},
        "s": node("s", "root", "system", ""),
        "a": node("a", "s", "user", "How do I deploy?"),
        "b": node("b", "a", "assistant", "An answer that was regenerated"),
        "c": node("c", "a", "assistant", "Run make deploy", {"content_type": "image_asset_pointer"}, "then wait"),
        "h": node("h", "c", "assistant", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        "t": node("t", "h", "tool", content={"content_type": "execution_output", "text": "done"}),
        "x": node("x", "t", "assistant", content={"content_type": "thoughts", "thoughts": []}),
        "d": node("d", "x", "user", "Thanks"),
    },
}
ANTHROPIC = {
    "uuid": "u1",
    "name": "Trips",
    "created_at": "2025-01-02T03:04:05.678901Z",
    "chat_messages": [
        {
            "uuid": "m1",
            "sender": "human",
            "text": "Plan a trip",
            "created_at": "2025-01-02T03:04:06.000000Z",
            "content": [{"type": "text", "text": "Plan a trip"}],
            "attachments": [{"file_name": "notes.txt", "file_type": "txt", "extracted_content": "By train only"}],
            "files": [],
        },
        {
            "uuid": "m2",
            "sender": "assistant",
            "text": "",
            "content": [
                {"type": "thinking", "thinking": "…"},
                {"type": "text", "text": "To Bern"},
                {"type": "tool_use"},
            ],
            "attachments": [],
        },
        {"uuid": "m3", "sender": "human", "text": "Good"},
    ],
}
ITEMS = [
    {
        "namespace": ["memories", "u1"],
        "key": "k1",
        "value": {"kind": "Memory", "content": {"content": "Prefers dark mode"}},
        "created_at": "2025-05-01T10:00:00+00:00",
        "updated_at": "2025-05-01T10:00:00+00:00",
    },
    {"namespace": ["profile"], "key": "k2", "value": {"age": 30}},
]


def put(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def put_lines(path: Path, values: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def all_of(path: Path) -> list[Incoming]:
    return list(incoming(path))


@pytest.mark.parametrize("wrapped", [MEM0, {"count": 2, "next": None, "results": MEM0}, {"memories": MEM0}])
def test_mem0_exports(tmp_path: Path, wrapped: object) -> None:
    path = put(tmp_path / "mem0.json", wrapped)
    assert detect(path) == "mem0"
    first, second = all_of(path)
    assert (first.text, first.original_id, first.tags) == ("Dev works at TechCorp", "f38b689d", ("work",))
    assert (first.session, first.speaker, first.kind) == ("r1", "dev", MemoryType.KNOWLEDGE)
    assert first.at == datetime(2024, 7, 26, 6, 57, 0, 108347, tzinfo=UTC)
    assert (first.metadata["type"], first.metadata["user_id"]) == ("professional", "dev")
    assert (second.text, second.at, second.session) == ("Likes tea", None, None)


def test_mem0_one_a_line(tmp_path: Path) -> None:
    path = put_lines(tmp_path / "mem0.jsonl", MEM0)
    assert (detect(path), [one.text for one in all_of(path)]) == ("mem0", ["Dev works at TechCorp", "Likes tea"])


def test_the_mcp_memory_server(tmp_path: Path) -> None:
    lines = put_lines(tmp_path / "memory.jsonl", GRAPH)
    whole = put(tmp_path / "graph.json", {"entities": GRAPH[:2], "relations": GRAPH[2:]})
    assert (detect(lines), detect(whole)) == ("mcp-memory", "mcp-memory")
    assert all_of(lines) == all_of(whole)
    spanish, tea, works = all_of(lines)
    assert (spanish.text, tea.text, works.text) == ("Alice: Speaks Spanish", "Alice likes tea", "Alice works at Acme")
    assert spanish.tags == ("person",)
    assert (works.content["subject"], works.content["predicate"], works.content["object"]) == (
        "Alice",
        "works_at",
        "Acme",
    )


def test_openai_conversations_follow_the_branch_that_was_read_last(tmp_path: Path) -> None:
    path = put(tmp_path / "conversations.json", [OPENAI])
    assert (detect(path), detect(tmp_path)) == ("openai", "openai")
    found = all_of(path)
    assert [(one.role, one.text) for one in found] == [
        ("user", "How do I deploy?"),
        ("assistant", "Run make deploy\nthen wait"),
        ("tool", "done"),
        ("user", "Thanks"),
    ]
    assert {(one.session, one.context, one.kind) for one in found} == {("c1", "Deploying", MemoryType.MESSAGE)}
    assert found[0].at == datetime(2023, 11, 14, 22, 13, 20, 500000, tzinfo=UTC)
    assert all_of(put(tmp_path / "one.json", OPENAI)) == found == all_of(tmp_path)


def test_openai_without_a_current_message_takes_the_last_that_nobody_answered(tmp_path: Path) -> None:
    path = put(tmp_path / "c.json", [{**OPENAI, "current_node": None}])
    assert all_of(path)[-1].text == "Thanks"


def test_a_conversation_in_a_circle_is_refused(tmp_path: Path) -> None:
    circle = {"a": node("a", "b", "user", "x"), "b": node("b", "a", "user", "y")}
    with pytest.raises(InvalidInput, match="circle"):
        all_of(put(tmp_path / "c.json", [{"current_node": "a", "mapping": circle}]))


def test_anthropic_conversations(tmp_path: Path) -> None:
    path = put(tmp_path / "conversations.json", [ANTHROPIC])
    assert detect(path) == "anthropic"
    found = all_of(path)
    assert [(one.role, one.text, one.kind) for one in found] == [
        ("user", "Plan a trip", MemoryType.MESSAGE),
        ("user", "By train only", MemoryType.OBSERVATION),
        ("assistant", "To Bern", MemoryType.MESSAGE),
        ("user", "Good", MemoryType.MESSAGE),
    ]
    assert (found[1].metadata["file_name"], found[1].original_id) == ("notes.txt", "m1/0")
    assert found[0].at == datetime(2025, 1, 2, 3, 4, 6, tzinfo=UTC)
    assert all_of(put(tmp_path / "one.json", ANTHROPIC)) == found


def test_langgraph_items_as_json(tmp_path: Path) -> None:
    path = put(tmp_path / "store.json", ITEMS)
    assert detect(path) == "langgraph"
    first, second = all_of(path)
    assert (first.text, first.context, first.tags) == ("Prefers dark mode", "memories / u1", ("Memory",))
    assert second.text == '{"age": 30}'
    assert all_of(put(tmp_path / "items.json", {"items": ITEMS})) == [first, second]
    assert all_of(put_lines(tmp_path / "items.jsonl", ITEMS)) == [first, second]


def store(path: Path, *, wal: bool = False) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    if wal:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute(
        "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, "
        "created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, "
        "expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key))"
    )
    for item in ITEMS:
        prefix, value = ".".join(item["namespace"]), json.dumps(item["value"]).encode()
        database.execute(
            "INSERT INTO store (prefix, key, value, created_at) VALUES (?, ?, ?, '2025-05-01 10:00:00')",
            (prefix, item["key"], value),
        )
    database.commit()
    return database


def test_langgraph_in_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store(path).close()
    before = path.read_bytes()
    assert detect(path) == "langgraph"
    dumped = all_of(put(tmp_path / "store.json", ITEMS))
    found = all_of(path)
    assert [(one.text, one.original_id) for one in found] == [(one.text, one.original_id) for one in dumped]
    assert found[0].at == datetime(2025, 5, 1, 10, tzinfo=UTC)
    assert path.read_bytes() == before


def test_what_a_running_program_has_not_moved_into_the_file_yet_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(store(path, wal=True)):
        assert Path(f"{path}-wal").stat().st_size
        assert len(all_of(path)) == 2


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE other (a)",
        "CREATE VIEW store AS SELECT 'p' prefix, 'k' AS key, '{}' value, NULL created_at, NULL updated_at",
        "CREATE VIEW store AS WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n) SELECT * FROM n",
        "CREATE TABLE store (key, value, created_at, updated_at, prefix AS (hex(zeroblob(100000000))))",
        "CREATE VIRTUAL TABLE store USING fts5(prefix, key, value, created_at, updated_at)",
        "CREATE TABLE store (prefix, key, value)",
    ],
)
def test_sqlite_files_that_are_no_store_are_refused(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(schema)
        database.commit()
    with pytest.raises(InvalidInput, match="SQLite"):
        all_of(path)


def test_damaged_sqlite_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(store(path)) as database:
        for number in range(500):
            database.execute(
                "INSERT INTO store (prefix, key, value) VALUES ('p', ?, ?)", (str(number), b'"' + b"x" * 90)
            )
        database.commit()
    whole = path.read_bytes()
    with pytest.raises(InvalidInput, match="row 2 is not JSON"):
        all_of(path)
    path.write_bytes(whole[:4096] + b"\xff" * 4096 + whole[8192:])
    with pytest.raises(InvalidInput, match="SQLite file"):
        all_of(path)


NOTES = """---
tags: [infra, db]
date: 2025-03-04
title: Notes
---
<!-- not
said -->
# Servers

Staging runs
PostgreSQL 15.

- Production:
  - runs PostgreSQL 14
    in Frankfurt
  - is backed up at night
* [x] Ask Bob first

---

## Deploying

1. Run this:
```sh
make deploy

# not a heading
```
2. Wait

Done.
"""


def test_markdown_gives_a_memory_for_each_item_and_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "MEMORY.md"
    path.write_text(NOTES, encoding="utf-8")
    assert detect(path) == "markdown"
    found = all_of(path)
    assert [(one.context, one.text) for one in found] == [
        ("Notes > Servers", "Staging runs\nPostgreSQL 15."),
        ("Notes > Servers", "Production:"),
        ("Notes > Servers > Production:", "runs PostgreSQL 14\nin Frankfurt"),
        ("Notes > Servers > Production:", "is backed up at night"),
        ("Notes > Servers", "Ask Bob first"),
        ("Notes > Servers > Deploying", "Run this:\n```sh\nmake deploy\n\n# not a heading\n```"),
        ("Notes > Servers > Deploying", "Wait"),
        ("Notes > Servers > Deploying", "Done."),
    ]
    assert {(one.tags, one.at, one.metadata["file"]) for one in found} == {
        (("infra", "db"), datetime(2025, 3, 4, tzinfo=UTC), "MEMORY.md")
    }


def test_folders_are_read_in_order_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "README.md").write_text("- not this")
    (tmp_path / "b" / "AGENTS.md").write_text("\ufeff- from b\n- from b\n", encoding="utf-8")
    (tmp_path / "a.md").write_text("- from a")
    (tmp_path / "notes.txt").write_text("- not this")
    (tmp_path / "CLAUDE.md").symlink_to(tmp_path / "a.md")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = all_of(tmp_path)
    assert detect(tmp_path) == "markdown"
    assert [(one.metadata["file"], one.text) for one in found] == [
        ("a.md", "from a"),
        ("b/AGENTS.md", "from b"),
        ("b/AGENTS.md", "from b"),
    ]
    assert len({one.original_id for one in found}) == 3
    assert found == all_of(tmp_path)


def test_front_matter_that_is_no_yaml_does_not_hide_what_is_below(tmp_path: Path) -> None:
    path = tmp_path / "rule.mdc"
    path.write_text("---\nglobs: *.ts\n---\nUse tabs.\n")
    assert [one.text for one in all_of(path)] == ["Use tabs."]


def test_a_file_that_is_not_closed_is_read_to_its_end() -> None:
    assert [one.text for one in pieces("a\n```\ncode\n# b")] == ["a\n```\ncode\n# b"]
    assert [one.text for one in pieces("---\na")] == ["---\na"]
    assert [one.text for one in pieces("<!-- a\nb")] == []


def test_what_no_importer_knows_is_refused(tmp_path: Path) -> None:
    nothing: list[object] = [[], {}, [1], [{"a": 1}], {"results": []}, "x"]
    for value in nothing:
        with pytest.raises(InvalidInput):
            detect(put(tmp_path / "x.json", value))
    with pytest.raises(InvalidInput, match="there is no importer 'x'; there are mem0"):
        list(incoming(tmp_path / "x.json", "x"))
    (tmp_path / "x.json").write_text("")
    with pytest.raises(InvalidInput, match="empty"):
        detect(tmp_path / "x.json")


@pytest.mark.parametrize("name", IMPORTERS)
def test_limits_hold_for_every_importer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "memory.md"
    path.write_text("- a\n" * 20 if name == "markdown" else json.dumps(MEM0 * 20))
    with pytest.raises(InvalidInput):
        list(incoming(path, name, ReadLimits(records=10, file=10_000, record=1000)))


def test_what_was_imported_can_be_remembered_once(tmp_path: Path) -> None:
    paths = [
        put(tmp_path / "mem0.json", MEM0),
        put_lines(tmp_path / "memory.jsonl", GRAPH),
        put(tmp_path / "openai.json", [OPENAI]),
        put(tmp_path / "anthropic.json", [ANTHROPIC]),
        put(tmp_path / "store.json", ITEMS),
    ]
    (tmp_path / "MEMORY.md").write_text(NOTES, encoding="utf-8")
    found = [one for path in [*paths, tmp_path / "MEMORY.md"] for one in incoming(path)]
    with engram.open(":memory:", embedder="hashing") as brain:
        alice = brain.agent("alice")
        drafts = [
            engram.Draft(key=f"{one.source}/{one.original_id}", **one.model_dump(exclude={"source", "original_id"}))
            for one in found
        ]
        assert {receipt.status for receipt in alice.remember(drafts)} == {"stored"}
        alice.remember(drafts)
        assert len(alice.list(limit=100)) == len(found) == 23
        assert [fact.object for fact in alice.semantic.facts()] == []
