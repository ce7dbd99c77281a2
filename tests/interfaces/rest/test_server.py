"""The server's routes, its border, and what it says when something is wrong."""

from __future__ import annotations

import inspect
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import errors
from engram.api import paging
from engram.api.limits import Buckets, Limits, flaw_of_json
from engram.api.live import HIDING
from engram.errors import ConfigError, EngramError, InvalidInput, StoreBusy
from engram.model import Draft
from engram.model.wire import MOST_AT_ONCE, NewMemory
from engram.server.metrics import COUNTED_EVERY, Metrics
from engram.server.rest import problems
from engram.server.rest.logs import line_of
from engram.server.rest.middleware import Address, request_id
from engram.server.rest.run import Binding
from engram.system import is_loopback
from support.rest_server import FREELY, House, house

ALICE = "alice"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "team.db") as opened:
        yield opened


@pytest.fixture
def alice(home: House) -> Iterator[httpx.Client]:
    with home.http(home.key(ALICE)) as client:
        yield client


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def problem(answer: httpx.Response, status: int, code: str) -> Any:
    said = ok(answer, status)
    assert answer.headers["content-type"] == problems.MEDIA
    assert (said["status"], said["code"]) == (status, code)
    assert said["type"] == f"urn:engram:problem:{code}"
    assert said["request_id"] == answer.headers["x-request-id"]
    return said


# Memories ----------------------------------------------------------------------------------------------


def test_what_is_remembered_is_recalled_and_read_with_its_version(alice: httpx.Client) -> None:
    made = ok(alice.post("/v1/memories", json={"text": "Staging runs PostgreSQL 15", "tags": ["db"]}), 201)
    found = ok(alice.post("/v1/recall", json={"query": "which database is in staging?"}))
    assert found["hits"][0]["id"] == made["id"]
    assert found["hits"][0]["recall"] == found["id"]
    one = alice.get(f"/v1/memories/{made['id']}")
    assert ok(one)["text"] == "Staging runs PostgreSQL 15"
    assert one.headers["etag"].startswith('"1-')


def test_the_same_key_is_the_same_memory_and_another_one_is_a_conflict(alice: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = ok(alice.post("/v1/memories", json={"text": "one"}, headers=headers), 201)
    again = alice.post("/v1/memories", json={"text": "one"}, headers=headers)
    assert ok(again, 201) == first
    assert again.headers["idempotency-replayed"] == "true"
    problem(alice.post("/v1/memories", json={"text": "two"}, headers=headers), 409, "conflict")
    refused = problem(alice.post("/v1/memories", json={"text": "two", "key": "k1"}), 409, "conflict")
    assert refused["receipt"]["status"] == "rejected"
    assert len(ok(alice.get("/v1/memories"))["items"]) == 1
    differs = {"Idempotency-Key": "k3"}
    problem(alice.post("/v1/memories", json={"text": "two", "key": "k2"}, headers=differs), 422, "invalid")


def test_a_batch_keeps_what_can_be_kept_and_is_safe_to_send_again(alice: httpx.Client) -> None:
    body = {"items": [{"text": "one"}, {"text": " "}, {"text": "two", "kind": "knowledge"}]}
    first = ok(alice.post("/v1/memories/batch", json=body, headers={"Idempotency-Key": "b"}))["receipts"]
    assert [receipt["status"] for receipt in first] == ["stored", "rejected", "stored"]
    again = ok(alice.post("/v1/memories/batch", json=body, headers={"Idempotency-Key": "b"}))["receipts"]
    assert [receipt["id"] for receipt in again] == [receipt["id"] for receipt in first]
    keyed = {"items": [{"text": "three", "key": "own"}]}
    problem(alice.post("/v1/memories/batch", json=keyed, headers={"Idempotency-Key": "c"}), 422, "invalid")
    too_many = {"items": [{"text": "x"}] * (MOST_AT_ONCE + 1)}
    problem(alice.post("/v1/memories/batch", json=too_many), 422, "invalid")


def test_a_memory_is_annotated_only_if_nobody_else_was_faster(alice: httpx.Client) -> None:
    path = "/v1/memories/" + ok(alice.post("/v1/memories", json={"text": "one"}), 201)["id"]
    changed = alice.patch(path, json={"tags": ["a"], "importance": 0.9}, headers={"If-Match": '"1"'})
    assert ok(changed)["tags"] == ["a"]
    assert changed.headers["etag"].startswith('"2-')
    problem(alice.patch(path, json={"tags": []}, headers={"If-Match": '"1"'}), 412, "conflict")
    problem(alice.patch(path, json={"tags": []}, headers={"If-Match": "what?"}), 412, "conflict")
    assert ok(alice.patch(path, json={"tags": []}, headers={"If-Match": "*"}))["version"] == 3
    assert ok(alice.patch(path, json={"confidence": 0.5}))["tags"] == []
    problem(alice.patch("/v1/memories/none", json={}, headers={"If-Match": '"1"'}), 404, "not_found")


def test_a_forgotten_memory_is_gone_and_the_receipt_says_what_went(alice: httpx.Client) -> None:
    id = ok(alice.post("/v1/memories", json={"text": "one"}), 201)["id"]
    assert ok(alice.delete(f"/v1/memories/{id}"))["forgotten"] is True
    assert ok(alice.delete(f"/v1/memories/{id}"))["forgotten"] is False
    problem(alice.get(f"/v1/memories/{id}"), 404, "not_found")


def test_pages_show_every_memory_once_although_others_are_stored_meanwhile(home: House, alice: httpx.Client) -> None:
    agent = home.brain.agent(ALICE)
    same = "2026-01-01T00:00:00+00:00"
    agent.remember([{"text": f"memory {n}", "at": same} for n in range(7)])
    agent.remember([{"text": f"later {n}", "at": f"2026-02-{n + 1:02}T00:00:00+00:00"} for n in range(6)])
    expected = [memory.id for memory in agent.list(limit=100)]
    seen, cursor = [], None
    while True:
        page = ok(alice.get("/v1/memories", params={"limit": 2} | ({"cursor": cursor} if cursor else {})))
        seen += [memory["id"] for memory in page["items"]]
        agent.remember("news", at="2027-01-01T00:00:00+00:00")
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == expected


def test_a_cursor_is_good_for_its_own_list_only(home: House, alice: httpx.Client) -> None:
    home.brain.agent(ALICE).remember([f"memory {n}" for n in range(3)])
    cursor = ok(alice.get("/v1/memories", params={"limit": 1}))["next_cursor"]
    for path, params in (
        ("/v1/memories", {"cursor": cursor, "tag": "x"}),
        ("/v1/failures", {"cursor": cursor}),
        ("/v1/memories", {"cursor": "bm9uZQ"}),
        ("/v1/memories", {"cursor": "é"}),
        ("/v1/cycles", {"cursor": cursor}),
    ):
        problem(alice.get(path, params=params), 422, "invalid")


@given(st.text(max_size=60))
def test_no_text_is_mistaken_for_a_cursor(text: str) -> None:
    with pytest.raises(InvalidInput):
        paging.read(text, 1, "list")


@given(st.integers(0, 1 << 59), st.text(max_size=20))
def test_a_cursor_says_what_was_written(place: int, name: str) -> None:
    assert paging.read(paging.write([place], name), 1, name) == [place]


def test_what_can_be_sent_is_what_a_draft_can_hold() -> None:
    assert set(NewMemory.model_fields) == set(Draft.model_fields)


# Learning, life, reports -------------------------------------------------------------------------------


def test_decisions_teach_what_to_do(alice: httpx.Client) -> None:
    for n in range(6):
        body = {"context": "flaky test", "action": "rerun", "outcome": "success", "tags": [str(n)]}
        ok(alice.post("/v1/decisions", json=body), 201)
        ok(alice.post("/v1/decisions", json={"context": "flaky test", "action": "skip", "outcome": 0.0}), 201)
    assert ok(alice.post("/v1/suggestions", json={"context": "flaky test"}))["recommended"] == "rerun"
    likely = ok(alice.post("/v1/predictions", json={"context": "flaky test", "action": "rerun"}))
    assert likely["probability"] > 0.6
    listed = ok(alice.get("/v1/decisions", params={"context": "flaky test", "limit": 5}))
    assert len(listed["items"]) == 5
    assert listed["next_cursor"]
    assert ok(alice.get("/v1/patterns/success"))["items"]
    assert "items" in ok(alice.get("/v1/patterns/decisions"))
    assert ok(alice.get("/v1/stats"))["decisions"] == 12
    assert ok(alice.get("/v1/evaluation", params={"period": "day"}))["agents"] == [ALICE]


def test_an_outcome_is_told_once_and_corrected_on_purpose(alice: httpx.Client) -> None:
    id = ok(alice.post("/v1/decisions", json={"context": "c", "action": "a"}), 201)["id"]
    assert ok(alice.post("/v1/outcomes", json={"id": id, "outcome": "success"})) == {"news": True}
    assert ok(alice.post("/v1/outcomes", json={"id": id, "outcome": "success"})) == {"news": False}
    problem(alice.post("/v1/outcomes", json={"id": id, "outcome": "failure"}), 409, "conflict")
    ok(alice.post("/v1/outcomes", json={"id": id, "outcome": "failure", "correct": True}))
    assert [each["quality"] for each in ok(alice.get(f"/v1/decisions/{id}/outcomes"))["items"]] == [1.0, 0.0]
    problem(alice.post("/v1/outcomes", json={"id": "none", "outcome": "success"}), 404, "not_found")


def test_a_failure_is_learned_checked_and_prevented(alice: httpx.Client) -> None:
    body = {"error": "EACCES: permission denied, mkdir '/x'", "solution": "chown", "action": "npm install"}
    first = ok(alice.post("/v1/failures", json=body, headers={"Idempotency-Key": "f"}), 201)
    again = alice.post("/v1/failures", json=body, headers={"Idempotency-Key": "f"})
    assert ok(again, 201) == first
    assert again.headers["idempotency-replayed"] == "true"
    ok(alice.post("/v1/failures", json=body), 201)
    assert [each["occurrence_count"] for each in ok(alice.get("/v1/failures"))["items"]] == [2]
    assert ok(alice.get(f"/v1/failures/{first['pattern_id']}"))["recurring"]
    tried = {"solution": "chown", "helped": True}
    assert ok(alice.post(f"/v1/failures/{first['pattern_id']}/solutions", json=tried))["known_solutions"]
    assert ok(alice.post("/v1/checks", json={"action": "npm install"}))["decision"] != "allow"
    assert ok(alice.post("/v1/prevention/checks", json={"pattern": first["pattern_id"], "stage": "build"}))["items"]
    assert ok(alice.get("/v1/prevention/checks"))["items"][0]["stage"] == "build"
    problem(alice.get("/v1/failures/none"), 404, "not_found")
    problem(alice.post("/v1/prevention/checks", json={"pattern": "none"}), 404, "not_found")


def test_cycles_begin_end_and_are_decided_about(alice: httpx.Client) -> None:
    first = ok(alice.post("/v1/cycles", json={"tool": "shell", "arguments": {"line": "ls"}}), 201)
    problem(alice.post("/v1/cycles", json={"tool": "shell", "arguments": {"line": "ls"}}), 409, "conflict")
    assert ok(alice.get("/v1/cycles/state"))["interrupted"]["index"] == first["index"]
    second = ok(alice.post(f"/v1/cycles/{first['index']}/resolution", json={"how": "retry"}))
    done = ok(alice.post(f"/v1/cycles/{second['index']}/result", json={"output": {"files": 3}}))
    assert done["status"] == "done"
    third = ok(alice.post("/v1/cycles", json={"thoughts": "what now?"}), 201)
    failed = {"error": {"message": "no disk", "kind": "OSError"}}
    assert ok(alice.post(f"/v1/cycles/{third['index']}/result", json=failed))["status"] == "failed"
    page = ok(alice.get("/v1/cycles", params={"limit": 2}))
    assert [cycle["index"] for cycle in page["items"]] == [3, 2]
    rest = ok(alice.get("/v1/cycles", params={"limit": 2, "cursor": page["next_cursor"]}))
    assert [cycle["index"] for cycle in rest["items"]] == [1]
    assert rest["next_cursor"] is None
    assert ok(alice.get("/v1/cycles/1"))["status"] == "retried"
    problem(alice.get("/v1/cycles/9"), 404, "not_found")


def test_workspaces_and_workflows_are_shown(home: House, alice: httpx.Client, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    agent = home.brain.agent(ALICE)
    agent.workspaces.create("site", folder)
    first = agent.workspaces.snapshot("site")
    (folder / "new.txt").write_text("hello")
    agent.workspaces.snapshot("site")
    assert ok(alice.get("/v1/workspaces"))["items"][0]["name"] == "site"
    assert len(ok(alice.get("/v1/workspaces/site/snapshots"))["items"]) == 2
    changed = ok(alice.get("/v1/workspaces/site/diff", params={"before": first.id}))
    assert [change["path"] for change in changed["changes"]] == ["new.txt"]
    problem(alice.get("/v1/workspaces/none/snapshots"), 404, "not_found")
    step = "{name: a, stages: [{name: s, steps: [{name: t, run: greet}]}]}"
    result = agent.workflows(steps={"greet": lambda: {"said": "hello"}}).run(step)
    assert ok(alice.get("/v1/workflows/runs"))["items"][0]["run"] == result.run
    assert ok(alice.get(f"/v1/workflows/runs/{result.run}"))["status"] == "done"
    problem(alice.get("/v1/workflows/runs/none"), 404, "not_found")


def test_agents_are_listed_as_far_as_the_key_reaches(home: House) -> None:
    for name in ("alice", "bob", "ågent/7"):
        home.brain.agent(name).remember("hello")
    with home.http(home.key("alice", "ågent/7")) as some, home.http(home.key("*")) as all_of_them:
        assert [each["name"] for each in ok(some.get("/v1/agents"))["items"]] == ["alice", "ågent/7"]
        assert [each["name"] for each in ok(all_of_them.get("/v1/agents"))["items"]] == ["alice", "bob", "ågent/7"]
        assert ok(some.get("/v1/agents/alice"))["name"] == "alice"
        problem(some.get("/v1/agents/bob"), 404, "not_found")
        problem(some.get("/v1/memories"), 422, "invalid")
        named = some.get("/v1/memories", headers={"Engram-Agent": "%C3%A5gent%2F7"})
        assert [memory["agent"] for memory in ok(named)["items"]] == ["ågent/7"]


# Events ------------------------------------------------------------------------------------------------


def told(answer: httpx.Response) -> list[tuple[int, dict[str, Any]]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in fields:
            found.append((int(fields["id"]), json.loads(fields["data"])))
    return found


def test_events_tell_what_came_went_and_was_learned_and_go_on_where_they_stopped(
    home: House, alice: httpx.Client
) -> None:
    id = ok(alice.post("/v1/memories", json={"text": "one"}), 201)["id"]
    decision = ok(alice.post("/v1/decisions", json={"context": "c", "action": "a"}), 201)["id"]
    alice.post("/v1/outcomes", json={"id": decision, "outcome": "success"})
    alice.delete(f"/v1/memories/{id}")
    home.brain.agent("bob").remember("secret of bob")
    events = told(alice.get("/v1/events", params={"after": 0, "seconds": 0}))
    assert [(event["event"], event["subject"]) for _, event in events] == [
        ("stored", decision),
        ("decision", decision),
        ("outcome", decision),
        ("forgotten", id),
    ]
    assert [seq for seq, _ in events] == [event["seq"] for _, event in events]
    last = str(events[1][0])
    assert told(alice.get("/v1/events?seconds=0", headers={"Last-Event-ID": last})) == events[2:]
    assert told(alice.get("/v1/events?seconds=0")) == []
    problem(alice.get("/v1/events?seconds=0", headers={"Last-Event-ID": "x"}), 422, "invalid")


def test_a_stream_hears_what_happens_while_it_is_open_and_ends_with_its_key(home: House) -> None:
    made, token = home.keys.create("listener", agents=["alice", "bob"])

    def listen() -> httpx.Response:
        with home.http(token) as client:
            return client.get("/v1/events")

    future = home.portal.start_task_soon(_in_thread, listen)
    until(lambda: bool(home.served.api.state.streams._open))
    home.brain.agent("carol").remember("news")
    home.brain.agent("alice").remember("news")
    until(lambda: home.brain.store.setting(HIDING) is not None)
    home.keys.revoke(made.id)
    events = told(future.result(timeout=60))
    assert [event["agent"] for _, event in events] == ["alice"]


def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come true")


async def _in_thread(call: Any) -> Any:
    from anyio.to_thread import run_sync

    return await run_sync(call)


# The border --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/memories", "/healthz", "/readyz", "/metrics", "/openapi.json", "/nowhere"])
def test_other_hosts_and_foreign_pages_are_refused_everywhere(home: House, path: str) -> None:
    alice = home.http(home.key(ALICE, rights=("admin",)))
    for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1:80:80", "", "localhost@evil.example"):
        problem(alice.get(path, headers={"Host": host}), 421, "misdirected")
    foreign = ("https://evil.example", "null", "http://127.0.0.1.evil.example", "http://localhost:1", "http://[", "")
    for origin in foreign:
        problem(alice.get(path, headers={"Origin": origin}), 403, "not_allowed")
    for host in ("localhost:8750", "LOCALHOST", "[::1]:8750", "127.0.0.1"):
        assert alice.get(path, headers={"Host": host, "Origin": f"http://{host}"}).status_code not in {403, 421}


def test_pages_may_ask_only_if_they_are_allowed(tmp_path: Path) -> None:
    with house(address=Address(origins=("https://tools.example",))) as home, home.http() as client:
        asked = {"Origin": "https://tools.example", "Access-Control-Request-Method": "POST"}
        allowed = client.options("/v1/recall", headers=asked)
        assert allowed.headers["access-control-allow-origin"] == "https://tools.example"
        problem(client.get("/healthz", headers={"Origin": "https://other.example"}), 403, "not_allowed")
    with house() as home, home.http(home.key(ALICE)) as client:
        assert "access-control-allow-origin" not in client.get("/v1/memories").headers


def test_every_answer_has_the_id_of_its_request(alice: httpx.Client) -> None:
    assert alice.get("/healthz", headers={"X-Request-ID": "my-7"}).headers["x-request-id"] == "my-7"
    made = alice.get("/healthz", headers={"X-Request-ID": "no spaces allowed"}).headers["x-request-id"]
    assert made not in {"", "no spaces allowed"}
    assert alice.get("/healthz").headers["x-request-id"] != made


def test_a_body_that_is_too_large_too_deep_or_no_json_is_refused(home: House, alice: httpx.Client) -> None:
    large = json.dumps({"text": "x" * 1_000_001})
    problem(alice.post("/v1/memories", content=large, headers={"Content-Type": "application/json"}), 413, "too_large")

    def parts() -> Iterator[bytes]:
        yield from [b"x" * 100_000] * 11

    problem(alice.post("/v1/memories", content=parts(), headers={"Content-Type": "application/json"}), 413, "too_large")
    bodies = (
        b"{",
        b"\xff",
        b'{"text": NaN}',
        b'{"text": "a", "text": "b"}',
        b"[" * 100_000,
        b'{"text": "x", "metadata": ' + b'{"a":' * 70 + b"1" + b"}" * 71,
        b'{"text": "x", "importance": ' + b"9" * 5000 + b"}",
    )
    for body in bodies:
        answer = alice.post("/v1/memories", content=body, headers={"Content-Type": "application/json"})
        problem(answer, 400, "malformed")
    assert home.brain.agents() == []


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)))
def test_json_is_refused_exactly_if_it_is_deeper_than_allowed(value: Any) -> None:
    def depth(each: Any) -> int:
        return 1 + max((depth(inner) for inner in each), default=0) if isinstance(each, list) else 0

    flaw = flaw_of_json(json.dumps(value).encode(), 3)
    assert (flaw is not None) == (depth(value) > 3)


def test_a_key_that_is_used_too_often_has_to_wait(tmp_path: Path) -> None:
    with house(limits=Limits(rate=0.05, burst=3, refusals=1)) as home:
        with home.http(home.key(ALICE)) as one, home.http(home.key("bob")) as other:
            assert [one.get("/v1/memories").status_code for _ in range(4)] == [200, 200, 200, 429]
            late = one.get("/v1/memories")
            problem(late, 429, "too_many")
            assert int(late.headers["retry-after"]) >= 1
            ok(other.get("/v1/memories"))
        with home.http("eng_nobody_" + "a" * 43) as stranger:
            statuses = [stranger.get("/v1/memories").status_code for _ in range(60)]
            assert set(statuses) == {401, 429}


def test_a_bucket_lets_through_what_its_rate_allows_and_stays_small() -> None:
    now = [0.0]
    buckets = Buckets(rate=2, burst=4, clock=lambda: now[0])
    assert [buckets.wait("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    now[0] += 0.5
    assert buckets.wait("a") == 0
    assert buckets.wait("a") > 0
    for n in range(25_000):
        buckets.wait(str(n))
    assert len(buckets._levels) <= 10_000


def test_a_request_that_takes_too_long_is_answered_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with house(limits=Limits(rate=0, seconds=2)) as home, home.http(home.key(ALICE)) as client:
        slow, go_on = home.brain.store.add, threading.Event()

        def add(*args: Any) -> Any:
            go_on.wait(60)
            return slow(*args)

        monkeypatch.setattr(home.brain.store, "add", add)
        key = {"Idempotency-Key": "slow"}
        answer = client.post("/v1/memories", json={"text": "one"}, headers=key)
        problem(answer, 503, "busy")
        assert answer.headers["retry-after"] == "1"
        go_on.set()
        home.portal.call(home.served.api.state.border.drained, 60)
        monkeypatch.undo()
        again = client.post("/v1/memories", json={"text": "one"}, headers=key)
        assert ok(again, 201)["status"] == "stored"
        assert again.headers["idempotency-replayed"] == "true"
        assert len(ok(client.get("/v1/memories"))["items"]) == 1


def test_a_slow_body_is_not_waited_for() -> None:
    with house(limits=Limits(rate=0, body_seconds=0.1)) as home:
        token, sent = home.key(ALICE), list[Any]()

        async def receive() -> Any:
            import asyncio

            await asyncio.sleep(60)
            return {}

        async def send(message: Any) -> None:
            sent.append(message)

        scope: Any = {
            "type": "http",
            "method": "POST",
            "path": "/v1/memories",
            "raw_path": b"/v1/memories",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())],
            "client": ("127.0.0.1", 1),
        }
        app: Any = home.served.asgi
        home.portal.call(app, scope, receive, send)
        assert sent[0]["status"] == 408


def test_too_many_requests_at_a_time_are_told_to_come_back() -> None:
    with house(limits=Limits(rate=0, running=0)) as home, home.http(home.key(ALICE)) as client:
        problem(client.get("/v1/memories"), 503, "busy")


def test_the_metrics_name_no_agent_and_need_a_key_that_administers(home: House, alice: httpx.Client) -> None:
    alice.post("/v1/memories", json={"text": "one"})
    problem(alice.get("/metrics"), 403, "not_allowed")
    with home.http(home.key("prometheus", rights=("admin",))) as prometheus:
        text = prometheus.get("/metrics").text
    assert 'engram_operations_total{op="remember",status="201"} 1.0' in text
    assert 'engram_operation_duration_seconds_count{op="remember"} 1.0' in text
    for name in ("engram_memories 1.0", "engram_agents 1.0", "engram_queue_depth", "process_resident_memory_bytes"):
        assert name in text
    assert ALICE not in text
    with home.http() as nobody:
        problem(nobody.get("/metrics"), 401, "unauthenticated")
        ok(nobody.get("/healthz"))
        ok(nobody.get("/readyz"))
    home.brain.close()
    with home.http() as nobody:
        assert ok(nobody.get("/readyz"), 503) == {"status": "unready"}


def test_the_database_is_counted_now_and_then_only_and_not_when_it_is_away(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, metrics = [0.0], Metrics()
    metrics.watch(home.brain.store, clock=lambda: now[0])
    assert b"engram_memories 0.0" in metrics.text()
    home.brain.agent(ALICE).remember("one")
    assert b"engram_memories 0.0" in metrics.text()
    now[0] += COUNTED_EVERY
    assert b"engram_memories 1.0" in metrics.text()

    def busy() -> Any:
        raise StoreBusy("/srv/team.db is locked")

    monkeypatch.setattr(home.brain.store, "info", busy)
    now[0] += COUNTED_EVERY
    assert b"engram_memories" not in metrics.text()
    assert b"engram_info" in metrics.text()


def test_a_line_of_the_log_is_for_people_or_for_programs() -> None:
    record = logging.LogRecord("engram.server", logging.INFO, "", 0, "request", (), None)
    record.told = {"op": "recall", "status": 200, "ms": 1.5, "key": "", "where": ["a.py:1 f"]}
    token = request_id.set("r-7")
    try:
        said = line_of(record, "2026-01-01T00:00:00.000+00:00", "json")
        words = line_of(record, "2026-01-01T00:00:00.000+00:00", "text")
    finally:
        request_id.reset(token)
    assert json.loads(said) | {"request_id": "r-7", "op": "recall", "status": 200} == json.loads(said)
    assert words == (
        '2026-01-01T00:00:00.000+00:00 info request request_id=r-7 op=recall status=200 ms=1.5 where=["a.py:1 f"]'
    )


# Problems ----------------------------------------------------------------------------------------------


def test_every_error_has_a_status() -> None:
    tree = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, EngramError)]
    found = {kind.__name__: problems.status_of(kind("x")) for kind in tree}
    assert {found[name] for name in ("EngramError", "StoreCorrupt", "ConfigError")} == {500}
    assert found["ActionBlocked"] == 403
    assert found["StoreBusy"] == 503
    assert set(found.values()) <= set(problems.LISTED)


def test_an_error_of_the_database_is_told_without_its_words(
    home: House, alice: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*args: Any) -> Any:
        raise StoreBusy("/srv/team.db is locked by SELECT secret")

    monkeypatch.setattr(home.brain.store, "get", busy)
    answer = alice.get("/v1/memories/x")
    said = problem(answer, 503, "busy")
    assert answer.headers["retry-after"] == "1"
    assert "/srv" not in json.dumps(said)
    assert "SELECT" not in json.dumps(said)


def test_a_failure_of_the_server_says_nothing_but_its_id(
    home: House, alice: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("the memory says: my secret")

    monkeypatch.setattr(home.brain.store, "get", broken)
    said = problem(alice.get("/v1/memories/x"), 500, "failed")
    assert "secret" not in json.dumps(said)
    assert "RuntimeError" in caplog.text
    assert "my secret" not in caplog.text


def test_what_a_request_said_is_not_repeated_when_it_is_wrong(alice: httpx.Client) -> None:
    said = problem(alice.post("/v1/recall", json={"query": 5, "k": "my secret"}), 422, "invalid")
    assert "my secret" not in json.dumps(said)
    assert {flaw["where"] for flaw in said["errors"]} == {"body.query", "body.k"}


def test_unknown_paths_and_methods_are_problems_too(alice: httpx.Client) -> None:
    for path in ("/v1/nowhere", "/v1/memories/", "/healthz/"):  # a redirect could lead the key to where others read it
        problem(alice.get(path), 404, "not_found")
    problem(alice.put("/v1/memories"), 405, "method_not_allowed")


# Where it listens --------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8", "[::1]"])
def test_a_server_on_this_machine_needs_no_certificate(host: str) -> None:
    assert is_loopback(host)
    assert Binding(host).address().answers_to("localhost:8750")


def test_a_server_for_others_needs_tls_or_a_proxy_and_a_name() -> None:
    for wrong in (
        Binding("192.0.2.1"),
        Binding("0.0.0.0", behind_proxy=True),
        Binding("192.0.2.1", certfile="c"),
        Binding(origins=("*",)),
        Binding(origins=("tools.example",)),
    ):
        with pytest.raises(ConfigError):
            wrong.address()
    address = Binding("0.0.0.0", certfile="c", keyfile="k", hosts=("engram.example",)).address()
    assert address.answers_to("engram.example:443")
    assert not address.answers_to("localhost")
    assert Binding("192.0.2.1", behind_proxy=True).address().answers_to("192.0.2.1")
    assert Binding("192.0.2.1", behind_proxy=True, hosts=("*",)).address().answers_to("anything")


def test_the_free_limits_of_tests_are_not_the_usual_ones() -> None:
    assert Limits().rate > 0
    assert FREELY.rate == 0
