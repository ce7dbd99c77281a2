"""The pages of the dashboard: each asks the engine, and renders what it said."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from starlette.responses import JSONResponse, Response

from engram.errors import InvalidInput, NotAllowed, Unsupported
from engram.learning.scores import COMPARED, SHARE
from engram.model import Memory, MemoryType
from engram.ports import Scope
from engram.server.dashboard import charts, queries
from engram.server.dashboard.params import SAFE, Asking, found
from engram.server.dashboard.queries import NAMES, Asked, usual_weights
from engram.text.terms import normal_form

Handler = Callable[[Asking], Response]
TIMELINE = 50
ROWS = 50
MOST_WEIGHT = 20.0
CONCEPTS = (60, 150, queries.NODES)
"""How many concepts of a graph are drawn: usually, and if more are wanted."""


def overview(asking: Asking) -> Response:
    """How the memory of an agent is doing, at a glance."""
    if not asking.names:
        return asking.page("welcome.html", here="overview")
    told = queries.overview(asking)
    trend = told.report and charts.measured(told.report, ("success", "decisions that went well"))
    pairs = (("hit_ratio", "memories that helped"), ("retrieval_success", "recalls that helped"))
    hits = told.report and charts.measured(told.report, *pairs)
    return asking.page(
        "overview.html",
        told=told,
        growth=charts.growth(told.days),
        trend=trend,
        hits=hits,
        least=math.ceil(COMPARED / SHARE),
    )


def timeline(asking: Asking) -> Response:
    """What was remembered, newest first, as far as it passes the filters."""
    asked = Asked(
        asking.text("kind"),
        asking.text("tag"),
        asking.text("session"),
        asking.moment("since"),
        asking.moment("until"),
        asking.moment("as_of"),
    )
    found = queries.timeline(asking.agent, asked, TIMELINE, asking.text("cursor") or None)
    now = asking.brain.sources.now()
    total = queries.how_many(asking.brain, asking.scope)
    first = queries.began(asking, total, now)
    return asking.page(
        "timeline.html",
        asked=asked,
        days=_by_day(found.items),
        kinds=list(MemoryType),
        more=found.next_cursor,
        first=first,
        place=_place(first, asked.as_of or now, now),
        paged=bool(asking.text("cursor")),
        total=total,
    )


def _by_day(memories: Sequence[Memory]) -> list[tuple[str, list[Memory]]]:
    grouped = groupby(memories, key=lambda memory: memory.happened_at.date().isoformat())
    return [(day, list(some)) for day, some in grouped]


def _place(first: datetime, at: datetime, last: datetime) -> int:
    """Where a time is between two others, in thousandths."""
    whole = (last - first).total_seconds() or 1.0
    return max(0, min(1000, round(1000 * (at - first).total_seconds() / whole)))


def memory(asking: Asking) -> Response:
    """One memory, and all that is known about it."""
    told = found(queries.memory(asking, asking.exact("id")), "memory")
    content = {name: value for name, value in told.memory.content.model_dump(mode="json").items() if name != "kind"}
    said = {name: value for name, value in content.items() if value not in (None, "", [], False)}
    extra = json.dumps(dict(told.memory.metadata), indent=2, ensure_ascii=False) if told.memory.metadata else ""
    return asking.page("memory.html", here="timeline", told=told, content=said, extra=extra)


def debugger(asking: Asking) -> Response:
    """A recall taken apart: every candidate, what its score is made of, and why it was left out."""
    weights = {name: asking.number(name, usual, -MOST_WEIGHT, MOST_WEIGHT) for name, usual in usual_weights().items()}
    query, group = asking.text("q"), asking.text("group_by")
    if group not in {"", "session"}:
        raise InvalidInput("results can be grouped by session, or not at all")
    asked = {
        "k": asking.count("k", 5, 1, 100),
        "min_score": asking.number("min_score", 0.0, 0.0, 1.0),
        "group_by": group or None,
        "budget_tokens": asking.count("budget", 0, 0, 1_000_000) or None,
        "as_of": asking.moment("as_of"),
    }
    name = asking.agent.name
    if not query:
        asking.board.kept.start(("warm", name), partial(queries.warm, asking))
    result = queries.debug(asking, query, weights, **asked) if query else None
    return asking.page(
        "debugger.html", q=query, asked=asked, weights=weights, usual=usual_weights(), names=NAMES, result=result
    )


def decisions(asking: Asking) -> Response:
    """What was tried, how often it went well, and the episodes behind that."""
    agent, action, context = asking.agent, asking.exact("action"), asking.text("context")
    rates, past = queries.rates(agent), queries.history(asking)
    (synthesis,) = asking.board.kept.soon((("synthesis", agent.name), partial(agent.learning.synthesis, quiet=True)))
    suggestion = queries.suggested(asking, context) if context else None
    behind = [each for each in reversed(past) if normal_form(each.action) == action] if action else []
    ids = [each.id for each in behind[:ROWS]]
    if suggestion is not None:
        ids = [id for each in suggestion.actions for id in (*each.episodes_for[:3], *each.episodes_against[:3])]
        ids += [id for each in suggestion.actions for id in each.near[:3]]
    return asking.page(
        "decisions.html",
        rates=rates,
        chart=charts.rates((each.action, each.attempts, each.quality) for each in rates[:20]),
        contexts=queries.contexts(past),
        total=len(past),
        action=action,
        behind=behind[:ROWS],
        behind_all=len(behind),
        context=context,
        suggestion=suggestion,
        texts=queries.texts(asking, ids),
        patterns=None if synthesis is None else synthesis.patterns[:ROWS],
        others=agent.shared_patterns.list(("success",))[:ROWS],
        newest=agent.list(limit=10, kinds=["decision"]),
    )


def failures(asking: Asking) -> Response:
    """The failures that come back, and what prevents them."""
    learning, start = asking.agent.learning, asking.count("start", 0, 0, 1_000_000)
    patterns, times = learning.failures(quiet=True), queries.occurrences(asking)
    now = asking.brain.sources.now()
    return asking.page(
        "failures.html",
        patterns=[
            (each, charts.weekly(times.get(each.pattern_id, ()), now)) for each in patterns[start : start + ROWS]
        ],
        over_time=charts.occurrences(at for some in times.values() for at in some),
        weeks=charts.WEEKS,
        total=len(patterns),
        start=start,
        rows=ROWS,
        checks=learning.checks(),
        others=asking.agent.shared_patterns.failures()[:ROWS],
    )


def failure(asking: Asking) -> Response:
    """One failure: when it happened, what solved it, what prevents it, and whether that helps."""
    pattern = found(asking.agent.learning.failure(asking.exact("name")), "failure")
    episodes = list(queries.texts(asking, pattern.episodes).values())
    return asking.page(
        "failure.html",
        here="failures",
        pattern=pattern,
        episodes=sorted(episodes, key=lambda memory: memory.happened_at, reverse=True)[:ROWS],
        over_time=charts.occurrences(queries.occurrences(asking).get(pattern.pattern_id, ())),
        effect=charts.effect(pattern),
    )


def graph(asking: Asking) -> Response:
    """The facts that hold, or held at a time, as a graph."""
    semantic, around, as_of = asking.agent.semantic, asking.text("around"), asking.moment("as_of")
    depth, most = asking.count("depth", 2, 1, 4), asking.count("most", CONCEPTS[0], 1, queries.NODES)
    whole = semantic.graph(as_of=as_of)
    drawn = queries.drawn(whole, around, depth, most)
    facts = semantic.facts(around, as_of=as_of) if around else semantic.facts(as_of=as_of)
    return asking.page(
        "graph.html",
        drawn=drawn,
        around=around,
        depth=depth,
        most=most,
        mosts=sorted({most, *CONCEPTS}),
        names=queries.concepts(whole),
        as_of=as_of,
        facts=list(reversed(facts))[:ROWS],
        total=len(facts),
        conflicts=semantic.contradictions(as_of=as_of)[:ROWS],
    )


def agents(asking: Asking) -> Response:
    """The agents that the key is for."""
    start = asking.count("start", 0, 0, 1_000_000)
    some = asking.names[start : start + ROWS]
    rows = [(name, _maybe(partial(asking.brain.definitions.current, name)), _memories(asking, name)) for name in some]
    return asking.page("agents.html", rows=rows, total=len(asking.names), start=start, each=ROWS)


def _memories(asking: Asking, name: str) -> int | None:
    return queries.how_many(asking.brain, Scope(name))


def life(asking: Asking) -> Response:
    """What an agent did: its cycles, workspaces and runs of workflows."""
    agent, before = asking.agent, asking.count("before", 0, 0, 1_000_000_000) or None
    cycles = _maybe(lambda: agent.life.cycles(ROWS, before=before)) or []
    workspaces = _maybe(lambda: list(agent.workspaces.list())) or []
    return asking.page(
        "life.html",
        definition=_maybe(lambda: asking.brain.definitions.current(agent.name)),
        state=_maybe(agent.life.resume),
        cycles=cycles,
        more=cycles[-1].index if cycles and cycles[-1].index > 1 else None,
        workspaces=[(each, list(agent.workspaces.snapshots(each.name))[-5:][::-1]) for each in workspaces[:ROWS]],
        runs=_maybe(lambda: agent.workflows().runs(limit=20, workflow="")) or [],
    )


def grants(asking: Asking) -> Response:
    """What an agent shares, asks for and may use of others."""
    asking.needs("share")
    agent, id = asking.agent, asking.exact("id")
    listed = agent.grants.list()[::-1]
    return asking.page(
        "grants.html",
        listed=listed[:200],
        total=len(listed),
        chosen=agent.grants.get(id) if id else None,
        uses=agent.grants.uses(id, 200)[::-1] if id else [],
        sources=asking.board.kept.get(("sources", agent.name), agent.grants.sources),
    )


def decide_grant(asking: Asking) -> Response:
    """Approve, deny or revoke a grant, for the agent that is looked at."""
    asking.needs("share")
    deeds: dict[str, Callable[[str], Any]] = {
        "approve": asking.agent.grants.approve,
        "deny": asking.agent.grants.deny,
        "revoke": asking.agent.grants.revoke,
    }
    deed = found(deeds.get(asking.text("deed")), "decision")
    id = asking.exact("id")
    deed(id)
    return asking.back("grants", id=id)


def audit(asking: Asking) -> Response:
    """What was done to the memory of an agent, or to all, newest first."""
    asking.needs("admin")
    which = _which(asking)
    before = asking.count("before", 0, 0, 2**53) or None
    entries = queries.trail(asking, which, before, ROWS)
    more = entries[-1].seq if len(entries) == ROWS and entries[-1].seq > 1 else None
    return asking.page("audit.html", entries=entries, which=which, more=more, before=before, result=None)


def check_audit(asking: Asking) -> Response:
    """Look at the whole chain; only for whoever may see all of it."""
    asking.needs("admin")
    if not asking.everywhere:
        raise NotAllowed("the chain is about all agents; sign in with a key that is for all of them")
    which = _which(asking)
    result, entries = queries.verified(asking), queries.trail(asking, which, None, ROWS)
    more = entries[-1].seq if len(entries) == ROWS else None
    return asking.page("audit.html", here="audit", entries=entries, which=which, more=more, before=None, result=result)


def _which(asking: Asking) -> queries.Which:
    return "all" if asking.text("which") == "all" and asking.everywhere else "agent"


def quarantine(asking: Asking) -> Response:
    """What was set apart, and waits for somebody to look at it."""
    waiting = asking.agent.quarantine.list()
    start = asking.count("start", 0, 0, 10_000)
    return asking.page(
        "quarantine.html",
        waiting=waiting[start : start + ROWS],
        total=len(waiting),
        start=start,
        rows=ROWS,
        may={"release": asking.session.key.has_right("admin"), "discard": asking.session.key.has_right("write")},
    )


def review(asking: Asking) -> Response:
    """Release something that was set apart, which its own agent may not, or forget it."""
    apart, id, deed = asking.agent.quarantine, asking.exact("id"), asking.text("deed")
    asking.needs("admin" if deed == "release" else "write")
    apart.get(id)
    if deed == "release":
        apart.release(id)
    elif deed == "discard":
        apart.discard(id)
    else:
        raise InvalidInput("something that was set apart can be released or discarded")
    return asking.back("quarantine")


def drawing(asking: Asking) -> Response:
    """The graph as values, for other programs that are signed in."""
    whole = asking.agent.semantic.graph(as_of=asking.moment("as_of"))
    return JSONResponse(queries.drawn(whole, asking.text("around"), asking.count("depth", 2, 1, 4)), headers=SAFE)


def _maybe(look: Callable[[], Any]) -> Any:
    """What a store can tell, or `None` if it keeps nothing of that kind."""
    try:
        return look()
    except Unsupported:
        return None


LOOKS: dict[str, Handler] = {
    "": overview,
    "timeline": timeline,
    "memory": memory,
    "debugger": debugger,
    "decisions": decisions,
    "failures": failures,
    "failure": failure,
    "graph": graph,
    "graph.json": drawing,
    "agents": agents,
    "life": life,
    "grants": grants,
    "audit": audit,
    "quarantine": quarantine,
}
"""The pages, by their path."""

DEEDS: dict[str, Handler] = {"grants": decide_grant, "audit": check_audit, "quarantine": review}
"""What can be posted."""
