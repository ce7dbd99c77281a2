"""The pages of the dashboard, and the actions of their forms."""

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
from engram.server.dashboard.params import SAFE, PageRequest, require
from engram.server.dashboard.queries import NAMES, TimelineFilter, default_weights
from engram.text.terms import normal_form

Handler = Callable[[PageRequest], Response]
TIMELINE_SIZE = 50
PAGE_SIZE = 50
MAX_WEIGHT = 20.0
CONCEPTS = (60, 150, queries.NODES)
"""Choices for the number of drawn concepts; the first is the default."""


def overview(request: PageRequest) -> Response:
    """Show the overview of an agent."""
    if not request.names:
        return request.page("welcome.html", here="overview")
    summary = queries.overview(request)
    trend = summary.report and charts.weekly_measures(summary.report, ("success", "successful decisions"))
    pairs = (("hit_ratio", "memories that helped"), ("retrieval_success", "recalls that helped"))
    hits = summary.report and charts.weekly_measures(summary.report, *pairs)
    return request.page(
        "overview.html",
        summary=summary,
        growth=charts.growth(summary.days),
        trend=trend,
        hits=hits,
        least=math.ceil(COMPARED / SHARE),
    )


def timeline(request: PageRequest) -> Response:
    """List memories that match the filters, newest first."""
    filters = TimelineFilter(
        request.text("kind"),
        request.text("tag"),
        request.text("session"),
        request.moment("since"),
        request.moment("until"),
        request.moment("as_of"),
    )
    found = queries.timeline(request.agent, filters, TIMELINE_SIZE, request.text("cursor") or None)
    now = request.brain.sources.now()
    total = queries.memory_count(request.brain, request.scope)
    first = queries.slider_start(request, total, now)
    return request.page(
        "timeline.html",
        filters=filters,
        days=_by_day(found.items),
        kinds=list(MemoryType),
        more=found.next_cursor,
        first=first,
        place=_slider_position(first, filters.as_of or now, now),
        paged=bool(request.text("cursor")),
        total=total,
    )


def _by_day(memories: Sequence[Memory]) -> list[tuple[str, list[Memory]]]:
    grouped = groupby(memories, key=lambda memory: memory.happened_at.date().isoformat())
    return [(day, list(some)) for day, some in grouped]


def _slider_position(first: datetime, at: datetime, last: datetime) -> int:
    """Return the position of a time between two others, in thousandths."""
    whole = (last - first).total_seconds() or 1.0
    return max(0, min(1000, round(1000 * (at - first).total_seconds() / whole)))


def memory(request: PageRequest) -> Response:
    """Show one memory with all details."""
    details = require(queries.memory(request, request.exact("id")), "memory")
    content = {name: value for name, value in details.memory.content.model_dump(mode="json").items() if name != "kind"}
    shown = {name: value for name, value in content.items() if value not in (None, "", [], False)}
    extra = json.dumps(dict(details.memory.metadata), indent=2, ensure_ascii=False) if details.memory.metadata else ""
    return request.page("memory.html", here="timeline", details=details, content=shown, extra=extra)


def debugger(request: PageRequest) -> Response:
    """Explain a recall: every candidate, the parts of its score, and why it was left out."""
    weights = {
        name: request.number(name, default, -MAX_WEIGHT, MAX_WEIGHT) for name, default in default_weights().items()
    }
    query, group = request.text("q"), request.text("group_by")
    if group not in {"", "session"}:
        raise InvalidInput("group_by must be session or empty")
    options = {
        "k": request.count("k", 5, 1, 100),
        "min_score": request.number("min_score", 0.0, 0.0, 1.0),
        "group_by": group or None,
        "budget_tokens": request.count("budget", 0, 0, 1_000_000) or None,
        "as_of": request.moment("as_of"),
    }
    name = request.agent.name
    if not query:
        request.dashboard.cache.start(("warm", name), partial(queries.warm, request))
    result = queries.debug(request, query, weights, **options) if query else None
    return request.page(
        "debugger.html",
        q=query,
        options=options,
        weights=weights,
        defaults=default_weights(),
        names=NAMES,
        result=result,
    )


def decisions(request: PageRequest) -> Response:
    """Show actions with their success rates and episodes."""
    agent, action, context = request.agent, request.exact("action"), request.text("context")
    rates, past = queries.rates(agent), queries.history(request)
    (synthesis,) = request.dashboard.cache.get_soon(
        (("synthesis", agent.name), partial(agent.learning.synthesis, quiet=True))
    )
    suggestion = queries.suggestion(request, context) if context else None
    behind = [each for each in reversed(past) if normal_form(each.action) == action] if action else []
    ids = [each.id for each in behind[:PAGE_SIZE]]
    if suggestion is not None:
        ids = [id for each in suggestion.actions for id in (*each.episodes_for[:3], *each.episodes_against[:3])]
        ids += [id for each in suggestion.actions for id in each.near[:3]]
    return request.page(
        "decisions.html",
        rates=rates,
        chart=charts.rates((each.action, each.attempts, each.quality) for each in rates[:20]),
        contexts=queries.contexts(past),
        total=len(past),
        action=action,
        behind=behind[:PAGE_SIZE],
        behind_all=len(behind),
        context=context,
        suggestion=suggestion,
        texts=queries.texts(request, ids),
        patterns=None if synthesis is None else synthesis.patterns[:PAGE_SIZE],
        others=agent.shared_patterns.list(("success",))[:PAGE_SIZE],
        newest=agent.list(limit=10, kinds=["decision"]),
    )


def failures(request: PageRequest) -> Response:
    """List known failures and prevention checks."""
    learning, start = request.agent.learning, request.count("start", 0, 0, 1_000_000)
    patterns, times = learning.failures(quiet=True), queries.occurrences(request)
    now = request.brain.sources.now()
    return request.page(
        "failures.html",
        patterns=[
            (each, charts.counts_by_week(times.get(each.pattern_id, ()), now))
            for each in patterns[start : start + PAGE_SIZE]
        ],
        over_time=charts.occurrences(at for some in times.values() for at in some),
        weeks=charts.WEEKS,
        total=len(patterns),
        start=start,
        rows=PAGE_SIZE,
        checks=learning.checks(),
        others=request.agent.shared_patterns.failures()[:PAGE_SIZE],
    )


def failure(request: PageRequest) -> Response:
    """Show one failure: occurrences, solutions, and the effect of its checks."""
    pattern = require(request.agent.learning.failure(request.exact("name")), "failure")
    episodes = list(queries.texts(request, pattern.episodes).values())
    return request.page(
        "failure.html",
        here="failures",
        pattern=pattern,
        episodes=sorted(episodes, key=lambda memory: memory.happened_at, reverse=True)[:PAGE_SIZE],
        over_time=charts.occurrences(queries.occurrences(request).get(pattern.pattern_id, ())),
        effect=charts.effect(pattern),
    )


def graph(request: PageRequest) -> Response:
    """Draw the facts that are valid, or were valid at a time, as a graph."""
    semantic, around, as_of = request.agent.semantic, request.text("around"), request.moment("as_of")
    depth, most = request.count("depth", 2, 1, 4), request.count("most", CONCEPTS[0], 1, queries.NODES)
    whole = semantic.graph(as_of=as_of)
    drawn = queries.visible_graph(whole, around, depth, most)
    facts = semantic.facts(around, as_of=as_of) if around else semantic.facts(as_of=as_of)
    return request.page(
        "graph.html",
        drawn=drawn,
        around=around,
        depth=depth,
        most=most,
        mosts=sorted({most, *CONCEPTS}),
        names=queries.concepts(whole),
        as_of=as_of,
        facts=list(reversed(facts))[:PAGE_SIZE],
        total=len(facts),
        conflicts=semantic.contradictions(as_of=as_of)[:PAGE_SIZE],
    )


def agents(request: PageRequest) -> Response:
    """List the agents that the key may read."""
    start = request.count("start", 0, 0, 1_000_000)
    some = request.names[start : start + PAGE_SIZE]
    rows = [
        (name, _if_supported(partial(request.brain.definitions.current, name)), _memories(request, name))
        for name in some
    ]
    return request.page("agents.html", rows=rows, total=len(request.names), start=start, each=PAGE_SIZE)


def _memories(request: PageRequest, name: str) -> int | None:
    return queries.memory_count(request.brain, Scope(name))


def life(request: PageRequest) -> Response:
    """Show the cycles, workspaces and workflow runs of an agent."""
    agent, before = request.agent, request.count("before", 0, 0, 1_000_000_000) or None
    cycles = _if_supported(lambda: agent.life.cycles(PAGE_SIZE, before=before)) or []
    workspaces = _if_supported(lambda: list(agent.workspaces.list())) or []
    return request.page(
        "life.html",
        definition=_if_supported(lambda: request.brain.definitions.current(agent.name)),
        state=_if_supported(agent.life.resume),
        cycles=cycles,
        more=cycles[-1].index if cycles and cycles[-1].index > 1 else None,
        workspaces=[(each, list(agent.workspaces.snapshots(each.name))[-5:][::-1]) for each in workspaces[:PAGE_SIZE]],
        runs=_if_supported(lambda: agent.workflows().runs(limit=20, workflow="")) or [],
    )


def grants(request: PageRequest) -> Response:
    """Show the grants and sources of an agent."""
    request.require_right("share")
    agent, id = request.agent, request.exact("id")
    listed = agent.grants.list()[::-1]
    return request.page(
        "grants.html",
        listed=listed[:200],
        total=len(listed),
        chosen=agent.grants.get(id) if id else None,
        uses=agent.grants.uses(id, 200)[::-1] if id else [],
        sources=request.dashboard.cache.get(("sources", agent.name), agent.grants.sources),
    )


def decide_grant(request: PageRequest) -> Response:
    """Approve, deny or revoke a grant as the agent of the page."""
    request.require_right("share")
    actions: dict[str, Callable[[str], Any]] = {
        "approve": request.agent.grants.approve,
        "deny": request.agent.grants.deny,
        "revoke": request.agent.grants.revoke,
    }
    act = require(actions.get(request.text("action")), "action")
    id = request.exact("id")
    act(id)
    return request.back("grants", id=id)


def audit(request: PageRequest) -> Response:
    """List the audit entries of an agent, or of all agents, newest first."""
    request.require_right("admin")
    which = _which(request)
    before = request.count("before", 0, 0, 2**53) or None
    entries = queries.trail(request, which, before, PAGE_SIZE)
    more = entries[-1].seq if len(entries) == PAGE_SIZE and entries[-1].seq > 1 else None
    return request.page("audit.html", entries=entries, which=which, more=more, before=before, result=None)


def check_audit(request: PageRequest) -> Response:
    """Verify the audit trail; needs a key for all agents."""
    request.require_right("admin")
    if not request.all_agents:
        raise NotAllowed("the audit trail covers all agents; sign in with a key for all agents")
    which = _which(request)
    result, entries = queries.verify_trail(request), queries.trail(request, which, None, PAGE_SIZE)
    more = entries[-1].seq if len(entries) == PAGE_SIZE else None
    return request.page("audit.html", here="audit", entries=entries, which=which, more=more, before=None, result=result)


def _which(request: PageRequest) -> queries.Which:
    return "all" if request.text("which") == "all" and request.all_agents else "agent"


def quarantine(request: PageRequest) -> Response:
    """List quarantined memories."""
    waiting = request.agent.quarantine.list()
    start = request.count("start", 0, 0, 10_000)
    return request.page(
        "quarantine.html",
        waiting=waiting[start : start + PAGE_SIZE],
        total=len(waiting),
        start=start,
        rows=PAGE_SIZE,
        may={"release": request.session.key.has_right("admin"), "discard": request.session.key.has_right("write")},
    )


def review(request: PageRequest) -> Response:
    """Release a quarantined memory, which needs the right `admin`, or delete it."""
    held, id, action = request.agent.quarantine, request.exact("id"), request.text("action")
    request.require_right("admin" if action == "release" else "write")
    held.get(id)
    if action == "release":
        held.release(id)
    elif action == "discard":
        held.discard(id)
    else:
        raise InvalidInput("the action must be release or discard")
    return request.back("quarantine")


def graph_json(request: PageRequest) -> Response:
    """Return the drawn graph as JSON."""
    whole = request.agent.semantic.graph(as_of=request.moment("as_of"))
    return JSONResponse(
        queries.visible_graph(whole, request.text("around"), request.count("depth", 2, 1, 4)), headers=SAFE
    )


def _if_supported(query: Callable[[], Any]) -> Any:
    """Return the result of a query, or `None` if the store does not support it."""
    try:
        return query()
    except Unsupported:
        return None


PAGES: dict[str, Handler] = {
    "": overview,
    "timeline": timeline,
    "memory": memory,
    "debugger": debugger,
    "decisions": decisions,
    "failures": failures,
    "failure": failure,
    "graph": graph,
    "graph.json": graph_json,
    "agents": agents,
    "life": life,
    "grants": grants,
    "audit": audit,
    "quarantine": quarantine,
}
"""The pages, by their path."""

FORM_ACTIONS: dict[str, Handler] = {"grants": decide_grant, "audit": check_audit, "quarantine": review}
"""The actions of posted forms, by path."""
