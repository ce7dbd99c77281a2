"""Whatever is done to the trail behind our back is found, and named."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engram import audit
from engram.audit import PublicKey, Signer
from engram.clock import Sources
from engram.errors import Conflict, InvalidInput, MissingExtra, NotFound, StoreCorrupt
from engram.model import AuditEntry, AuditVerification, Checkpoint
from engram.model.audit import canonical_json, sha256_hex
from engram.ports import AuditAction, Scope
from engram.stores.audit_entries import sealing, to_entry
from engram.stores.memory import InMemoryStore
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing.factories import START, Maker

LENGTH = 40
COLUMNS = ("at", "actor", "principal", "action", "agent", "target", "grant_id", "count", "detail", "prev", "hash")
Raw = sqlite3.Connection


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return audit.signer(tmp_path_factory.mktemp("keys") / "audit.key")


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a database without memories: quicker to copy than to make."""
    path = tmp_path_factory.mktemp("empty") / "engram.db"
    SqliteStore(path, ExactVectors(), Sources()).close()
    return path.read_bytes()


@pytest.fixture
def store(path: Path, empty_database: bytes) -> Iterator[SqliteStore]:
    path.write_bytes(empty_database)
    with closing(SqliteStore(path, ExactVectors(), Sources(), durable=False)) as store:
        yield store


def fill(store: SqliteStore | InMemoryStore, count: int = LENGTH) -> None:
    maker = Maker("alice")
    for number in range(count):
        if number % 3:
            store.note(
                [AuditAction("use", "bob", "alice", f"m{number}", f"g{number % 4}", number, {"n": number, "é": "ü"})]
            )
        else:
            store.add(Scope("alice"), [maker.event(f"memory {number}")])


def unguarded(raw: Raw) -> None:
    """Take the triggers away, as whoever can write to the file may."""
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE 'audit%'"):
        raw.execute(f"DROP TRIGGER {name}")


def rows(raw: Raw) -> list[dict[str, Any]]:
    found = raw.execute("SELECT * FROM audit ORDER BY seq")
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def write(raw: Raw, entries: list[dict[str, Any]]) -> None:
    raw.execute("DELETE FROM audit")
    for row in entries:
        raw.execute(f"INSERT INTO audit ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))


def rechained(entries: list[dict[str, Any]], first: int = 1) -> list[dict[str, Any]]:
    """The entries with numbers and hashes that fit together, as a clever forger makes them."""
    prev = entries[first - 2]["hash"] if first > 1 else ""
    for number, row in enumerate(entries[first - 1 :], first):
        said = {name: row[name] for name in ("action", "actor", "agent", "at", "count", "principal", "target")}
        said |= {"seq": number, "prev": prev, "grant": row["grant_id"], "detail": json.loads(row["detail"])}
        row |= {"seq": number, "prev": prev, "hash": sha256_hex(canonical_json(said))}
        prev = row["hash"]
    return entries


def other(value: Any, dice: random.Random) -> Any:
    if isinstance(value, int):
        return value + dice.choice([-1, 1, 1000, 10**15])
    if value.startswith("{"):
        return dice.choice([value.replace("}", ',"x":1}').replace("{,", "{"), value + " ", "{", "[]", "null", ""])
    place = dice.randrange(len(value)) if value else 0
    return value[:place] + dice.choice("0189afxyz'\"\n") + value[place + dice.randint(0, 1) :]


# Each takes a connection without guards and dice, and says which entries are to be named; the others need an anchor.


def edit(raw: Raw, dice: random.Random) -> set[int]:
    seq, column = dice.randint(1, LENGTH), dice.choice(COLUMNS)
    (value,) = raw.execute(f"SELECT {column} FROM audit WHERE seq = ?", (seq,)).fetchone()
    changed = other(value, dice)
    while changed == value:
        changed = other(value, dice)
    raw.execute(f"UPDATE audit SET {column} = ? WHERE seq = ?", (changed, seq))
    return {seq}


def edit_type(raw: Raw, dice: random.Random) -> set[int]:
    seq, column = dice.randint(2, LENGTH), dice.choice(COLUMNS)
    raw.execute(
        f"UPDATE audit SET {column} = ? WHERE seq = ?", (dice.choice([b"\xff\x00", 2.5, "\x00", 2**63 - 1]), seq)
    )
    return {seq}


def edit_and_seal(raw: Raw, dice: random.Random) -> set[int]:
    """The entry has a fitting hash again, so that it is the next one that does not follow on it."""
    entries, seq = rows(raw), dice.randint(2, LENGTH - 1)
    sealed = rechained([dict(row) for row in entries[: seq - 1]] + [entries[seq - 1] | {"count": 99_999}], seq)[-1]
    raw.execute("UPDATE audit SET count = 99999, hash = ? WHERE seq = ?", (sealed["hash"], seq))
    return {seq + 1}


def delete(raw: Raw, dice: random.Random) -> set[int]:
    first = dice.randint(1, LENGTH - 1)
    last = min(LENGTH - 1, first + dice.randint(0, 3))
    raw.execute("DELETE FROM audit WHERE seq BETWEEN ? AND ?", (first, last))
    return {last}


def swap(raw: Raw, dice: random.Random) -> set[int]:
    one, two = dice.sample(range(1, LENGTH + 1), 2)
    raw.execute("UPDATE audit SET seq = -1 WHERE seq = ?", (one,))
    raw.execute("UPDATE audit SET seq = ? WHERE seq = ?", (one, two))
    raw.execute("UPDATE audit SET seq = ? WHERE seq = -1", (two,))
    return {one, two}


def insert(raw: Raw, dice: random.Random) -> set[int]:
    """A forged entry with a fitting hash, and all after it moved up by one."""
    entries, seq = rows(raw), dice.randint(2, LENGTH)
    forged = rechained([dict(row) for row in entries[: seq - 1]] + [dict(entries[seq - 1])], seq)[-1]
    later = [row | {"seq": row["seq"] + 1} for row in entries[seq - 1 :]]
    write(raw, [*entries[: seq - 1], forged, *later])
    return {seq + 1}


def insert_before(raw: Raw, dice: random.Random) -> set[int]:
    raw.execute("INSERT INTO audit SELECT ?, at, '', '', 'use', '', '', '', 0, '{}', '', '' FROM audit LIMIT 1", (0,))
    return {0}


def truncate(raw: Raw, dice: random.Random) -> set[int]:
    """Without its end the chain is whole: only a checkpoint or an anchor tells."""
    last = dice.randint(0, LENGTH - 1)
    raw.execute("DELETE FROM audit WHERE seq > ?", (last,))
    raw.execute("DELETE FROM audit_checkpoints WHERE seq > ?", (last,))
    return {last + 1}


def rewrite(raw: Raw, dice: random.Random) -> set[int]:
    """Everything from some entry on is written anew, and fits."""
    entries, seq = rows(raw), dice.randint(2, LENGTH)
    entries[seq - 1]["count"] += 1
    write(raw, rechained(entries, seq))
    raw.execute("DELETE FROM audit_checkpoints")
    return {LENGTH}


def drop_and_rewrite(raw: Raw, dice: random.Random) -> set[int]:
    """One entry goes, and the rest is written anew as if it had never been."""
    entries = rows(raw)
    del entries[dice.randint(1, LENGTH - 1)]
    write(raw, rechained(entries))
    raw.execute("DELETE FROM audit_checkpoints")
    return {LENGTH}


WAYS: tuple[Callable[[Raw, random.Random], set[int]], ...] = (
    edit,
    edit_type,
    edit_and_seal,
    delete,
    swap,
    insert,
    insert_before,
    truncate,
    rewrite,
    drop_and_rewrite,
)


@pytest.mark.parametrize("tamperings", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_tamperings_are_all_found_and_named(
    path: Path, store: SqliteStore, signer: Signer, tamperings: int
) -> None:
    fill(store, LENGTH - 2)
    audit.AuditTrail(store).checkpoint(signer, START)
    anchor = audit.AuditTrail(store).head(signer, START)
    assert audit.AuditTrail(store).verify([anchor], [signer.public]).ok
    assert anchor.seq == LENGTH
    dice, missed = random.Random(11), list[tuple[str, set[int], AuditVerification]]()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous = OFF")
        unguarded(raw)
        saved = [raw.execute(f"SELECT * FROM {table}").fetchall() for table in ("audit", "audit_checkpoints")]
        for number in range(tamperings):
            way = WAYS[number % len(WAYS)]
            raw.execute("BEGIN")
            named = way(raw, dice)
            raw.execute("COMMIT")
            found = audit.AuditTrail(store).verify([anchor], [signer.public])
            if found.ok or not named & {problem.seq for problem in found.problems}:
                missed.append((way.__name__, named, found))
            raw.execute("BEGIN")
            for table, kept in zip(("audit", "audit_checkpoints"), saved, strict=True):
                raw.execute(f"DELETE FROM {table}")
                raw.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(kept[0]))})", kept)
            raw.execute("COMMIT")
    assert missed == []
    assert audit.AuditTrail(store).verify([anchor], [signer.public]).ok


def test_a_chain_alone_does_not_know_its_end(path: Path, store: SqliteStore) -> None:
    fill(store, 10)
    anchor = audit.AuditTrail(store).head(now=START)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        unguarded(raw)
        raw.execute("DELETE FROM audit WHERE seq > 7")
    assert audit.AuditTrail(store).verify().ok
    found = audit.AuditTrail(store).verify([anchor])
    assert [problem.seq for problem in found.problems] == [8, 9, 10, 11]
    assert "an anchor of entry 11" in found.problems[0].what


def test_a_trail_without_any_entry_is_no_trail(path: Path, store: SqliteStore) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        unguarded(raw)
        raw.execute("DELETE FROM audit")
    assert [problem.seq for problem in audit.AuditTrail(store).verify().problems] == [1]
    with pytest.raises(StoreCorrupt):
        audit.AuditTrail(store).head(now=START)


def test_a_long_trail_written_by_a_fool_is_not_named_without_end(path: Path, store: SqliteStore) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        unguarded(raw)
        raw.execute("UPDATE audit SET seq = ?", (2**62,))
    found = audit.AuditTrail(store).verify([Checkpoint(seq=2**61, at=START, hash="x")])
    assert not found.ok
    assert len(found.problems) <= 2 * audit.MOST_PROBLEMS


# Checkpoints and their keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE audit_checkpoints SET hash = 'x'",
        "UPDATE audit_checkpoints SET at = at + 1",
        "UPDATE audit_checkpoints SET seq = 3",
        "UPDATE audit_checkpoints SET seq = 300",
        "UPDATE audit_checkpoints SET key_id = 'x'",
        "UPDATE audit_checkpoints SET signature = 'zz'",
        "UPDATE audit_checkpoints SET signature = ''",
        "UPDATE audit_checkpoints SET signature = replace(signature, substr(signature, 1, 1), 'a') || 'b'",
        "DELETE FROM audit_checkpoints",
    ],
)
@pytest.mark.parametrize("with_key", [True, False])
def test_a_checkpoint_that_was_changed_or_removed_is_found(
    path: Path, store: SqliteStore, signer: Signer, forgery: str, with_key: bool
) -> None:
    fill(store, 10)
    audit.AuditTrail(store).checkpoint(signer, START)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        unguarded(raw)
        raw.execute(forgery)
    assert not audit.AuditTrail(store).verify(keys=[signer.public] if with_key else []).ok


def test_a_rewritten_trail_with_a_checkpoint_of_the_forger_is_found_by_the_key(
    path: Path, store: SqliteStore, signer: Signer, tmp_path: Path
) -> None:
    fill(store, 10)
    made = audit.AuditTrail(store).checkpoint(audit.signer(tmp_path / "forger.key"), START)
    assert audit.AuditTrail(store).verify().ok
    found = audit.AuditTrail(store).verify(keys=[signer.public])
    assert [(problem.seq, problem.what) for problem in found.problems] == [
        (made.seq, "has the checkpoint that was signed by none of these keys")
    ]


def test_old_keys_go_on_to_count_after_a_new_one_was_made(store: SqliteStore, signer: Signer, tmp_path: Path) -> None:
    fill(store, 5)
    audit.AuditTrail(store).checkpoint(signer, START)
    newer = audit.signer(tmp_path / "newer.key")
    store.note([AuditAction("use")])
    audit.AuditTrail(store).checkpoint(newer, START)
    assert audit.AuditTrail(store).verify(keys=[signer.public, newer.public]).ok
    assert not audit.AuditTrail(store).verify(keys=[newer.public]).ok


def test_an_anchor_that_nobody_signed_is_no_proof_where_keys_are(store: SqliteStore, signer: Signer) -> None:
    anchor = audit.AuditTrail(store).head(now=START)
    assert audit.AuditTrail(store).verify([anchor]).fixed == 1
    assert "nobody" in audit.AuditTrail(store).verify([anchor], [signer.public]).problems[0].what


def test_a_checkpoint_says_up_to_where_the_trail_is_fixed(store: SqliteStore, signer: Signer) -> None:
    fill(store, 5)
    assert audit.AuditTrail(store).verify().fixed == 0
    made = audit.AuditTrail(store).checkpoint(signer, START)
    assert (made.seq, audit.AuditTrail(store).verify().fixed) == (6, 6)
    assert audit.AuditTrail(store).checkpoint(signer, START + timedelta(days=1)) == made, "nothing was done since"
    store.note([AuditAction("use")])
    assert audit.AuditTrail(store).checkpoint(signer, START).seq == 8


def test_entries_that_come_while_it_is_verified_are_no_problem(store: SqliteStore, signer: Signer) -> None:
    class Busy(InMemoryStore):
        def trail(self, after: int = 0, limit: int = 1000, **options: Any) -> list[AuditEntry]:
            self.note([AuditAction("use")] if after < 0 else [])
            audit.AuditTrail(self).checkpoint(signer, START)
            return super().trail(after, limit, **options)

    assert audit.AuditTrail(Busy(ExactVectors())).verify(keys=[signer.public]).ok


# Keys ------------------------------------------------------------------------------------------------------------


def test_a_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit.key"
    made = audit.signer(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert audit.signer(path).public.id == made.public.id
    assert {audit.public_key(path).id, audit.public_key(path.with_name("audit.key.pub")).id} == {made.public.id}
    assert sorted(file.name for file in path.parent.iterdir()) == ["audit.key", "audit.key.pub"]


def test_whoever_makes_a_key_second_uses_that_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, link = tmp_path / "audit.key", os.link

    def overtaken(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        audit.signer(target)
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert audit.signer(path).public.id == audit.public_key(path).id == audit.public_key(tmp_path / "audit.key.pub").id


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PUBLIC KEY-----\nno\n-----END PUBLIC KEY-----\n", b"\xff" * 100])
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "audit.key"
    path.write_bytes(content)
    for read in (audit.signer, audit.public_key):
        with pytest.raises(InvalidInput):
            read(path)


def test_a_public_key_cannot_sign_and_a_missing_one_is_not_made(tmp_path: Path) -> None:
    audit.signer(tmp_path / "audit.key")
    with pytest.raises(InvalidInput):
        audit.signer(tmp_path / "audit.key.pub")
    with pytest.raises(NotFound):
        audit.public_key(tmp_path / "nothing")


def test_keys_of_another_kind_are_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "ec.pub").write_bytes(key.public_key().public_bytes(*form))
    with pytest.raises(InvalidInput, match="Ed25519"):
        audit.public_key(tmp_path / "ec.pub")


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(MissingExtra, match=r"engram-learning\[crypto\]"):
        audit.signer(tmp_path / "audit.key")


# Anchors, pruning, exporting -------------------------------------------------------------------------------------


def test_anchors_are_read_as_they_were_added(store: SqliteStore, signer: Signer, tmp_path: Path) -> None:
    file, made = tmp_path / "anchors.jsonl", list[Checkpoint]()
    for number in range(3):
        store.note([AuditAction("use")])
        made.append(audit.AuditTrail(store).head(signer if number else None, START + timedelta(days=number)))
        audit.add_anchor(file, made[-1])
    assert audit.read_anchors(file) == made
    assert audit.AuditTrail(store).verify(made).ok


@pytest.mark.parametrize("line", ["{}", "no", '{"seq": "x"}', "[" * 10_000, "x" * 100_000, '{"seq":1,"at":"2026'])
def test_a_line_that_is_no_anchor_is_named(tmp_path: Path, store: SqliteStore, line: str) -> None:
    file = tmp_path / "anchors.jsonl"
    audit.add_anchor(file, audit.AuditTrail(store).head(now=START))
    with file.open("a") as lines:
        lines.write(line)
    with pytest.raises(InvalidInput, match="line 2"):
        audit.read_anchors(file)


def test_a_file_that_is_not_there_gives_no_anchors_but_an_error(tmp_path: Path, store: SqliteStore) -> None:
    with pytest.raises(InvalidInput):
        audit.read_anchors(tmp_path / "nothing")
    with pytest.raises(InvalidInput):
        audit.add_anchor(tmp_path / "no" / "folder", audit.AuditTrail(store).head(now=START))


def test_pruning_takes_a_signed_checkpoint_and_a_whole_trail(path: Path, store: SqliteStore, signer: Signer) -> None:
    fill(store, 10)
    with pytest.raises(NotFound):
        audit.AuditTrail(store).prune(5, [signer.public])
    anchor = audit.AuditTrail(store).head(signer, START)
    made = audit.AuditTrail(store).checkpoint(signer, START)
    assert audit.AuditTrail(store).prune(made.seq, [signer.public]) == 11
    found = audit.AuditTrail(store).verify([anchor], [signer.public])
    assert (found.ok, found.first, found.last) == (True, 12, 13)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        unguarded(raw)
        raw.execute("UPDATE audit SET count = 5 WHERE seq = 12")
    with pytest.raises(Conflict, match="entry 12"):
        audit.AuditTrail(store).prune(made.seq, [signer.public])


def test_a_beginning_that_was_cut_off_is_not_taken_for_pruned(path: Path, store: SqliteStore, signer: Signer) -> None:
    fill(store, 10)
    made = audit.AuditTrail(store).checkpoint(signer, START)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        unguarded(raw)
        raw.execute("DELETE FROM audit WHERE seq <= ?", (made.seq,))
    (problem,) = audit.AuditTrail(store).verify(keys=[signer.public]).problems
    assert (problem.seq, "pruned" in problem.what) == (made.seq, True)


def test_a_forged_pruning_is_found_by_the_key(path: Path, store: SqliteStore, signer: Signer, tmp_path: Path) -> None:
    fill(store, 10)
    forged = audit.signer(tmp_path / "forger.key").sign(5, store.trail(4, 1)[0].hash, START)
    store.checkpoint(forged)
    store.prune(5)
    assert audit.AuditTrail(store).verify().ok
    assert [problem.seq for problem in audit.AuditTrail(store).verify(keys=[signer.public]).problems] == [5]


def test_an_export_can_be_verified_by_anybody_with_sha256(store: SqliteStore) -> None:
    fill(store, 20)
    prev = ""
    for line in audit.AuditTrail(store).export():
        entry = json.loads(line)
        hash, at = entry.pop("hash"), datetime.fromisoformat(entry.pop("at"))
        entry["at"] = round((at - datetime.fromisoformat("1970-01-01T00:00:00Z")).total_seconds() * 1_000_000)
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(text.encode()).hexdigest() == hash
        assert entry["prev"] == prev
        prev = hash


def test_what_is_hashed_while_writing_is_the_canonical_form() -> None:
    deed = AuditAction('a"\\', "é", "\x1f", "t\n", "g", 3, {"b": [1.5, None, True], "a": {"y": "ü", "x": 10**20}})
    row = sealing(deed, START).at(7, "ab")
    assert to_entry(row).expected_hash == row["hash"]


def test_a_key_names_itself_by_its_bytes(signer: Signer) -> None:
    made = signer.sign(1, "x", START)
    assert isinstance(signer.public, PublicKey)
    assert signer.public.signed(made)
    assert not signer.public.signed(made.model_copy(update={"seq": 2}))
