"""Callers' keys: shown once, kept as hashes, scoped, expiring, revocable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.api.live import Listener
from engram.api.problems import public_message
from engram.cli import key as key_commands
from engram.cli.invocation import Invocation
from engram.clock import Sources
from engram.errors import Conflict, InvalidInput, NotFound, StoreCorrupt, Unsupported
from engram.model.api_key import RIGHTS
from engram.ports import KeepsApiKeys, ListsChanges, Redactor, Scope
from engram.privacy import SecretRedactor
from engram.sharing.api_keys import Keys

pytest_plugins = ["support.postgres_server"]


class Clock(Sources):
    """A clock that stands still until it is moved."""

    moment = datetime.fromisoformat("2026-05-01T12:00:00+00:00")

    def now(self) -> datetime:
        return self.moment


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def brain(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[engram.Engram]:
    where = ":memory:" if request.param == "memory" else str(tmp_path / "keys.db")
    if request.param == "postgres":
        where = request.getfixturevalue("postgres_url")
        with psycopg.connect(where, autocommit=True) as conn:
            conn.execute("TRUNCATE api_keys")
    with engram.open(where, sources=Clock(), durable=False) as opened:
        yield opened


@pytest.fixture
def keys(brain: engram.Engram) -> Keys:
    return brain.keys


def move(brain: engram.Engram, **by: float) -> None:
    assert isinstance(brain.sources, Clock)
    brain.sources.moment += timedelta(**by)


def test_a_key_that_was_made_is_accepted_for_its_agents_and_rights(keys: Keys) -> None:
    made, token = keys.create("ci", agents=["alice", "bob"], rights=["read"])
    found = keys.accept(token)
    assert found is not None
    assert (found.id, found.agents, found.rights) == (made.id, ("alice", "bob"), ("read",))
    assert found.has_right("read")
    assert not found.has_right("write")
    assert found.may_act_for("bob")
    assert not found.may_act_for("bo")
    assert re.fullmatch(r"eng_[0-9A-Za-z]+_[0-9A-Za-z]{43}", token)


def test_admin_may_do_all_and_write_does_not_mean_read(keys: Keys) -> None:
    admin, writer = keys.create("a", rights="admin")[0], keys.create("b", rights="write")[0]
    assert all(admin.has_right(right) for right in RIGHTS)
    assert [right for right in RIGHTS if writer.has_right(right)] == ["write"]


def test_the_secret_is_nowhere_in_the_database(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with engram.open(path) as brain:
        _, token = brain.keys.create("ci")
        assert isinstance(brain.store, KeepsApiKeys)
        assert token not in repr(brain.store.keys())
    secret = token.rpartition("_")[2].encode()
    assert all(secret not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


@pytest.mark.parametrize("change", ["", "x", "eng", "eng__", "eng_a_b", "Bearer"])
def test_anything_else_is_refused(keys: Keys, change: str) -> None:
    keys.create("ci")
    assert keys.accept(change) is None
    assert keys.accept(None) is None


@given(st.integers(0, 60), st.sampled_from("0123456789abcdefXYZ_"))
def test_a_key_with_one_character_changed_is_refused(place: int, other: str) -> None:
    with engram.open(":memory:") as brain:
        keys = brain.keys
        _, token = keys.create("ci")
        place %= len(token)
        changed = token[:place] + other + token[place + 1 :]
        assert (keys.accept(changed) is None) == (changed != token)


def test_the_secret_of_one_key_does_not_open_another(keys: Keys) -> None:
    _, one = keys.create("one")
    _, two = keys.create("two")
    mixed = f"{one.rpartition('_')[0]}_{two.rpartition('_')[2]}"
    assert keys.accept(mixed) is None


def test_a_key_is_refused_from_the_moment_it_expires(brain: engram.Engram, keys: Keys) -> None:
    _, token = keys.create("ci", expires_at=brain.sources.now() + timedelta(hours=1))
    move(brain, minutes=59, seconds=59)
    assert keys.accept(token) is not None
    move(brain, seconds=1)
    assert keys.accept(token) is None


def test_a_revoked_key_is_refused_at_once_and_the_first_time_counts(brain: engram.Engram, keys: Keys) -> None:
    made, token = keys.create("ci")
    when = keys.revoke(made.id).revoked_at
    assert keys.accept(token) is None
    assert not keys.live(made.id)
    move(brain, hours=1)
    assert keys.revoke(token).revoked_at == when
    with pytest.raises(NotFound):
        keys.revoke("nobody")


def test_when_it_was_used_is_noted_to_the_minute(brain: engram.Engram, keys: Keys) -> None:
    _, token = keys.create("ci")
    first = brain.sources.now()
    keys.accept(token)
    move(brain, seconds=30)
    keys.accept(token)
    assert keys.every()[0].last_used == first
    move(brain, seconds=31)
    keys.accept(token)
    assert keys.every()[0].last_used == brain.sources.now()


def test_keys_are_listed_the_oldest_first(brain: engram.Engram, keys: Keys) -> None:
    names = ["c", "a", "b"]
    for name in names:
        keys.create(name)
        move(brain, seconds=1)
    assert [key.name for key in keys.every()] == names


def test_a_key_needs_a_name_a_right_and_agents_that_can_exist(brain: engram.Engram, keys: Keys) -> None:
    flaws: tuple[dict[str, Any], ...] = (
        {"name": " "},
        {"rights": []},
        {"rights": ["everything"]},
        {"agents": [""]},
        {"agents": ["\x1faudit"]},
        {"agents": [f"agent {n}" for n in range(1001)]},
        {"expires_at": brain.sources.now()},
    )
    for wrong in flaws:
        with pytest.raises(InvalidInput):
            keys.create(**{"name": "ci"} | wrong)
    assert keys.every() == []


def test_a_secret_in_a_name_is_not_kept(keys: Keys) -> None:
    secret = "ghp_" + "a1B2" * 9
    assert secret not in keys.create(f"uses {secret}")[0].name


def test_an_id_that_is_taken_is_a_conflict(brain: engram.Engram) -> None:
    keys = Keys(brain.store, brain.redactor, brain.sources, entropy=lambda count: b"\x07" * count)
    keys.create("one")
    with pytest.raises(Conflict):
        keys.create("two")


def test_a_store_that_keeps_no_keys_says_so() -> None:
    class Bare:
        pass

    redactor: Redactor = SecretRedactor()
    with pytest.raises(Unsupported):
        Keys(Bare(), redactor, Sources())  # type: ignore[arg-type]


def test_a_caller_is_not_told_where_the_database_is() -> None:
    assert "/srv" not in public_message(StoreCorrupt("/srv/team.db is damaged"), str)
    assert public_message(NotFound("there is no memory x"), str) == "there is no memory x"


def test_what_came_and_went_is_told_in_the_order_of_writes(brain: engram.Engram) -> None:
    store, alice, bob = brain.store, brain.agent("alice"), brain.agent("bob")
    assert isinstance(store, ListsChanges)
    here = Scope("alice")
    assert (store.changes(here, 0, 10), store.newest(here)) == ([], 0)
    one, two = (receipt.id for receipt in alice.remember(["one", "two"]))
    bob.remember("not hers")
    alice.forget(one or "")
    found = store.changes(here, 0, 10)
    assert [(change.what, change.id) for change in found] == [("stored", two), ("forgotten", one)]
    assert store.newest(here) == found[-1].seq
    assert store.changes(here, found[0].seq, 10) == found[1:]
    assert store.changes(here, 0, 1) == found[:1]
    listener = Listener(store, 0)
    assert [event.subject for event in listener.news([here])] == [two, one]
    assert listener.news([here]) == []
    three = alice.remember("three").id
    assert [event.subject for event in listener.news([here])] == [three]
    assert [event.subject for event in Listener(store, found[-1].seq).news([here])] == [three]


def command(path: Path, *line: str, code: int = 0, json: bool = False) -> Result:
    result = CliRunner().invoke(key_commands.command, [*line], obj=Invocation(db=str(path), json=json))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_the_commands_make_list_and_revoke_keys(path: Path) -> None:
    made = command(path, "create", "ci", "--agent", "alice", "--right", "read", "--expires", "30d")
    token = made.stdout.strip()
    assert token.startswith("eng_")
    assert "not shown again" in made.stderr
    listed = command(path, "list").stdout
    assert "good" in listed
    assert "alice" in listed
    assert token not in listed
    id = token.split("_")[1]
    assert f"Revoked {id} (ci)" in command(path, "revoke", id).stdout
    assert json.loads(command(path, "list", json=True).stdout)[0]["revoked_at"] is not None
    assert isinstance(command(path, "revoke", "nobody", code=1).exception, NotFound)


def test_the_command_says_everything_as_json(path: Path) -> None:
    made = json.loads(command(path, "create", "all", "--right", "admin", json=True).stdout)
    assert made["agents"] == ["*"]
    assert made["rights"] == ["admin"]
    assert made["key"].startswith(f"eng_{made['id']}_")


def test_the_command_knows_all_rights() -> None:
    assert key_commands.RIGHTS == RIGHTS


@pytest.mark.parametrize("when", ["soon", "", "-1d", "1y", "99999999999w"])
def test_a_time_that_is_none_is_refused(path: Path, when: str) -> None:
    command(path, "create", "ci", "--expires", when, code=2)
