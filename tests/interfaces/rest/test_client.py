"""The typed client says what the library itself says, with and without `await`."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

import engram
from engram.client import AsyncClient, Client, stubs
from engram.client.calls import METHODS
from engram.client.rest import EventLines, error_of
from engram.client.sending import TRIES
from engram.errors import Conflict, EngramError, InvalidInput, NotAllowed, NotFound, StoreAway, Unauthenticated
from engram.model import Draft, Memory, Recall
from engram.model.wire import Problem
from engram.server.rest.app import document
from support.rest_server import URL, House, house


@pytest.fixture
def home() -> Iterator[House]:
    with house() as opened:
        yield opened


@pytest.fixture
def alice(home: House) -> Iterator[Client]:
    with client(home, home.key("alice")) as opened:
        yield opened


def client(home: House, token: str, agent: str | None = None) -> Client:
    return Client(URL, token, agent, http=httpx.Client(transport=home.transport), sleep=lambda seconds: None)


def test_it_gives_the_same_values_as_the_library(home: House, alice: Client) -> None:
    own = home.brain.agent("alice")
    receipt = alice.remember("Staging runs PostgreSQL 15", tags=["db"], kind="knowledge")
    assert receipt.ok
    assert receipt.id is not None
    assert alice.get(receipt.id) == own.get(receipt.id)
    assert alice.list(kinds="knowledge", tags="db") == own.list(kinds="knowledge")
    hits = alice.recall("which database is in staging?", 3)
    assert isinstance(hits, Recall)
    assert [hit.id for hit in hits] == [receipt.id]
    assert alice.outcome(hits.id, "success", used=hits)
    changed = alice.annotate(receipt.id, importance=0.9, expected_version=1)
    assert (changed.version, changed.importance) == (2, 0.9)
    with pytest.raises(Conflict):
        alice.annotate(receipt.id, importance=0.1, expected_version=1)
    assert alice.forget(receipt.id).forgotten
    assert not alice.forget(receipt.id).forgotten
    assert alice.get(receipt.id) is None


def test_a_recall_can_be_widened_by_related_concepts(home: House, alice: Client) -> None:
    own = home.brain.agent("alice")
    own.semantic.tell("Alice works on Billing. Billing uses PostgreSQL 15.")
    own.remember([f"Meeting {n} of the team was moved to room {n}" for n in range(20)])
    question = "which storage does Alice need?"
    assert not [hit for hit in alice.recall(question, 3) if "expanded" in hit.why]
    assert [hit.id for hit in alice.recall(question, 3, expand=True) if "expanded" in hit.why]
    assert "PostgreSQL 15" in alice.context(question, 3, expand=True)


def test_several_are_remembered_at_once_in_order(alice: Client) -> None:
    receipts = alice.remember(["one", Draft("two", tags=("a",)), {"text": " "}], tags=["x"])
    assert [receipt.status for receipt in receipts] == ["stored", "stored", "rejected"]
    two = alice.get(receipts[1].id or "")
    assert two is not None
    assert two.tags == ("a", "x")
    assert alice.remember([]) == []


def test_pages_go_on_where_the_last_one_ended(alice: Client) -> None:
    alice.remember([f"memory {n}" for n in range(5)])
    seen: list[Memory] = []
    cursor = None
    while True:
        page = alice.page(cursor, limit=2)
        seen += page.items
        if (cursor := page.next_cursor) is None:
            break
    assert seen == alice.list()


def test_learning_goes_over_the_wire(home: House, alice: Client) -> None:
    for _ in range(6):
        alice.record_decision(context="flaky test", action="rerun", outcome="success")
        bad = alice.record_decision(context="flaky test", action="skip").id or ""
        assert alice.outcome(bad, "failure", error=ValueError("no"))
    assert alice.suggest(context="flaky test").recommended == "rerun"
    assert alice.predict(context="flaky test", action="rerun").probability > 0.6
    assert len(alice.decisions("flaky test")) == 12
    assert [each.quality for each in alice.outcomes(bad)] == [0.0]
    pattern = alice.learn_from_failure(ValueError("no such port: 5432"), "start the server", action="connect")
    assert alice.failure(pattern.pattern_id) == home.brain.agent("alice").learning.failure(pattern.pattern_id)
    assert alice.failure("none") is None
    assert alice.failures()
    alice.tried(pattern.pattern_id, "start the server", helped=True)
    made = alice.generate(pattern.pattern_id, stage="build")
    assert made
    assert all(check in alice.checks() for check in made)
    assert alice.check(action="connect").decision in {"allow", "warn", "block"}
    assert alice.stats().decisions == 12
    assert alice.success_patterns() is not None
    assert alice.decision_templates() is not None
    assert alice.evaluate(period="day").agents == ("alice",)
    assert [view.name for view in alice.agents()] == ["alice"]


def test_patterns_that_others_share_are_listed_with_their_source(home: House, alice: Client) -> None:
    bob = home.brain.agent("bob")
    for _ in range(4):
        bob.record_decision(context="release of service X", action="rolling update", outcome="success")
    known = bob.learn_from_failure("TimeoutError: no answer", "clear the cache", action="npm install")
    bob.learning.generate(known.pattern_id)
    lists = (alice.failures, alice.success_patterns, alice.decision_templates, alice.checks)
    assert [each() for each in lists] == [[], [], [], []]
    assert alice.failure(known.pattern_id) is None
    grant = bob.grants.share("alice", everything=True)
    for each in lists:
        assert [(one.source.name, one.source.id) for one in each() if one.source] == [("bob", grant.id)], each
    found = alice.failure(known.pattern_id)
    assert found is not None
    assert found.source is not None
    assert found.own is not None
    assert "patterns" in {use.action for use in bob.grants.uses(grant.id)}
    alice.learn_from_failure("ValueError: mine")
    assert [one.source is None for one in alice.failures()] == [True, False], "the own ones come first"
    bob.grants.revoke(grant.id)
    assert [len(each()) for each in lists] == [1, 0, 0, 0]
    assert alice.failure(known.pattern_id) is None


def test_cycles_and_runs_go_over_the_wire(home: House, alice: Client) -> None:
    cycle = alice.propose(tool="shell", arguments={"line": "ls"})
    assert alice.state().interrupted is not None
    assert alice.result(cycle.index, error={"message": "no disk"}).status == "failed"
    other = alice.propose(thoughts="what now?")
    assert alice.resolve(other.index, "abandon", reason="nothing").status == "abandoned"
    assert [each.index for each in alice.cycles()] == [2, 1]
    step = "{name: a, stages: [{name: s, steps: [{name: t, run: greet}]}]}"
    home.brain.agent("alice").workflows(steps={"greet": dict}).run(step, id="one")
    assert [run.run for run in alice.runs()] == ["one"]
    assert alice.run("one").status == "done"


def test_it_raises_the_errors_of_the_library(home: House, alice: Client) -> None:
    with pytest.raises(NotFound):
        alice.annotate("none", tags=[])
    with pytest.raises(NotFound):
        alice.outcome("none", "success")
    for wrong in (lambda: alice.recall("x", k=0), lambda: alice.remember("x", importance=7)):
        with pytest.raises(InvalidInput):
            wrong()
    with client(home, home.key("alice", rights=("read",))) as reader, pytest.raises(NotAllowed):
        reader.remember("no")
    with client(home, "eng_nobody_" + "a" * 43) as stranger, pytest.raises(Unauthenticated):
        stranger.list()
    with client(home, home.key("alice"), "bob") as other, pytest.raises(NotFound):
        other.recall("x")
    rejected = alice.remember(" ")
    assert (rejected.status, rejected.code) == ("rejected", "invalid")
    assert alice.remember("one", key="k").ok
    assert alice.remember("two", key="k").code == "conflict"


def test_every_error_comes_back_as_itself() -> None:
    from engram import errors

    tree = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, EngramError)]
    for kind in tree:
        problem = Problem(type="x", title="x", status=400, detail="why", code=kind.code)
        assert type(error_of(problem.status, problem.model_dump_json().encode())) is kind
    assert type(error_of(503, b"<html>proxy</html>")) is StoreAway


def test_an_agent_with_any_name_can_be_meant(home: House) -> None:
    name = "ågent / 7 ☃"
    with client(home, home.key("*"), name) as one:
        one.remember("hello")
        assert [view.name for view in one.agents()] == [name]
        found = one.agent(name)
    assert found is not None
    assert found.name == name
    assert [memory.text for memory in home.brain.agent(name).list()] == ["hello"]


class Flaky(httpx.BaseTransport):
    """A way to the server on which the first answers get lost, after the server has done its work, or before."""

    def __init__(self, inner: httpx.BaseTransport, *faults: str) -> None:
        self._inner = inner
        self._faults = list(faults)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        fault = self._faults.pop(0) if self._faults else ""
        if fault == "before":
            raise httpx.ConnectError("nobody there")
        answer = self._inner.handle_request(request)
        if fault == "after":
            raise httpx.ReadError("cut off")
        if fault == "busy":
            return httpx.Response(503, headers={"Retry-After": "1"}, content=b"{}")
        return answer


@pytest.mark.parametrize("fault", ["before", "after", "busy"])
def test_a_write_whose_answer_got_lost_is_sent_again_and_done_once(home: House, fault: str) -> None:
    way, pauses = Flaky(home.transport, fault, fault), list[float]()
    with Client(URL, home.key("alice"), http=httpx.Client(transport=way), sleep=pauses.append) as flaky:
        receipt = flaky.remember("one")
        assert flaky.record_decision(context="c", action="a").ok
    assert receipt.ok
    assert len(home.brain.agent("alice").list()) == 2
    assert len(way.requests) == 4
    assert len({request.headers["Idempotency-Key"] for request in way.requests[:3]}) == 1
    assert way.requests[3].headers["Idempotency-Key"] != way.requests[0].headers["Idempotency-Key"]
    assert len(pauses) == 2
    assert (min(pauses) >= 1) == (fault == "busy")


def test_what_is_not_safe_to_repeat_is_not_repeated_and_patience_ends(home: House) -> None:
    way = Flaky(home.transport, "after")
    with Client(URL, home.key("alice"), http=httpx.Client(transport=way), sleep=lambda s: None) as flaky:
        with pytest.raises(StoreAway):
            flaky.tried("none", "retry")
        assert len(way.requests) == 1
    way = Flaky(home.transport, *["before"] * 10)
    with Client(URL, home.key("alice"), http=httpx.Client(transport=way), sleep=lambda s: None) as flaky:
        with pytest.raises(StoreAway):
            flaky.recall("x")
        assert len(way.requests) == TRIES


def test_events_are_heard(alice: Client) -> None:
    alice.remember("one")
    alice.record_decision(context="c", action="a")
    heard = list(alice.events(after=0, seconds=0))
    assert [event.event for event in heard] == ["stored", "stored", "decision"]
    assert list(alice.events(after=heard[0].seq, seconds=0)) == heard[1:]
    reader = EventLines()
    assert [reader.read(line) for line in (": still here", "", "retry: 2000", "")] == [None] * 4


def test_an_agent_with_any_name_is_heard(home: House) -> None:
    name = "line\u2028paragraph\u2029next\x85"
    with client(home, home.key(name), name) as strange:
        strange.remember("one")
        assert [event.agent for event in strange.events(after=0, seconds=0)] == [name]


def test_a_stream_of_events_that_is_cut_off_is_an_error_of_the_library(home: House) -> None:
    way = Flaky(home.transport, "before", "after")
    with Client(URL, home.key("alice"), http=httpx.Client(transport=way)) as flaky:
        for _ in range(2):
            with pytest.raises(StoreAway, match="does not answer"):
                list(flaky.events(after=0, seconds=0))

    async def listen() -> None:
        async with AsyncClient("http://127.0.0.1:9", "eng_x", timeout=5) as away:
            async for _ in away.events():
                pass

    with pytest.raises(StoreAway):
        asyncio.run(listen())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("key", ["eng_x\n", "eng_\u00e9", "eng_x\x00"])
def test_a_key_that_cannot_be_sent_is_refused_at_once(kind: Any, key: str) -> None:
    with pytest.raises(InvalidInput, match="copy it again"):
        kind(URL, key)


def test_the_clients_are_alike() -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: each for name, each in inspect.getmembers(kind) if not name.startswith("_")}

    assert public(Client).keys() == public(AsyncClient).keys()
    for name, each in public(Client).items():
        assert each.__doc__ == public(AsyncClient)[name].__doc__


def by_position(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    return [
        each.name for each in parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "self"
    ]


def test_it_has_the_names_and_arguments_of_an_agent() -> None:
    names = {name for name in vars(engram.AgentHandle) if not name.startswith("_")}
    wanted = {
        "remember",
        "recall",
        "context",
        "get",
        "list",
        "annotate",
        "forget",
        "record_decision",
        "outcome",
        "outcomes",
        "decisions",
        "suggest",
        "predict",
        "check",
        "learn_from_failure",
    }
    assert wanted <= names
    of_the_library = {"shared", "offset"}
    for name in wanted - {"remember"}:
        own = inspect.signature(getattr(engram.AgentHandle, name)).parameters
        theirs = inspect.signature(getattr(Client, name)).parameters
        named = {each.name for each in own.values() if each.kind is not each.VAR_KEYWORD}
        assert named - theirs.keys() <= of_the_library, name
        assert by_position(own) == by_position(theirs), name


def test_the_types_of_the_methods_are_those_of_the_operations() -> None:
    assert stubs.FILE.read_text(encoding="utf-8") == stubs.text(), "run `make stubs`"
    assert METHODS.keys() <= {*dir(Client)}


@pytest.mark.parametrize("module", ["engram.client", "engram.client.grpc"])
def test_a_client_does_not_import_the_engine(module: str) -> None:
    code = (
        f"import sys, {module}; rooms = {{name.split('.')[1] for name in sys.modules if name.startswith('engram.')}};"
        "print(*sorted(rooms), 'numpy' in sys.modules, 'sqlalchemy' in sys.modules, sep=',')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    *rooms, numpy, sqlalchemy = done.stdout.strip().split(",")
    assert (numpy, sqlalchemy) == ("False", "False")
    assert {*rooms} <= {"api", "client", "clock", "errors", "model", "server", "system", "text"}


ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "remember": (("one",), {}),
    "get": (("1",), {}),
    "annotate": (("1",), {"tags": ["x"]}),
    "forget": (("1",), {}),
    "recall": (("one",), {}),
    "context": (("one",), {}),
    "record_decision": ((), {"context": "c", "action": "a"}),
    "outcome": (("1", "success"), {}),
    "outcomes": (("1",), {}),
    "decisions": (("c",), {}),
    "suggest": ((), {"context": "c"}),
    "predict": ((), {"context": "c", "action": "a"}),
    "check": ((), {"action": "a"}),
    "learn_from_failure": (("ValueError: no",), {}),
    "failure": (("1",), {}),
    "tried": (("1", "retry"), {}),
    "generate": (("1",), {}),
    "agent": (("alice",), {}),
    "result": ((1,), {}),
    "resolve": ((1, "abandon"), {}),
    "cycle": ((1,), {}),
    "snapshots": (("site",), {}),
    "diff": (("site", "1"), {}),
    "run": (("1",), {}),
    "request_grant": (("bob",), {"purpose": "to learn", "tags": "x"}),
    "offer_grant": (("bob",), {"purpose": "to teach", "tags": "x"}),
    "share": (("bob",), {"tags": "x"}),
    "approve_grant": (("1",), {}),
    "deny_grant": (("1",), {}),
    "revoke_grant": (("1",), {}),
    "grant": (("1",), {}),
    "grant_uses": (("1",), {}),
    "change_group": (("team",), {"add": "alice"}),
    "quarantined_memory": (("1",), {}),
    "release": (("1",), {}),
    "discard": (("1",), {}),
    "import_knowledge": ((b"{}",), {}),
    "merge_knowledge": (("bob",), {}),
    "set_policy": (("old", "forget"), {"tags": "scratch"}),
    "remove_policy": (("old",), {}),
    "hold": (("a case",), {"agent": "bob"}),
    "release_hold": (("1",), {}),
}
"""What the methods are called with that need something."""
OF_THE_CLIENT = {"close"}


class Heard(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Hears every request, and answers none."""

    def __init__(self) -> None:
        self.requests: set[tuple[str, str]] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.add((request.method, request.url.path))
        return httpx.Response(418)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


def asked(heard: Heard) -> set[str]:
    """The operations that somebody asked for, by their ids."""
    found = set()
    for path, item in document()["paths"].items():
        shape = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        found |= {
            operation["operationId"]
            for method, operation in item.items()
            if any(sent == method.upper() and shape.fullmatch(where) for sent, where in heard.requests)
        }
    return found


OPERATIONS = {operation["operationId"] for item in document()["paths"].values() for operation in item.values()}


def test_every_operation_of_the_server_has_a_method() -> None:
    heard = Heard()
    with Client(URL, "eng_x", http=httpx.Client(transport=heard)) as client:
        for name in public_names(Client):
            args, named = ARGUMENTS.get(name, ((), {}))
            with pytest.raises(EngramError):
                list(getattr(client, name)(*args, **named))
        with pytest.raises(EngramError):
            client.remember(["one", "two"])
    assert asked(heard) == OPERATIONS


def test_every_operation_of_the_server_has_a_method_with_await(home: House) -> None:
    heard = Heard()

    async def talk() -> None:
        async with AsyncClient(URL, "eng_x", http=httpx.AsyncClient(transport=heard)) as client:
            for name in public_names(AsyncClient):
                args, named = ARGUMENTS.get(name, ((), {}))
                begun = getattr(client, name)(*args, **named)
                with pytest.raises(EngramError):
                    await (anext(begun) if name == "events" else begun)
            with pytest.raises(EngramError):
                await client.remember(["one", "two"])

    home.portal.call(talk)
    assert asked(heard) == OPERATIONS


def public_names(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and name not in OF_THE_CLIENT]


def test_retention_goes_over_the_wire(home: House) -> None:
    with client(home, home.key("*", rights=("admin",)), "alice") as admin:
        memory = admin.remember("scratch", tags=["scratch"]).id or ""
        policy = admin.set_policy("old", "forget", tags="scratch")
        assert admin.policies() == [policy]
        assert admin.run_retention(dry_run=True).dry_run
        held = admin.hold("a case", agent="alice", memories=memory)
        assert [each.id for each in admin.holds()] == [held.id]
        with pytest.raises(NotAllowed):
            admin.forget(memory)
        assert admin.release_hold(held.id).released_at is not None
        admin.run_retention(agents="alice")
        assert admin.get(memory) is None
        assert admin.remove_policy("old").name == "old"
        with pytest.raises(NotFound):
            admin.remove_policy("old")


def test_a_memory_is_forgotten_only_if_it_has_the_version_that_is_expected(alice: Client) -> None:
    id = alice.remember("one").id or ""
    with pytest.raises(Conflict):
        alice.forget(id, expected_version=2)
    assert alice.forget(id, expected_version=1).forgotten


def test_the_server_says_how_it_is(home: House, alice: Client) -> None:
    assert alice.healthy()
    assert alice.ready()
    with pytest.raises(NotAllowed, match="admin"):
        alice.metrics()
    with client(home, home.key("prometheus", rights=("admin",))) as prometheus:
        assert "engram_operations_total" in prometheus.metrics()
    alice.remember("one")
    seen = alice.agent("alice")
    assert seen is not None
    assert seen.name == "alice"
    assert alice.agent("bob") is None
    assert alice.cycle(1) is None
    home.brain.close()
    assert not alice.ready()


@pytest.mark.parametrize(
    "url",
    [
        "http://memory.example",
        "HTTP://10.0.0.1:8750",
        "http://127.0.0.1@memory.example/",
        "http://localhost.memory.example",
        "http://0.0.0.0:8750",
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_key_is_not_sent_in_the_clear_unless_that_is_meant(url: str, kind: Any) -> None:
    heard = Heard()
    http = httpx.Client(transport=heard) if kind is Client else httpx.AsyncClient(transport=heard)
    with pytest.raises(InvalidInput, match=r"the key would be sent unencrypted.*`plaintext=True`"):
        kind(url, "eng_x", http=http)
    kind(url, "eng_x", plaintext=True, http=http)
    assert heard.requests == set()


@pytest.mark.parametrize(
    "url", ["https://memory.example", "http://127.0.0.1:1", "http://localhost/", "http://[::1]:8", "http://127.8.0.1"]
)
def test_this_machine_is_asked_without_tls_and_others_with_it(url: str) -> None:
    with Client(url, "eng_x", http=httpx.Client(transport=Heard())) as made, pytest.raises(EngramError):
        made.get("x")


@pytest.mark.parametrize("url", ["127.0.0.1:8750", "localhost:8750", "", "ftp://127.0.0.1", "http://", "http://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="not the address of a server"):
        Client(url, "eng_x")


@pytest.mark.parametrize(
    "call",
    [
        lambda it: it.remember("\ud800"),
        lambda it: it.remember(["one", "\ud800"]),
        lambda it: it.recall("\ud800"),
        lambda it: it.list(session="\ud800"),
        lambda it: it.annotate("x", tags=["\ud800"]),
        lambda it: it.record_decision(context="c", action="a", metadata={"a": ["\ud800"]}),
    ],
)
def test_half_a_character_is_refused_before_anything_is_sent(home: House, alice: Client, call: Any) -> None:
    with pytest.raises(InvalidInput, match=r"surrogate|unicode"):
        call(alice)
    with pytest.raises(InvalidInput, match="surrogate"):
        client(home, "eng_x", "\ud800")
    assert home.brain.agents() == []


def test_a_grant_whose_answer_got_lost_is_made_once(home: House) -> None:
    way = Flaky(home.transport, "after")
    token = home.key("alice", rights=("share",))
    with Client(URL, token, http=httpx.Client(transport=way), sleep=lambda s: None) as flaky:
        made = flaky.share("bob", tags="x")
        assert [grant.id for grant in flaky.grants()] == [made.id]


def test_with_await_it_does_the_same(home: House) -> None:
    async def talk() -> None:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(home.served.asgi))
        async with AsyncClient(URL, home.key("alice"), http=http) as alice:
            receipts = await alice.remember(["Staging runs PostgreSQL 15", "Production, too"])
            assert all(receipt.ok for receipt in receipts)
            assert (await alice.remember("one")).ok
            assert await alice.remember([]) == []
            hits = await alice.recall("which database is in staging?")
            assert hits[0].id == receipts[0].id
            assert await alice.get("none") is None
            heard = [event.event async for event in alice.events(after=0, seconds=0)]
            assert heard == ["stored"] * 3
            with pytest.raises(NotFound):
                await alice.run("none")

    home.portal.call(talk)
