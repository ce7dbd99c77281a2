"""The events that are learned from: decisions, outcomes, failures, solutions, and verdicts of checks."""

from __future__ import annotations

import re
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, cast

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.learning.decisions.belief import GOOD, DecisionEpisode
from engram.learning.failures.recognizer import FailureEvent
from engram.model import DecisionContent, FailureContent, Memory, MemoryType
from engram.ports import Event, LoggedRecall, Scope, Store
from engram.text.terms import digest, normal_form

DECISION, OUTCOME, FAILURE, SOLUTION = "decision", "outcome", "failure", "solution"
CHECK, CHECKED, RAN, SITUATION = "check", "checked", "ran", "situation"
GIVEN = "given"
"""Where a decision notes which of the ids that it cites had been given to its agent before."""
SOURCES = "sources"
"""The field in which a decision notes the sources of lent knowledge that it followed, and how far it rests on each."""
SAYS = "says"
"""The field in which a suggestion notes that it said something; one that knew of nothing informs no decision."""
LONGEST_ERROR = 8000
RETOLD = timedelta(hours=1)
"""For so long a failure of the same action in the same context is that of a decision that failed."""
_NUMBER = re.compile(r"\d+")
_HAPPENINGS = frozenset({DECISION, OUTCOME, FAILURE, SOLUTION, CHECK, CHECKED, RAN})


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known about a situation besides its words."""

    environment: str = ""
    tool: str = ""
    task_type: str = ""
    tags: tuple[str, ...] = ()

    def features(self) -> frozenset[str]:
        """As one set: `env=ci`, `tool=npm`, `type=auth`, `tag=db`."""
        named = {"env": self.environment, "tool": self.tool, "type": self.task_type}
        own = {f"{name}={normal_form(value)}" for name, value in named.items() if value.strip()}
        return frozenset(own | {f"tag={normal_form(tag)}" for tag in self.tags if tag.strip()})


ANYWHERE = Circumstances()


def error_text(error: str | BaseException) -> str:
    """An error as text: an exception with where it came from; of a very long one, the beginning and the end."""
    if isinstance(error, BaseException):
        error = "".join(traceback.format_exception(error)).strip()
    if not isinstance(error, str):
        raise InvalidInput(f"an error is a text or an exception, not {type(error).__name__}")
    if len(error) <= LONGEST_ERROR:
        return error
    return f"{error[: LONGEST_ERROR // 4]}\n…\n{error[-3 * LONGEST_ERROR // 4 :]}"


def topic(context: str) -> str:
    """What the events of one context are found by, however it is spelt."""
    return digest(normal_form(context))


def event_of(memory: Memory) -> Event | None:
    """The event that a memory of a decision or of a failure is; `None` for all others."""
    content = memory.content
    if isinstance(content, DecisionContent) and content.chosen_action.strip():
        context = content.decision_context or memory.context
        body: dict[str, JsonValue] = {
            "context": context,
            "action": content.chosen_action,
            "quality": content.outcome_quality,
            "error": content.error,
            "duration": content.duration,
            "cost": content.cost,
            "informed_by": list(content.informed_by),
            "lent": content.lent or None,
            "alternatives": list(content.alternative_actions),
        }
    elif isinstance(content, FailureContent):
        context = memory.context
        body = {
            "context": context,
            "error": content.error or content.error_signature or memory.text,
            "cause": content.root_cause,
            "solution": content.solution_applied,
            "helped": content.solution_helped,
            "prevention": content.prevention_strategy or "",
            "action": content.action,
            "about": next(iter(memory.provenance.sources), ""),
        }
    else:
        return None
    around = Circumstances(content.environment, content.tool, content.task_type, memory.tags)
    body |= {"environment": content.environment, "session": memory.session}
    body["features"] = [*sorted(around.features())]
    told = {name: value for name, value in body.items() if value not in (None, "", [])}
    return Event(memory.id, str(memory.kind), memory.happened_at, memory.id, topic(context), told)


def outcome_of(
    decision: Event, number: int, at: datetime, quality: float, before: float | None, **details: JsonValue
) -> Event:
    """What became of a decision; `number` counts its outcomes, so that two writers cannot both be the first."""
    told = {name: value for name, value in details.items() if value not in (None, "", [])}
    about: dict[str, JsonValue] = {
        name: decision.body[name] for name in ("action", "context", "environment", "features") if name in decision.body
    }
    decided = decision.at.isoformat()
    body = about | told | {"quality": quality, "before": before, "number": number, "decided": decided}
    return Event(f"{decision.subject}:{OUTCOME}:{number}", OUTCOME, at, decision.subject, decision.topic, body)


def outcomes(events: Iterable[Event]) -> list[Event]:
    """The outcomes among the events of one decision, the last one last."""
    return sorted((event for event in events if event.kind == OUTCOME), key=lambda event: number(event, "number") or 0)


def with_latest_outcomes(store: Store, scope: Scope, memories: list[Memory]) -> list[Memory]:
    """Return the memories; a decision has the success rate of its latest outcome."""
    decided = [memory.id for memory in memories if memory.kind == MemoryType.DECISION]
    if not decided:
        return memories
    last = {event.subject: number(event, "quality") for event in outcomes(store.events_of(scope, decided))}
    return [
        memory.model_copy(update={"success_rate": last[memory.id]}) if memory.id in last else memory
        for memory in memories
    ]


def is_attempt(event: Event) -> bool:
    """Tell whether an event is an attempt: a decision, or the failure of an action that is told by itself."""
    if event.kind == FAILURE:
        return bool(text(event, "action").strip() and text(event, "context").strip()) and not text(event, "about")
    return event.kind == DECISION


def _attempts(events: Sequence[Event]) -> list[tuple[Event, float]]:
    """List the attempts among events whose outcome is known, with how well each went, in their order.

    A failure that is told soon after or before a decision that failed so is that decision.
    """
    last = {event.subject: event for event in outcomes(events)}
    failed, retold = defaultdict[str, list[tuple[datetime, ...]]](list), set[str]()
    for event in events:
        told = last.get(event.subject, event)
        result = number(told, "quality")
        if event.kind == DECISION and result is not None and result < GOOD:
            failed[_tried(event)].append((event.at, told.at))
    for event in events:
        if event.kind == FAILURE and (times := failed.get(_tried(event))):
            nearest = min(times, key=lambda some: min(abs(event.at - at) for at in some))
            if min(abs(event.at - at) for at in nearest) <= RETOLD:
                times.remove(nearest)
                retold.add(event.id)
    found = []
    for event in filter(is_attempt, events):
        result = 0.0 if event.kind == FAILURE else number(last.get(event.subject, event), "quality")
        if result is not None and event.id not in retold:
            found.append((event, result))
    return found


def _tried(event: Event) -> str:
    """Give the key that the decisions and failures of one action in one context share."""
    return digest(event.topic, normal_form(text(event, "action")))


def episodes(
    events: Sequence[Event], agent: str, similarity: dict[str, float] | None = None, *, attempts: bool = False
) -> list[DecisionEpisode]:
    """The decisions among events whose outcome is known, each with its last outcome, in the order of recording.

    `similarity` says how near the context of each is to the one asked about; without it they are of the same context.
    With `attempts`, failures of actions that are told by themselves count, too.
    """
    found = []
    for event, result in _attempts(events):
        if event.kind != DECISION and not attempts:
            continue
        found.append(
            DecisionEpisode(
                id=event.subject,
                action=text(event, "action"),
                quality=result,
                at=event.at,
                context=text(event, "context"),
                similarity=1.0 if similarity is None else similarity.get(event.subject, 0.0),
                features=features(event),
                agent=agent,
            )
        )
    return found


def runs(events: Sequence[Event], agent: str) -> list[list[DecisionEpisode]]:
    """The decisions of each session whose outcome is known, in the order they were taken."""
    sessions = {event.subject: text(event, "session") for event in events if event.kind == DECISION}
    found: defaultdict[str, list[DecisionEpisode]] = defaultdict(list)
    for episode in sorted(episodes(events, agent), key=lambda episode: episode.at):
        if session := sessions[episode.id]:
            found[session].append(episode)
    return [run for run in found.values() if len(run) > 1]


def happening(event: Event, agent: str) -> FailureEvent | None:
    """An event as the recognizer of failures sees it; `None` if it is about something else."""
    if event.kind not in _HAPPENINGS:
        return None
    body: dict[str, Any] = dict(event.body)
    command = body.get("command")
    return FailureEvent(
        kind=cast(Any, event.kind),
        id=event.id,
        at=event.at,
        agent=agent,
        subject=_subject(event),
        memory=event.subject,
        error=text(event, "error"),
        action=text(event, "action"),
        context=text(event, "context"),
        environment=text(event, "environment"),
        features=features(event),
        solution=text(event, "solution"),
        helped=number(event, "helped"),
        quality=number(event, "quality"),
        name=text(event, "name"),
        verify=text(event, "verify") or text(event, "prevention"),
        stage=text(event, "stage"),
        command=tuple(map(str, command)) if isinstance(command, list) else None,
        status=cast(Literal["", "active", "loosened", "retired"], text(event, "status")),
        verdict=cast(Literal["", "allow", "warn", "block"], text(event, "verdict")),
        checks=tuple(map(str, body.get("checks", ()))),
        based_on=tuple(cited(event)) if event.kind == DECISION else (),
    )


def _subject(event: Event) -> str | None:
    """Give what the recognizer takes an event to be about."""
    if event.kind == DECISION:
        return None
    return text(event, "about") or event.subject or None


def sameness(event: Event) -> list[str]:
    """Keys of a failure, one of which is shared by two failures that are the same; empty for any other event.

    Two are the same if their errors read the same but for case, spaces and numbers, or if the user gave the same root
    cause for the same action. The recogniser of failures has no part in it, so that it can be measured by this. A
    failure that was told about a decision is no second one.
    """
    error = text(event, "error")
    if not error.strip() or event.kind not in {DECISION, OUTCOME, FAILURE}:
        return []
    if event.kind == FAILURE and text(event, "about"):
        return []
    keys = [digest("error", _NUMBER.sub("0", normal_form(error)))[:16]]
    if cause := normal_form(text(event, "cause")):
        keys.append(digest("cause", cause, normal_form(text(event, "action")))[:16])
    return keys


def cited(event: Event) -> list[str]:
    """The ids by which a decision says that it was informed."""
    value = event.body.get("informed_by")
    return [str(id) for id in value] if isinstance(value, list) else []


def with_given(event: Event, given: Iterable[str], sources: Mapping[str, float]) -> Event:
    """The event of a decision, with the cited ids that had been given to its agent, and the sources it followed."""
    noted: dict[str, JsonValue] = {SOURCES: {**sources}} if sources else {}
    return replace(event, body={**event.body, GIVEN: [*given], **noted})


def followed(several: Iterable[LoggedRecall], action: str) -> dict[str, float]:
    """Add up how far a decision rests on each source by what it cites, together at most wholly.

    A suggestion counts only if what it recommended was done.
    """
    found = Counter[str]()
    for shown in several:
        noted, advised = shown.about.get(SOURCES), shown.about.get("action")
        if isinstance(noted, dict) and (advised is None or normal_form(str(advised)) == normal_form(action)):
            found.update({name: float(str(share)) for name, share in noted.items()})
    whole = max(1.0, sum(found.values()))
    return {name: share / whole for name, share in sorted(found.items())}


def by_source(decision: Event, quality: float) -> dict[str, tuple[float, float]]:
    """Share the outcome of a decision among the sources that it followed: how far each helped and hindered."""
    noted = decision.body.get(SOURCES)
    shares = {name: float(str(share)) for name, share in noted.items()} if isinstance(noted, dict) else {}
    return {name: (share * quality, share * (1 - quality)) for name, share in shares.items()}


def informed(event: Event, verdicts: Mapping[str, datetime] = MappingProxyType({})) -> bool:
    """Tell whether a decision cites something that its agent had been given by then.

    `verdicts` says when the verdicts were given. Of a decision recorded before what was given was noted, what it says
    is believed.
    """
    ids, given = cited(event), event.body.get(GIVEN)
    if given if isinstance(given, list) else ids:
        return True
    return any(id in verdicts and verdicts[id] <= event.at for id in ids)


def text(event: Event, name: str) -> str:
    """A text in the body of an event; empty if there is none."""
    value = event.body.get(name)
    return value if isinstance(value, str) else ""


def number(event: Event, name: str) -> float | None:
    """A number in the body of an event."""
    value = event.body.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def features(event: Event) -> frozenset[str]:
    """The features in the body of an event."""
    value = event.body.get("features")
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()
