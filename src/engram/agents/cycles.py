"""The life of an agent, cycle by cycle: propose, act, keep the result, record what it taught, recall.

A proposal is kept before it is carried out, and a cycle ends once. An agent that was killed finds out at `resume` what
it had completed and what it was in the middle of; nothing of that is done again unless somebody says so.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import JsonValue

from engram.agents.event_erasure import erase
from engram.agents.payloads import error_payload, packed
from engram.clock import Sources
from engram.errors import Conflict, InvalidInput, NotFound
from engram.memories import holds
from engram.model import Draft, ForgetReceipt, Hit, Receipt
from engram.model.agent import AgentCycle, AgentState, Recollection, Recollections
from engram.ports import Event, KeepsEvents, Redactor, Scope, Store, arguments
from engram.ports.agent import Lives
from engram.ports.completed import require
from engram.text.terms import digest, index_terms, query_terms

PROPOSAL, RESULT, COUNTED = "proposal", "result", "counted"
PROPOSED, ENDED = "cycle:proposals", "cycle:results"
"""The topics of all proposals, and of all ends of cycles."""
MOST_OPEN = 100
"""So many cycles may be without a result before no further one is begun."""
PAGE = 50
MOST_LISTED = 10_000
_NEWEST = 10
"""Of so many of the newest proposals, the highest index is the last: a count may come after a proposal it knew not."""
RECENT = 10
LONGEST_TEXT = 20_000
"""So much of a result is compared with a query."""

Which = int | AgentCycle
"""A cycle, by its index or as it was given."""
Insight = str | Draft | Mapping[str, Any]
How = Literal["abandon", "retry"]


class Life:
    """One agent's cycles, numbered from 1 without a gap, whatever number of processes live it."""

    def __init__(self, agent: Lives, store: Store, redactor: Redactor, sources: Sources) -> None:
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
        """Begin a cycle: once this returns, what is about to be done is kept, and it may be done.

        Raises `Conflict` if a cycle without a result proposed just this call, which may have been carried out:
        `resolve` that one first, or say `again` if it is meant to be done beside it.
        """
        body = packed(
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
        cycle: Which,
        *,
        output: JsonValue = None,
        error: str | BaseException | Mapping[str, JsonValue] | None = None,
        artifacts: str | Iterable[str] = (),
        learn: bool = False,
    ) -> AgentCycle:
        """Complete a cycle with what came of it; telling the same again changes nothing.

        With `learn`, an error is also learned from, as by `learn_from_failure`. Raises `NotFound`, or `Conflict` if the
        cycle has ended in another way.
        """
        known = self._known(cycle)
        told: dict[str, JsonValue] = {
            "output": output,
            "error": None if error is None else error_payload(error),
            "artifacts": _texts("artifacts", artifacts),
        }
        body = packed(self._redactor, "the result", told) | {"status": "done" if error is None else "failed"}
        ended = self._end(known, body)
        if learn and ended.status == "failed":
            self._learn(ended)
        return ended

    def record(
        self, cycle: Which, insights: Insight | Sequence[Insight], *, kind: str = "reflection", **fields: Any
    ) -> list[Receipt]:
        """Remember what a cycle taught, one receipt per insight, in order; the memories name it in their metadata.

        The same insight of the same cycle is remembered once, however often it is told. `fields` are those of `Draft`.
        """
        index = self._known(cycle).index
        several = [insights] if isinstance(insights, str | Draft | Mapping) else list(insights)
        return self._agent.remember([self._draft(index, insight, kind, fields) for insight in several])

    def recall(self, query: str, k: int = 5, *, recent: int = RECENT, expand: bool = False) -> Recollections:
        """What comes to mind: memories by meaning and words, each with its cycle, merged with recent results.

        Of the last `recent` results, the newest always takes part, the others if they share a word with the query.
        With `expand`, memories are also asked for what the graph of facts joins to the concepts that the query names.
        """
        count = arguments.count("k", k)
        hits = self._agent.recall(query, count, expand=expand)
        sources = {index for hit in hits if (index := _cycle_of(hit)) is not None}
        cycles = {cycle.index: cycle for cycle in self._fetch(sources)}
        found = [Recollection(found="memory", hit=hit, cycle=cycles.get(_cycle_of(hit) or 0)) for hit in hits]
        latest = self._completed(arguments.count("recent", recent, least=0))
        return Recollections(hits.id, _merged(query, found, [one for one in latest if one.index not in cycles], count))

    # resume --------------------------------------------------------------------------------------------

    def resume(self) -> AgentState:
        """Where the agent stands: what it completed last, what has no result, and which index is next."""
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

    def resolve(self, cycle: Which, how: How, *, reason: str = "") -> AgentCycle:
        """Decide about a cycle without a result: `abandon` ends it, `retry` begins a new one that names it.

        The one that ended comes back, or the new one, which may then be carried out. Raises `Conflict` if it has ended
        in another way; of two who retry it at once, one is told so and has nothing to do.
        """
        known = self._known(cycle)
        if how == "abandon":
            body = packed(self._redactor, "the reason", {"reason": _text("reason", reason)})
            return self._end(known, body | {"status": "abandoned"})
        if how != "retry":
            raise InvalidInput(f'a cycle without a result is to "abandon" or to "retry", not {how!r}')
        if known.status != "open":
            raise _conflict(known)
        proposal = known.proposal.model_dump(mode="json", exclude={"index", "at"}, exclude_defaults=True)
        return self._again(known, proposal | {"retry_of": known.index})

    def cycle(self, index: int) -> AgentCycle | None:
        """The cycle with this index, or `None` if there is none."""
        return next(iter(self._fetch([arguments.count("index", index, most=_MOST_INDEX)])), None)

    def cycles(self, limit: int = PAGE, *, before: int | None = None, workspace: str | None = None) -> list[AgentCycle]:
        """The cycles, newest first; those `before` an index, to go on from there; those in a `workspace`."""
        arguments.count("limit", limit, MOST_LISTED)
        return self._walk(
            limit, before, lambda cycle: workspace is None or cycle.proposal.workspace == workspace, max(limit, PAGE)
        )

    def forget(self, cycle: Which) -> ForgetReceipt:
        """Take a cycle away for good, with its proposal and its result; its index is not given again.

        What was remembered of it stays, and is forgotten by its own id. Raises `NotFound`, `Conflict` for a cycle that
        has no result yet, which is to be resolved first, and `NotAllowed` if all of the agent is held.
        """
        known = self._known(cycle)
        holds.refuse_if_agent_held(self._store, self._scope, f"cycle {known.index} of {self._scope.agent!a}")
        if known.status == "open":
            raise Conflict(f'cycle {known.index} has no result; `resolve({known.index}, "abandon")` it, then forget it')
        last = self._last()
        if last is not None and _index(last) == known.index:
            self._events.append(self._scope, [_count(last, self._sources.now())])
        subject = _subject(known.index)
        erased = erase(self._store, self._scope, [subject])
        return ForgetReceipt(id=subject, forgotten=erased > 0, removed={"events": erased})

    # events --------------------------------------------------------------------------------------------

    def _begin(self, body: Mapping[str, JsonValue], *, again: bool) -> AgentCycle:
        """Take the next index: whoever loses it to somebody else takes the one after it."""
        while True:
            last = self._last()
            unfinished = [] if last is None else self._unfinished(last)
            if not again:
                _refuse_repetition(body, unfinished)
            if len(unfinished) >= MOST_OPEN:
                raise Conflict(f"{len(unfinished)} cycles have no result; abandon some before another one is begun")
            index = 1 if last is None else _index(last) + 1
            open_: list[JsonValue] = [cycle.index for cycle in unfinished]
            event = _event(index, PROPOSAL, self._sources.now(), {**body, "index": index, "open": open_})
            if self._events.append(self._scope, [event])[0]:
                return _cycle(self._scope.agent, [event])

    def _again(self, known: AgentCycle, proposal: Mapping[str, JsonValue]) -> AgentCycle:
        """The new cycle is there before the old one ends, so that a kill in between shows both, and loses neither."""
        self._claim(known)
        fresh = self._begin(proposal, again=True)
        try:
            self._claim(fresh)
        except Conflict:
            self._end(fresh, {"status": "abandoned", "reason": f"cycle {known.index} ended meanwhile"})
            raise
        return fresh

    def _claim(self, cycle: AgentCycle) -> None:
        """Make sure that what a cycle does again is its own to do. Raises `Conflict` if the old one ended otherwise."""
        if (before := self._predecessor(cycle)) is None:
            return
        self._events.append(self._scope, [before])
        old = self._known(cast(int, cycle.proposal.retry_of))
        if old.retried_by != cycle.index:
            raise _conflict(old)

    def _end(self, known: AgentCycle, body: Mapping[str, JsonValue]) -> AgentCycle:
        """End a cycle; if it has ended already, that must have been in the same way."""
        end = _ending(known.index, self._sources.now(), body)
        before = self._predecessor(known) if body["status"] in ("done", "failed") else None
        self._events.append(self._scope, [end] if before is None else [before, end])
        events = self._events.events_of(self._scope, [end.subject])
        kept = next(event for event in events if event.kind == RESULT)
        ended = _cycle(self._scope.agent, events)
        if dict(kept.body) != dict(end.body):
            raise _conflict(ended)
        return ended

    def _predecessor(self, cycle: AgentCycle) -> Event | None:
        """The end of the cycle that this one does again, which a kill may have left out; if it is there, it stays."""
        before = cycle.proposal.retry_of
        if before is not None and self.cycle(before) is None:  # it was forgotten
            return None
        told: dict[str, JsonValue] = {"status": "retried", "by": cycle.index}
        return None if before is None else _ending(before, self._sources.now(), told)

    def _last(self) -> Event | None:
        """The newest proposal, or what is left of it."""
        return max(self._events.events_by_topic(self._scope, PROPOSED, _NEWEST), key=_index, default=None)

    def _unfinished(self, last: Event) -> list[AgentCycle]:
        """All cycles without a result: those that were known when the newest was begun, and itself, if still so."""
        open_ = cast(list[int], last.body.get("open", []))
        return [cycle for cycle in self._fetch([*open_, _index(last)]) if cycle.status == "open"]

    def _completed(self, limit: int, last: int | None = None) -> list[AgentCycle]:
        """The newest cycles that have a result, newest first."""
        return self._walk(limit, None if last is None else last + 1, lambda cycle: cycle.complete, PAGE)

    def _walk(
        self, limit: int, before: int | None, wanted: Callable[[AgentCycle], bool], page: int
    ) -> list[AgentCycle]:
        """The newest cycles before an index that are wanted, newest first."""
        found: list[AgentCycle] = []
        newest = self._last() if before is None else None
        top = before - 1 if before is not None else _index(newest) if newest is not None else 0
        while top > 0 and len(found) < limit:
            found += [cycle for cycle in reversed(self._fetch(range(max(1, top - page + 1), top + 1))) if wanted(cycle)]
            top -= page
        return found[:limit]

    def _fetch(self, indexes: Iterable[int]) -> list[AgentCycle]:
        """The cycles with these indexes that there are, in the order of their indexes."""
        by_subject: defaultdict[str, list[Event]] = defaultdict(list)
        for event in self._events.events_of(self._scope, [_subject(index) for index in indexes]):
            by_subject[event.subject].append(event)
        whole = [events for events in by_subject.values() if any(event.kind == PROPOSAL for event in events)]
        cycles = [_cycle(self._scope.agent, events) for events in whole]
        return sorted(cycles, key=lambda cycle: cycle.index)

    def _known(self, cycle: Which) -> AgentCycle:
        """The cycle as it is now. Raises `NotFound`."""
        if isinstance(cycle, AgentCycle) and cycle.agent != self._scope.agent:
            raise NotFound(f"that is a cycle of another agent; {self._scope.agent!r} has its own")
        index = cycle.index if isinstance(cycle, AgentCycle) else cycle
        found = self.cycle(index)
        if found is None:
            raise NotFound(f"{self._scope.agent!r} has no cycle {index}; `cycles()` shows what there is")
        return found

    def _draft(self, index: int, insight: Insight, kind: str, fields: Mapping[str, Any]) -> Draft:
        given = insight.model_dump(exclude_unset=True) if isinstance(insight, Draft) else insight
        given = {"text": given} if isinstance(given, str) else dict(given)
        given = {"kind": arguments.kind(kind), **fields, **given}
        given["metadata"] = {**given.get("metadata", {}), "cycle": index}
        draft = Draft(**given)
        if draft.key is not None:
            return draft
        told = packed(self._redactor, "the insight", draft.model_dump(mode="json"))
        key = f"{_subject(index)}:{digest(json.dumps(told, sort_keys=True, ensure_ascii=False))}"
        return draft.model_copy(update={"key": key})

    def _learn(self, cycle: AgentCycle) -> None:
        proposal, result = cycle.proposal, cycle.result
        if result is None or result.error is None:
            return
        said = ": ".join(part for part in (result.error.kind, result.error.message) if part)
        self._agent.learn_from_failure(
            said,
            action=in_words(cycle),
            context=proposal.reasoning or (proposal.thoughts if isinstance(proposal.thoughts, str) else ""),
            tool=proposal.tool,
            metadata={"cycle": cycle.index},
            key=f"{_subject(cycle.index)}:failure",
        )


_MOST_INDEX = 2**53


def in_words(cycle: AgentCycle) -> str:
    """What a cycle proposed, on one line: the call, or else what it thought."""
    proposal = cycle.proposal
    if not proposal.tool:
        thoughts = proposal.thoughts if isinstance(proposal.thoughts, str) else _encoded(proposal.thoughts)
        return proposal.reasoning or thoughts or "; ".join(proposal.plan)
    given = ", ".join(f"{name}={_encoded(value)}" for name, value in proposal.arguments.items())
    return f"{proposal.tool}({given})"


def _event(index: int, kind: str, at: datetime, body: Mapping[str, JsonValue]) -> Event:
    """Half a cycle; its id is taken once, so that no cycle is begun or ended by two."""
    topic = PROPOSED if kind == PROPOSAL else ENDED
    return Event(f"{_subject(index)}:{kind}", kind, at, _subject(index), topic, body)


def _ending(index: int, at: datetime, body: Mapping[str, JsonValue]) -> Event:
    return _event(index, RESULT, at, body)


def _count(last: Event, at: datetime) -> Event:
    """How far the indexes went, when the newest proposal goes."""
    index, open_ = _index(last), last.body.get("open", [])
    return Event(f"cycles:{index}", COUNTED, at, "cycles", PROPOSED, {"index": index, "open": open_})


def _subject(index: int) -> str:
    return f"cycle:{index}"


def _index(proposal: Event) -> int:
    return int(cast(int, proposal.body["index"]))


def _cycle(agent: str, events: Sequence[Event]) -> AgentCycle:
    """The cycle that its proposal and its end, if it has one, make."""
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


def _refuse_repetition(body: Mapping[str, JsonValue], unfinished: Iterable[AgentCycle]) -> None:
    """Raise `Conflict` if this very call was begun, and nobody knows whether it was carried out."""
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
    """The cycle that a memory was recorded in."""
    index = hit.memory.metadata.get("cycle")
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _merged(query: str, memories: Sequence[Recollection], cycles: Sequence[AgentCycle], k: int) -> list[Recollection]:
    """The k best of both: a result stands the further behind the memories, the fewer of the query's words it has.

    `cycles` come newest first; of several places, the newest takes the last one if it has no better.
    """
    terms = query_terms(query)
    recent = [Recollection(found="recent", cycle=cycle) for cycle in cycles]
    shares = [_share(terms, cycle) for cycle in cycles]
    ranked = sorted((age for age in range(len(cycles)) if shares[age] or not age), key=lambda age: (-shares[age], age))
    placed = [(float(place), 0, each) for place, each in enumerate(memories)]
    placed += [(place + k * (1 - shares[age]), 1, recent[age]) for place, age in enumerate(ranked)]
    best = [each for *_, each in sorted(placed, key=lambda one: one[:2])][:k]
    lost = recent and k > 1 and not any(each is recent[0] for each in best)
    return [*best[:-1], recent[0]] if lost else best


def _share(terms: Sequence[str], cycle: AgentCycle) -> float:
    result = cycle.result
    error = "" if result is None or result.error is None else f"{result.error.kind} {result.error.message}"
    output = "" if result is None else _encoded(result.output)
    said = " ".join((in_words(cycle), cycle.proposal.reasoning, error, output, *(result.artifacts if result else ())))
    known = set(index_terms(said[:LONGEST_TEXT]))
    return sum(term in known for term in terms) / max(1, len(terms))


def _encoded(value: JsonValue) -> str:
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
