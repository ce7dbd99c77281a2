"""Cycles of an agent: propose an action, carry it out, record its result and insights.

A proposal is stored before it is carried out, and a cycle ends once. After a crash, `resume` reports the completed and
the unfinished cycles; nothing is repeated automatically.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import JsonValue

from engram.agents.event_erasure import delete_events
from engram.agents.payloads import error_payload, redacted_json
from engram.clock import Sources
from engram.errors import Conflict, InvalidInput, NotFound
from engram.memories import holds
from engram.model import Draft, ForgetReceipt, Hit, Receipt
from engram.model.agent import AgentCycle, AgentState, Recollection, Recollections
from engram.ports import Event, KeepsEvents, Redactor, Scope, Store, arguments
from engram.ports.agent import CycleAgent
from engram.ports.completed import require
from engram.text.terms import digest, index_terms, query_terms

PROPOSAL, RESULT, COUNTED = "proposal", "result", "counted"
PROPOSED, ENDED = "cycle:proposals", "cycle:results"
"""Topics of the events for proposals and for ends of cycles."""
MAX_OPEN = 100
"""Maximum number of cycles without a result; further ones are refused."""
PAGE = 50
MAX_LISTED = 10_000
_NEWEST = 10
"""Number of newest proposal events read to find the highest index; a counter event may follow later proposals."""
RECENT = 10
MAX_TEXT = 20_000
"""Number of characters of a result that are compared with a query."""

CycleRef = int | AgentCycle
"""A cycle, by its index or as an object."""
Insight = str | Draft | Mapping[str, Any]
Resolution = Literal["abandon", "retry"]


class Life:
    """The cycles of one agent, numbered from 1 without gaps, even with concurrent processes."""

    def __init__(self, agent: CycleAgent, store: Store, redactor: Redactor, sources: Sources) -> None:
        require(store, KeepsEvents, "a cycle of an agent")
        self._agent = agent
        self._scope = Scope(agent.name)
        self._store = store
        self._events: KeepsEvents = store
        self._redactor = redactor
        self._sources = sources

    # propose, act, keep the result ---------------------------------------------------------------------

    def propose(
        self,
        *,
        thoughts: JsonValue = "",
        tool: str = "",
        arguments: Mapping[str, JsonValue] | None = None,
        reasoning: str = "",
        plan: str | Iterable[str] = (),
        workspace: str = "",
        again: bool = False,
    ) -> AgentCycle:
        """Begin a cycle; the action may be carried out once this returns.

        Raises `Conflict` if an unfinished cycle proposed the same call, which may have been carried out: `resolve` that
        one first, or set `again` to repeat it deliberately.
        """
        body = redacted_json(
            self._redactor,
            "the proposal",
            {
                "thoughts": thoughts,
                "tool": _text("tool", tool),
                "arguments": _mapping("arguments", arguments),
                "reasoning": _text("reasoning", reasoning),
                "plan": _texts("plan", plan),
                "workspace": _text("workspace", workspace),
            },
        )
        if not any(body.get(name) for name in ("thoughts", "tool", "reasoning", "plan")):
            raise InvalidInput("the proposal is empty; give thoughts, a tool, a reasoning or a plan")
        return self._begin(body, again=again)

    def result(
        self,
        cycle: CycleRef,
        *,
        output: JsonValue = None,
        error: str | BaseException | Mapping[str, JsonValue] | None = None,
        artifacts: str | Iterable[str] = (),
        learn: bool = False,
    ) -> AgentCycle:
        """Complete a cycle with its result; repeating the same result changes nothing.

        With `learn`, an error is also learned from, as by `learn_from_failure`. Raises `NotFound`, or `Conflict` if the
        cycle has ended differently.
        """
        known = self._require(cycle)
        told: dict[str, JsonValue] = {
            "output": output,
            "error": None if error is None else error_payload(error),
            "artifacts": _texts("artifacts", artifacts),
        }
        body = redacted_json(self._redactor, "the result", told) | {"status": "done" if error is None else "failed"}
        ended = self._end(known, body)
        if learn and ended.status == "failed":
            self._learn(ended)
        return ended

    def record(
        self, cycle: CycleRef, insights: Insight | Sequence[Insight], *, kind: str = "reflection", **fields: Any
    ) -> list[Receipt]:
        """Store the insights of a cycle as memories that name it; returns one receipt each, in order.

        The same insight of the same cycle is stored once. `fields` are those of `Draft`.
        """
        index = self._require(cycle).index
        several = [insights] if isinstance(insights, str | Draft | Mapping) else list(insights)
        return self._agent.remember([self._draft(index, insight, kind, fields) for insight in several])

    def recall(self, query: str, k: int = 5, *, recent: int = RECENT, expand: bool = False) -> Recollections:
        """Recall memories with the cycles they come from, merged with recent results.

        Of the last `recent` results, the newest is always included, others if they share a word with the query. With
        `expand`, concepts related to those in the query are searched for, too.
        """
        count = arguments.count("k", k)
        hits = self._agent.recall(query, count, expand=expand)
        sources = {index for hit in hits if (index := _cycle_of(hit)) is not None}
        cycles = {cycle.index: cycle for cycle in self._fetch(sources)}
        found = [Recollection(found="memory", hit=hit, cycle=cycles.get(_cycle_of(hit) or 0)) for hit in hits]
        latest = self._completed(arguments.count("recent", recent, least=0))
        return Recollections(
            hits.id, _merge_results(query, found, [one for one in latest if one.index not in cycles], count)
        )

    # resume --------------------------------------------------------------------------------------------

    def resume(self) -> AgentState:
        """Return the agent's progress: last complete cycle, unfinished cycles, next index."""
        last = self._last()
        if last is None:
            return AgentState(agent=self._scope.agent, next_index=1)
        unfinished = self._unfinished(last)
        return AgentState(
            agent=self._scope.agent,
            next_index=_index(last) + 1,
            last_complete=next(iter(self._completed(1, _index(last))), None),
            interrupted=unfinished[-1].proposal if unfinished else None,
            unfinished=tuple(unfinished),
        )

    def resolve(self, cycle: CycleRef, how: Resolution, *, reason: str = "") -> AgentCycle:
        """Decide about an unfinished cycle: `abandon` ends it, `retry` begins a new one that repeats it.

        Returns the ended or the new cycle. Raises `Conflict` if it has ended differently, also for the slower of two
        concurrent retries.
        """
        known = self._require(cycle)
        if how == "abandon":
            body = redacted_json(self._redactor, "the reason", {"reason": _text("reason", reason)})
            return self._end(known, body | {"status": "abandoned"})
        if how != "retry":
            raise InvalidInput(f'a cycle without a result is to "abandon" or to "retry", not {how!r}')
        if known.status != "open":
            raise _conflict(known)
        proposal = known.proposal.model_dump(mode="json", exclude={"index", "at"}, exclude_defaults=True)
        return self._retry(known, proposal | {"retry_of": known.index})

    def cycle(self, index: int) -> AgentCycle | None:
        """Return the cycle with this index, or `None`."""
        return next(iter(self._fetch([arguments.count("index", index, most=_MAX_INDEX)])), None)

    def cycles(self, limit: int = PAGE, *, before: int | None = None, workspace: str | None = None) -> list[AgentCycle]:
        """Return the cycles, newest first; `before` continues a list, `workspace` filters."""
        arguments.count("limit", limit, MAX_LISTED)
        return self._walk(
            limit, before, lambda cycle: workspace is None or cycle.proposal.workspace == workspace, max(limit, PAGE)
        )

    def forget(self, cycle: CycleRef) -> ForgetReceipt:
        """Delete a cycle with its proposal and result; its index is not reused.

        Memories recorded in it are kept. Raises `NotFound`, `Conflict` for an unfinished cycle, and `NotAllowed` if the
        agent is under a legal hold.
        """
        known = self._require(cycle)
        holds.refuse_if_agent_held(self._store, self._scope, f"cycle {known.index} of {self._scope.agent!a}")
        if known.status == "open":
            raise Conflict(f'cycle {known.index} has no result; `resolve({known.index}, "abandon")` it, then forget it')
        last = self._last()
        if last is not None and _index(last) == known.index:
            self._events.append(self._scope, [_counter_event(last, self._sources.now())])
        subject = _subject(known.index)
        erased = delete_events(self._store, self._scope, [subject])
        return ForgetReceipt(id=subject, forgotten=erased > 0, removed={"events": erased})

    # events --------------------------------------------------------------------------------------------

    def _begin(self, body: Mapping[str, JsonValue], *, again: bool) -> AgentCycle:
        """Take the next index, or the one after if another process takes it first."""
        while True:
            last = self._last()
            unfinished = [] if last is None else self._unfinished(last)
            if not again:
                _check_not_repeated(body, unfinished)
            if len(unfinished) >= MAX_OPEN:
                raise Conflict(f"{len(unfinished)} cycles have no result; abandon some before you begin another one")
            index = 1 if last is None else _index(last) + 1
            open_: list[JsonValue] = [cycle.index for cycle in unfinished]
            event = _event(index, PROPOSAL, self._sources.now(), {**body, "index": index, "open": open_})
            if self._events.append(self._scope, [event])[0]:
                return _cycle(self._scope.agent, [event])

    def _retry(self, known: AgentCycle, proposal: Mapping[str, JsonValue]) -> AgentCycle:
        """Begin the new cycle before ending the old one, so that a crash in between loses neither."""
        self._claim(known)
        fresh = self._begin(proposal, again=True)
        try:
            self._claim(fresh)
        except Conflict:
            self._end(fresh, {"status": "abandoned", "reason": f"cycle {known.index} ended meanwhile"})
            raise
        return fresh

    def _claim(self, cycle: AgentCycle) -> None:
        """Mark the old cycle as retried by this one. Raises `Conflict` if it has ended differently."""
        if (before := self._predecessor(cycle)) is None:
            return
        self._events.append(self._scope, [before])
        old = self._require(cast(int, cycle.proposal.retry_of))
        if old.retried_by != cycle.index:
            raise _conflict(old)

    def _end(self, known: AgentCycle, body: Mapping[str, JsonValue]) -> AgentCycle:
        """End a cycle; if it has ended already, it must have been in the same way."""
        end = _end_event(known.index, self._sources.now(), body)
        before = self._predecessor(known) if body["status"] in ("done", "failed") else None
        self._events.append(self._scope, [end] if before is None else [before, end])
        events = self._events.events_of(self._scope, [end.subject])
        kept = next(event for event in events if event.kind == RESULT)
        ended = _cycle(self._scope.agent, events)
        if dict(kept.body) != dict(end.body):
            raise _conflict(ended)
        return ended

    def _predecessor(self, cycle: AgentCycle) -> Event | None:
        """Return the event that ends the retried cycle, which a crash may have left out."""
        before = cycle.proposal.retry_of
        if before is not None and self.cycle(before) is None:  # it was forgotten
            return None
        told: dict[str, JsonValue] = {"status": "retried", "by": cycle.index}
        return None if before is None else _end_event(before, self._sources.now(), told)

    def _last(self) -> Event | None:
        """Return the newest proposal event, or the counter that replaced it."""
        return max(self._events.events_by_topic(self._scope, PROPOSED, _NEWEST), key=_index, default=None)

    def _unfinished(self, last: Event) -> list[AgentCycle]:
        """Return the cycles without a result, from the list in the newest proposal."""
        open_ = cast(list[int], last.body.get("open", []))
        return [cycle for cycle in self._fetch([*open_, _index(last)]) if cycle.status == "open"]

    def _completed(self, limit: int, last: int | None = None) -> list[AgentCycle]:
        """Return the newest complete cycles, newest first."""
        return self._walk(limit, None if last is None else last + 1, lambda cycle: cycle.complete, PAGE)

    def _walk(
        self, limit: int, before: int | None, wanted: Callable[[AgentCycle], bool], page: int
    ) -> list[AgentCycle]:
        """Return the newest matching cycles before an index, newest first."""
        found: list[AgentCycle] = []
        newest = self._last() if before is None else None
        top = before - 1 if before is not None else _index(newest) if newest is not None else 0
        while top > 0 and len(found) < limit:
            found += [cycle for cycle in reversed(self._fetch(range(max(1, top - page + 1), top + 1))) if wanted(cycle)]
            top -= page
        return found[:limit]

    def _fetch(self, indexes: Iterable[int]) -> list[AgentCycle]:
        """Return the existing cycles with these indexes, in order."""
        by_subject: defaultdict[str, list[Event]] = defaultdict(list)
        for event in self._events.events_of(self._scope, [_subject(index) for index in indexes]):
            by_subject[event.subject].append(event)
        whole = [events for events in by_subject.values() if any(event.kind == PROPOSAL for event in events)]
        cycles = [_cycle(self._scope.agent, events) for events in whole]
        return sorted(cycles, key=lambda cycle: cycle.index)

    def _require(self, cycle: CycleRef) -> AgentCycle:
        """Return the current state of a cycle. Raises `NotFound`."""
        if isinstance(cycle, AgentCycle) and cycle.agent != self._scope.agent:
            raise NotFound(f"that is a cycle of another agent; {self._scope.agent!r} has its own")
        index = cycle.index if isinstance(cycle, AgentCycle) else cycle
        found = self.cycle(index)
        if found is None:
            raise NotFound(f"{self._scope.agent!r} has no cycle {index}; `cycles()` lists them")
        return found

    def _draft(self, index: int, insight: Insight, kind: str, fields: Mapping[str, Any]) -> Draft:
        given = insight.model_dump(exclude_unset=True) if isinstance(insight, Draft) else insight
        given = {"text": given} if isinstance(given, str) else dict(given)
        given = {"kind": arguments.kind(kind), **fields, **given}
        given["metadata"] = {**given.get("metadata", {}), "cycle": index}
        draft = Draft(**given)
        if draft.key is not None:
            return draft
        told = redacted_json(self._redactor, "the insight", draft.model_dump(mode="json"))
        key = f"{_subject(index)}:{digest(json.dumps(told, sort_keys=True, ensure_ascii=False))}"
        return draft.model_copy(update={"key": key})

    def _learn(self, cycle: AgentCycle) -> None:
        proposal, result = cycle.proposal, cycle.result
        if result is None or result.error is None:
            return
        said = ": ".join(part for part in (result.error.kind, result.error.message) if part)
        self._agent.learn_from_failure(
            said,
            action=describe_cycle(cycle),
            context=proposal.reasoning or (proposal.thoughts if isinstance(proposal.thoughts, str) else ""),
            tool=proposal.tool,
            metadata={"cycle": cycle.index},
            key=f"{_subject(cycle.index)}:failure",
        )


_MAX_INDEX = 2**53


def describe_cycle(cycle: AgentCycle) -> str:
    """Describe a proposal in one line: its call, or its reasoning."""
    proposal = cycle.proposal
    if not proposal.tool:
        thoughts = proposal.thoughts if isinstance(proposal.thoughts, str) else _as_text(proposal.thoughts)
        return proposal.reasoning or thoughts or "; ".join(proposal.plan)
    given = ", ".join(f"{name}={_as_text(value)}" for name, value in proposal.arguments.items())
    return f"{proposal.tool}({given})"


def _event(index: int, kind: str, at: datetime, body: Mapping[str, JsonValue]) -> Event:
    """Make the event for a proposal or an end; its id is unique, so that each happens once."""
    topic = PROPOSED if kind == PROPOSAL else ENDED
    return Event(f"{_subject(index)}:{kind}", kind, at, _subject(index), topic, body)


def _end_event(index: int, at: datetime, body: Mapping[str, JsonValue]) -> Event:
    return _event(index, RESULT, at, body)


def _counter_event(last: Event, at: datetime) -> Event:
    """Make the event that keeps the highest index when the newest proposal is deleted."""
    index, open_ = _index(last), last.body.get("open", [])
    return Event(f"cycles:{index}", COUNTED, at, "cycles", PROPOSED, {"index": index, "open": open_})


def _subject(index: int) -> str:
    return f"cycle:{index}"


def _index(proposal: Event) -> int:
    return int(cast(int, proposal.body["index"]))


def _cycle(agent: str, events: Sequence[Event]) -> AgentCycle:
    """Build a cycle from its events."""
    begun = next(event for event in events if event.kind == PROPOSAL)
    ended = next((event for event in events if event.kind == RESULT), None)
    proposal = {name: value for name, value in begun.body.items() if name != "open"}
    cycle: dict[str, Any] = {
        "agent": agent,
        "index": begun.body["index"],
        "status": "open",
        "proposal": proposal | {"at": begun.at},
    }
    if ended is not None:
        body = dict(ended.body)
        cycle |= {"status": body.pop("status"), "ended_at": ended.at}
        if cycle["status"] in ("done", "failed"):
            cycle["result"] = body | {"at": ended.at}
        else:
            cycle |= {"reason": body.get("reason", ""), "retried_by": body.get("by")}
    return AgentCycle.model_validate(cycle)


def _conflict(cycle: AgentCycle) -> Conflict:
    how = f"was retried as cycle {cycle.retried_by}" if cycle.status == "retried" else f"is {cycle.status}"
    return Conflict(f"cycle {cycle.index} {how} already, and a cycle ends once; begin a new one with `propose`")


def _check_not_repeated(body: Mapping[str, JsonValue], unfinished: Iterable[AgentCycle]) -> None:
    """Raise `Conflict` if an unfinished cycle proposed the same call."""
    if not body.get("tool"):
        return
    call = [body["tool"], body.get("arguments", {})]
    for cycle in unfinished:
        if call == [cycle.proposal.tool, dict(cycle.proposal.arguments)]:
            raise Conflict(
                f"cycle {cycle.index} proposed just that and has no result: it may have been carried out; "
                f'decide with `resolve({cycle.index}, "retry")` or "abandon", or give `again=True`'
            )


def _cycle_of(hit: Hit) -> int | None:
    """Return the index of the cycle that a memory was recorded in."""
    index = hit.memory.metadata.get("cycle")
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _merge_results(
    query: str, memories: Sequence[Recollection], cycles: Sequence[AgentCycle], k: int
) -> list[Recollection]:
    """Merge memories and recent results into the `k` best; results rank by the query's words they contain.

    `cycles` are newest first; the newest is always included.
    """
    terms = query_terms(query)
    recent = [Recollection(found="recent", cycle=cycle) for cycle in cycles]
    shares = [_matching_share(terms, cycle) for cycle in cycles]
    ranked = sorted((age for age in range(len(cycles)) if shares[age] or not age), key=lambda age: (-shares[age], age))
    placed = [(float(place), 0, each) for place, each in enumerate(memories)]
    placed += [(place + k * (1 - shares[age]), 1, recent[age]) for place, age in enumerate(ranked)]
    best = [each for *_, each in sorted(placed, key=lambda one: one[:2])][:k]
    lost = recent and k > 1 and not any(each is recent[0] for each in best)
    return [*best[:-1], recent[0]] if lost else best


def _matching_share(terms: Sequence[str], cycle: AgentCycle) -> float:
    result = cycle.result
    error = "" if result is None or result.error is None else f"{result.error.kind} {result.error.message}"
    output = "" if result is None else _as_text(result.output)
    said = " ".join(
        (describe_cycle(cycle), cycle.proposal.reasoning, error, output, *(result.artifacts if result else ()))
    )
    known = set(index_terms(said[:MAX_TEXT]))
    return sum(term in known for term in terms) / max(1, len(terms))


def _as_text(value: JsonValue) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(name: str, value: object) -> str | None:
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a text, not {type(value).__name__}")
    return value or None


def _texts(name: str, values: str | Iterable[str]) -> list[JsonValue] | None:
    return [*arguments.several(name, values)] or None


def _mapping(name: str, value: object) -> dict[str, JsonValue] | None:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{name} must be a mapping of names to values, not {type(value).__name__}")
    return dict(value) if value else None
