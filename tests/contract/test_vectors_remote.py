"""What all adapters share, shown on a database of dictionaries; and what each must show beyond the contract."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from engram.errors import InvalidInput, MissingExtra, StoreClosed, StoreError
from engram.ports import Match, Matrix, Scope, VectorSpace
from engram.stores.vectors import remote
from engram.stores.vectors.remote import Point, RemoteVectors, parse
from engram.testing import VectorStoreContract
from engram.testing.factories import unit
from engram.testing.stores import LOOK_ALIKES

HOME = VectorSpace(Scope("alice"), "long-term", "fixed@1")
ODD = ["a'b", 'a"b', "%", "_", "\\", "$ne", "{}", "a b ", "é", "e\u0301", "预发布", "🚀", "x" * 255, "; drop", "a\nb"]

Opener = Callable[[], RemoteVectors]


class RemoteVectorsContract(VectorStoreContract):
    """What every adapter shows. Give the fixture `open_another`: each call opens the same database once more.

    All that it opened are closed after the test.
    """

    many = 1200

    @pytest.fixture
    def vectors(self, open_another: Opener) -> RemoteVectors:
        return open_another()

    @pytest.mark.parametrize(("one", "other"), LOOK_ALIKES.values(), ids=LOOK_ALIKES.keys())
    def test_scopes_that_look_alike_are_two(self, vectors: RemoteVectors, one: str, other: str) -> None:
        spaces = [VectorSpace(Scope(name), "long-term", "fixed@1") for name in (one, other)]
        vectors.add(spaces[0], ["m1", "m2"], np.stack([unit(1, 0), unit(1, 1)]))
        vectors.add(spaces[1], ["m1"], np.stack([unit(0, 1)]))
        assert [match.score for match in vectors.search(spaces[0], unit(1, 0), 1)] == pytest.approx([1], abs=1e-5)
        assert [match.id for match in vectors.search(spaces[1], unit(1, 0), 9)] == ["m1"]
        vectors.remove(spaces[1], ["m1", "m2"])
        vectors.clear(spaces[1])
        assert [match.id for match in vectors.search(spaces[0], unit(1, 0), 9)] == ["m1", "m2"]

    def test_any_name_of_an_agent_a_namespace_and_an_embedder_will_do(self, vectors: RemoteVectors) -> None:
        for name in ODD:
            space = VectorSpace(Scope(name), "long-term", "fixed@1")
            vectors.add(space, [name], np.stack([unit(1, 0)]))
            assert [match.id for match in vectors.search(space, unit(1, 0), 9)] == [name]
            assert [match.id for match in vectors.search(space, unit(1, 0), 9, frozenset({name, "no"}))] == [name]
            vectors.remove(space, [name])
            assert vectors.search(space, unit(1, 0), 9) == []
        odd = VectorSpace(Scope("alice"), "a'b\\\" ; 预", "%/../$" + "y" * 300)
        vectors.add(odd, ["m1"], np.stack([unit(1, 0)]))
        assert [match.id for match in vectors.search(odd, unit(1, 0), 9)] == ["m1"]
        assert vectors.search(HOME, unit(1, 0), 9) == []

    def test_many_can_be_added_found_among_others_and_removed(self, vectors: RemoteVectors) -> None:
        ids, rows = fan(self.many)
        vectors.add(HOME, ids, rows)
        vectors.add(VectorSpace(Scope("bob"), HOME.namespace, HOME.embedder), ids, rows)
        assert [match.id for match in vectors.search(HOME, unit(1, 0), 3)] == ids[:3]
        half = frozenset(ids[1::2])
        assert [match.id for match in vectors.search(HOME, unit(1, 0), 5, half)] == ids[1:11:2]
        last = frozenset(ids[-(self.many // 3) :])  # hidden behind all the others
        assert [match.id for match in vectors.search(HOME, unit(1, 0), 3, last)] == sorted(last)[:3]
        assert {match.id for match in vectors.search(HOME, unit(1, 0), self.many, last)} == last
        vectors.remove(HOME, ids[: self.many // 2])
        assert [match.id for match in vectors.search(HOME, unit(1, 0), 2)] == ids[self.many // 2 :][:2]
        vectors.clear(HOME)
        assert vectors.search(HOME, unit(1, 0), 3) == []
        assert len(vectors.search(VectorSpace(Scope("bob"), HOME.namespace, HOME.embedder), unit(1, 0), 3)) == 3

    def test_two_that_start_at_once_share_one_collection(self, open_another: Opener) -> None:
        stores = [open_another(), open_another()]
        start, failures = threading.Barrier(4), list[BaseException]()

        def work(number: int) -> None:
            try:
                start.wait()
                stores[number % 2].add(HOME, [f"m{number}"], np.stack([unit(1, number)]))
            except BaseException as error:  # noqa: BLE001 - told to the main thread
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        for store in stores:
            assert [match.id for match in store.search(HOME, unit(1, 0), 9)] == ["m0", "m1", "m2", "m3"]

    def test_a_closed_one_says_so_and_closing_twice_is_harmless(self, vectors: RemoteVectors) -> None:
        vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
        vectors.close()
        vectors.close()
        with pytest.raises(StoreClosed):
            vectors.search(HOME, unit(1, 0), 1)


def fan(count: int) -> tuple[list[str], Matrix]:
    """Ids in the order of their similarity to (1, 0), and their vectors."""
    angles = np.linspace(0, 1.5, count)
    return [f"m{i:05}" for i in range(count)], np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def quickly_away(vectors: RemoteVectors, secret: str = "") -> None:
    """Every call to a server that is away is a `StoreError` within seconds, and shows no secret."""
    calls: list[Callable[[], object]] = [
        lambda: vectors.add(HOME, ["m1"], np.stack([unit(1, 0)])),
        lambda: vectors.search(HOME, unit(1, 0), 1),
        lambda: vectors.remove(HOME, ["m1"]),
        lambda: vectors.clear(HOME),
    ]
    for call in calls:
        begun = time.monotonic()
        with pytest.raises(StoreError, match="cannot be used") as caught:
            call()
        assert time.monotonic() - begun < 15
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert not secret or secret not in str(caught.value) + repr(vectors)
    vectors.close()


def missing(adapter: str, client: str, url: str) -> str:
    """What opening says when the client is not installed; the rest of Engram does not need it."""
    code = (
        f"import sys; sys.modules[{client!r}] = None\n"
        f"import engram\nfrom engram.stores.vectors import {adapter}\nfrom engram.errors import MissingExtra\n"
        f"try: {adapter}.open_vectors({url!r})\nexcept MissingExtra as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return done.stdout.strip()


class Drawer:
    """A database made of dictionaries; its few limits are small."""

    batch = 7
    most = 40

    def __init__(self) -> None:
        self.collections: dict[str, tuple[int, dict[str, tuple[str, Point]]]] = {}
        self.calls: list[tuple[str, int]] = []
        self.hidden = False

    def dimension(self, name: str) -> int | None:
        self.calls.append(("dimension", 0))
        return None if self.hidden or name not in self.collections else self.collections[name][0]

    def create(self, name: str, dim: int) -> None:
        self.hidden = False
        if name in self.collections:
            raise ValueError("exists already")
        self.collections[name] = (dim, {})

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        self.calls.append(("put", len(points)))
        assert len({point.key for point in points}) == len(points) <= self.batch
        self.collections[name][1].update({point.key: (scope, point) for point in points})

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        self.calls.append(("nearest", k))
        assert k <= self.most
        rows = self.collections[name][1]
        some = [rows[key] for key in rows if keys is None or key in keys]
        all_of_them = [Match(p.id, float(np.dot(p.vector, vector))) for owner, p in some if owner == scope]
        return sorted(all_of_them, key=lambda match: -match.score)[:k]

    def drop(self, name: str, scope: str, keys: list[str]) -> None:
        assert len(keys) <= self.batch
        for key in keys:
            self.collections[name][1].pop(key, None)

    def clear(self, name: str, scope: str) -> None:
        rows = self.collections[name][1]
        for key in [key for key, (owner, _) in rows.items() if owner == scope]:
            del rows[key]

    def close(self) -> None:
        self.calls.append(("close", 0))


@pytest.fixture
def drawer() -> Drawer:
    return Drawer()


@pytest.fixture
def vectors(drawer: Drawer) -> RemoteVectors:
    made = RemoteVectors(lambda: drawer, parse("drawer+http://KEY@host", "drawer"))
    made.few = 10
    return made


class TestADictionaryKeepsTheContract(RemoteVectorsContract):
    backend = "a dictionary"
    verified = "a fake, to test the suite"

    @pytest.fixture
    def open_another(self, drawer: Drawer) -> Iterator[Opener]:
        drawer.most = 10_000
        return lambda: RemoteVectors(lambda: drawer, parse("drawer:x", "drawer"))  # type: ignore[return-value]


def test_a_common_id_is_found_by_fetching_more_and_a_rare_one_by_its_name(
    vectors: RemoteVectors, drawer: Drawer
) -> None:
    ids, rows = fan(100)
    vectors.add(HOME, ids, rows)
    drawer.calls.clear()
    assert [match.id for match in vectors.search(HOME, unit(1, 0), 2, frozenset(ids[1::2]))] == ["m00001", "m00003"]
    assert drawer.calls == [("nearest", 8)]
    drawer.calls.clear()
    assert [match.id for match in vectors.search(HOME, unit(1, 0), 2, frozenset(ids[75:]))] == ["m00075", "m00076"]
    assert drawer.calls == [("nearest", 8), ("nearest", 32), *[("nearest", 2)] * 3]


def test_what_a_collection_is_for_is_asked_once_and_again_after_an_error(
    vectors: RemoteVectors, drawer: Drawer
) -> None:
    for _ in range(3):
        vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
    assert [call for call, _ in drawer.calls].count("dimension") == 2
    drawer.collections.clear()
    with pytest.raises(StoreError):
        vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
    vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
    assert len(vectors.search(HOME, unit(1, 0), 1)) == 1


def test_a_collection_that_another_made_in_the_meantime_is_used(vectors: RemoteVectors, drawer: Drawer) -> None:
    drawer.create(remote.collection_name("", HOME), 2)
    drawer.hidden = True
    vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
    assert len(vectors.search(HOME, unit(1, 0), 1)) == 1


def test_an_error_of_the_client_is_translated_shortened_and_shows_no_key(drawer: Drawer) -> None:
    class Angry(Drawer):
        def dimension(self, name: str) -> int | None:
            raise OSError("refused KEY-7\n" + "x" * 1000)

    for url, key in (("drawer+http://KEY-7@host:1", None), ("drawer+http://u:KEY-7@host", None), ("drawer:x", "KEY-7")):
        vectors = RemoteVectors(Angry, parse(url, "drawer", (), key))
        with pytest.raises(StoreError, match=r"OSError: refused \*\*\* x") as caught:
            vectors.clear(HOME)
        assert len(str(caught.value)) < 500
        assert "KEY-7" not in str(caught.value) + repr(vectors) + repr(parse(url, "drawer", (), key))


def test_it_connects_at_the_first_call_and_tries_again_after_a_failure(drawer: Drawer) -> None:
    tries = []

    def connect() -> Drawer:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionRefusedError("nobody there")
        return drawer

    vectors = RemoteVectors(connect, parse("drawer:x", "drawer"))
    assert tries == []
    with pytest.raises(StoreError, match="nobody there"):
        vectors.search(HOME, unit(1, 0), 1)
    assert vectors.search(HOME, unit(1, 0), 1) == []
    vectors.search(HOME, unit(1, 0), 1)
    assert len(tries) == 2


def test_vectors_of_two_spaces_do_not_meet(drawer: Drawer) -> None:
    one, two = (RemoteVectors(lambda: drawer, parse(f"drawer:x?space={s}", "drawer")) for s in ("one", "two"))
    one.add(HOME, ["m1"], np.stack([unit(1, 0)]))
    assert two.search(HOME, unit(1, 0), 1) == []
    assert len(one.search(HOME, unit(1, 0), 1)) == 1


def test_names_are_plain_and_do_not_change_from_one_version_to_the_next() -> None:
    assert remote.collection_name("", HOME) == "Engram_221f21da58f7d5dc92f449047bede73b"
    assert remote.scope_name(HOME.scope) == "18fa15c442adf6103060e7577e202b45"
    assert remote.point_key(HOME.scope, "m1") == "a8df9e49-b13e-51ee-a024-6a7f10af0e1a"
    assert remote.point_key(Scope("a"), "bc") != remote.point_key(Scope("ab"), "c")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "path",
        "other:path",
        "drawer+ftp://host",
        "drawer+http:path",
        "drawer+http://SECRET@host:port",
        "drawer+http://SECRET@host:99999",
        "drawer+http://SECRET@[::1",
        "drawer+http://SECRET@host?unknown=SECRET",
        "drawer+http://SECRET@host?SECRETLESS",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(url, "drawer")
    assert "SECRET@" not in str(caught.value)
    assert "=SECRET" not in str(caught.value)


def test_the_parts_of_a_url_are_decoded() -> None:
    address = parse("drawer+https://u%40x:p%2Fw@[::1]:80/a%20b?space=%C3%A9", "drawer")
    assert (address.user, address.password, address.key) == ("u@x", "p/w", "p/w")
    assert (address.transport, address.host, address.port, address.path) == ("https", "::1", 80, "/a b")
    assert address.space == "é"
    assert str(address) == "https://::1:80"


def test_a_key_in_the_url_goes_before_the_one_in_the_settings() -> None:
    assert parse("drawer+http://ONE@host", "drawer", (), "TWO").key == "ONE"
    assert parse("drawer+http://u:ONE@host", "drawer", (), "TWO").key == "ONE"
    assert parse("drawer+http://host", "drawer", (), "TWO").key == "TWO"


def test_a_client_that_is_not_installed_is_named_with_its_extra() -> None:
    for call in (remote.require, remote.load):
        with pytest.raises(MissingExtra, match=r'nobodys_client: pip install "engram-learning\[drawer\]"'):
            call("nobodys_client", "drawer")
