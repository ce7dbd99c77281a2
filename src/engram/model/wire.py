"""What goes over the wire besides the memories themselves: requests, pages and problems, for servers and clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field, JsonValue

from engram.model.audit import Verification
from engram.model.content import Frozen, MemoryType
from engram.model.grant import Right
from engram.model.life import Agent
from engram.model.memory import Hit, Moment, Origin, Receipt, Share
from engram.model.retention import Action, Went

T = TypeVar("T")

MOST_AT_ONCE = 1000
LONGEST_QUERY = 4096
MOST_NAMED = 1000
"""Memories, patterns, domains or tags that one request may name."""
LONGEST_NAME = 400

Outcome = Annotated[
    Literal["success", "partial", "failure"] | Share,
    Field(description="How it went: success, partial, failure, or a number from 0 to 1."),
]


class Flaw(Frozen):
    """One thing that is wrong with a request."""

    where: str = Field(description="The place in the request, such as `body.query`.")
    what: str = Field(description="What is wrong there.")


class Problem(Frozen):
    """Why a request was not carried out (RFC 9457)."""

    type: str = Field(description="A name for this kind of problem, `urn:engram:problem:` and its code.")
    title: str = Field(description="What this kind of problem is, in words.")
    status: int = Field(ge=400, le=599, description="The HTTP status, once more.")
    detail: str = Field(description="What happened here, and what to do next.")
    code: str = Field(description="The code of the error, the same through every door.")
    request_id: str = Field(default="", description="By which the request is found in the server's log.")
    errors: tuple[Flaw, ...] = Field(
        default=(), description="Everything that is wrong with the request, if it is that."
    )
    receipt: Receipt | None = Field(default=None, description="The receipt of a memory that was not stored.")


class Page(Frozen, Generic[T]):
    """Some of a list, and where it goes on."""

    items: tuple[T, ...] = Field(description="This part of the list, in its order.")
    next_cursor: str | None = Field(default=None, description="Give this as `cursor` to go on; none at the end.")


class NewMemory(Frozen):
    """Something to remember, as the caller says it."""

    text: str = Field(description="What is to be remembered.")
    kind: MemoryType = Field(default=MemoryType.OBSERVATION, description="Which kind of memory it is.")
    tags: tuple[str, ...] = Field(default=(), description="Labels to find it by.")
    at: Moment | None = Field(default=None, description="When it happened; now, if left out.")
    session: str | None = Field(default=None, description="The session it belongs to.")
    role: str | None = Field(default=None, description="The role of the speaker, such as user or assistant.")
    speaker: str | None = Field(default=None, description="Who said it.")
    importance: Share = Field(default=0.5, description="How much it matters.")
    confidence: Share = Field(default=1.0, description="How sure it is.")
    key: str | None = Field(
        default=None, description="Makes it harmless to send it twice; the header Idempotency-Key does the same."
    )
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict, description="More facts, as JSON.")
    context: str = Field(default="", description="The situation it belongs to.")
    content: Mapping[str, JsonValue] = Field(default_factory=dict, description="The typed fields of its kind.")
    sources: tuple[str, ...] = Field(default=(), description="The ids of memories that it was derived from.")
    valid_from: Moment | None = Field(default=None, description="Since when it is so; since it happened, if left out.")
    valid_until: Moment | None = Field(default=None, description="Until when it is so.")
    origin: Origin = Field(
        default=Origin.SELF,
        description="Where it came from; what did not come from the agent itself and tells it what to do is set apart.",
    )
    trust: Share | None = Field(
        default=None, description="How far it can be believed; as far as its origin is, if left out."
    )


class NewMemories(Frozen):
    """Several things to remember in one transaction."""

    items: tuple[NewMemory, ...] = Field(
        min_length=1, max_length=MOST_AT_ONCE, description="What is to be remembered, in this order."
    )


class Receipts(Frozen):
    """What became of several drafts."""

    receipts: tuple[Receipt, ...] = Field(description="One for each draft, in their order.")


class Annotation(Frozen):
    """New values for what surrounds a memory; what is left out stays as it is."""

    tags: tuple[str, ...] | None = Field(default=None, description="All labels that it is to have.")
    importance: Share | None = Field(default=None, description="How much it matters.")
    confidence: Share | None = Field(default=None, description="How sure it is.")
    valid_until: Moment | None = Field(default=None, description="Until when it is so.")


class RecallQuery(Frozen):
    """What to look for among the memories."""

    query: str = Field(min_length=1, max_length=LONGEST_QUERY, description="The question, in words.")
    k: int = Field(default=5, ge=1, le=100, description="How many memories, at most.")
    kinds: tuple[MemoryType, ...] = Field(default=(), description="Only these kinds.")
    tags: tuple[str, ...] = Field(default=(), description="Only what has all of these labels.")
    since: Moment | None = Field(default=None, description="Only what happened from then on.")
    until: Moment | None = Field(default=None, description="Only what happened before then.")
    as_of: Moment | None = Field(default=None, description="Only what was valid then.")
    now: Moment | None = Field(default=None, description="When it was asked: what `last week` is meant from.")
    session: str | None = Field(default=None, description="Only of this session.")
    min_score: Share = Field(default=0.0, description="Only what matches at least so well.")
    group_by: Literal["session"] | None = Field(default=None, description="Keep the best hit of each session only.")
    budget_tokens: int | None = Field(
        default=None, ge=1, le=1_000_000_000, description="How long all texts together may be."
    )
    expand: bool = Field(default=False, description="Ask also with the concepts that facts join to those it names.")


class ContextQuery(RecallQuery):
    """What a model is to be reminded of."""

    k: int = Field(default=8, ge=1, le=100, description="How many memories, at most.")
    budget_tokens: int = Field(
        default=1000, ge=1, le=1_000_000_000, description="How long the text may be, in tokens of a model."
    )


class ContextText(Frozen):
    """What is remembered about a question, as a text for a model."""

    text: str = Field(description="The memories, quoted as data, each with its origin and trust; empty without any.")


class Recalled(Frozen):
    """The memories that answer a query."""

    id: str = Field(description="The id of this recall, by which its outcome can be told.")
    hits: tuple[Hit, ...] = Field(description="The memories, best first.")


class Around(Frozen):
    """The circumstances of an action."""

    environment: str = Field(default="", description="Where it is done, such as staging.")
    tool: str = Field(default="", description="What it is done with.")
    task_type: str = Field(default="", description="Which kind of task it belongs to.")
    tags: tuple[str, ...] = Field(default=(), description="Labels of the situation.")


class NewDecision(Around):
    """What was done in a context, and how it went."""

    context: str = Field(description="The situation.")
    action: str = Field(description="What was done.")
    outcome: Outcome | None = Field(default=None, description="How it went; it can be told later, too.")
    alternatives: tuple[str, ...] = Field(default=(), description="What could have been done instead.")
    error: str = Field(default="", description="The error, if it failed.")
    duration: float | None = Field(default=None, ge=0, description="How long it took, in seconds.")
    cost: float | None = Field(default=None, ge=0, description="What it cost, in any one unit.")
    informed_by: tuple[str, ...] = Field(
        default=(), description="The recalls, suggestions and verdicts that it was based on."
    )
    from_others: bool = Field(default=False, description="Whether other agents had learned it.")
    at: Moment | None = Field(default=None, description="When it was taken; now, if left out.")
    session: str | None = Field(default=None, description="The session it belongs to.")
    importance: Share = Field(default=0.5, description="How much it matters.")
    key: str | None = Field(
        default=None, description="Makes it harmless to send it twice; the header Idempotency-Key does the same."
    )
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict, description="More facts, as JSON.")


class NewOutcome(Frozen):
    """How it went."""

    id: str = Field(description="The id of a decision, a recall or a suggestion.")
    outcome: Outcome = Field(description="How it went: success, partial, failure, or a number from 0 to 1.")
    used: tuple[str, ...] | None = Field(default=None, description="Which memories of a recall were used.")
    action: str | None = Field(default=None, description="What was done instead of what had been suggested.")
    error: str = Field(default="", description="The error, if it failed.")
    duration: float | None = Field(default=None, ge=0, description="How long it took, in seconds.")
    cost: float | None = Field(default=None, ge=0, description="What it cost, in any one unit.")
    correct: bool = Field(default=False, description="Whether it replaces an outcome that was told before.")


class Noted(Frozen):
    """Whether something was news."""

    news: bool = Field(description="False if just that was known.")


class SuggestionQuery(Around):
    """A situation in which to act."""

    context: str = Field(description="The situation.")
    actions: tuple[str, ...] | None = Field(default=None, description="What can be done; what was tried, if left out.")
    explore: bool = Field(default=False, description="Whether to try what little is known about now and then.")


class PredictionQuery(Around):
    """An action whose success is to be foretold."""

    context: str = Field(description="The situation.")
    action: str = Field(description="What is to be done.")


class CheckQuery(Around):
    """An action that is about to be done."""

    action: str = Field(description="What is about to be done, such as a command line.")
    context: str = Field(default="", description="The situation.")


class NewFailure(Frozen):
    """What went wrong, and what was done about it."""

    error: str = Field(description="The error, with its traceback if there is one.")
    solution: str = Field(default="", description="What was done about it.")
    helped: bool | Share | None = Field(default=None, description="Whether that helped; yes, if left out.")
    action: str = Field(default="", description="What was being done.")
    context: str = Field(default="", description="The situation.")
    environment: str = Field(default="", description="Where it was done, such as staging.")
    tool: str = Field(default="", description="What it was done with.")
    task_type: str = Field(default="", description="Which kind of task it belongs to.")
    root_cause: str = Field(default="", description="Why it failed.")
    prevention: str = Field(default="", description="What would have kept it from failing.")
    tags: tuple[str, ...] = Field(default=(), description="Labels to find it by.")
    at: Moment | None = Field(default=None, description="When it happened; now, if left out.")
    session: str | None = Field(default=None, description="The session it belongs to.")
    key: str | None = Field(
        default=None, description="Makes it harmless to send it twice; the header Idempotency-Key does the same."
    )


class TriedSolution(Frozen):
    """How a solution did."""

    solution: str = Field(description="What was done about the failure.")
    helped: bool | Share = Field(default=True, description="Whether it helped, or how much.")


class NewChecks(Frozen):
    """Which failure to make prevention checks from."""

    pattern: str = Field(description="The failure: its name or id.")
    stage: str = Field(default="", description="The stage of the workflow that they belong to.")


class NewCycle(Frozen):
    """What an agent means to do next."""

    thoughts: JsonValue = Field(default="", description="What it thought, as text or JSON.")
    tool: str = Field(default="", description="The tool that it means to call.")
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict, description="What the tool is to be given.")
    reasoning: str = Field(default="", description="Why.")
    plan: tuple[str, ...] = Field(default=(), description="What it means to do after that.")
    workspace: str = Field(default="", description="The workspace that it works on.")
    again: bool = Field(default=False, description="Whether it is meant, though the same call has no result yet.")


class CycleError(Frozen):
    """What went wrong when an action was carried out."""

    message: str = Field(description="What went wrong.")
    kind: str = Field(default="", description="The class or code of the error.")
    details: JsonValue = Field(default=None, description="More about it, as JSON.")


class CycleEnd(Frozen):
    """What came of a cycle."""

    output: JsonValue = Field(default=None, description="What the action gave.")
    error: str | CycleError | None = Field(default=None, description="What went wrong, if it failed.")
    artifacts: tuple[str, ...] = Field(default=(), description="Where what it made is to be found.")
    learn: bool = Field(default=False, description="Whether to learn from its failure.")


class CycleDecision(Frozen):
    """What becomes of a cycle without a result."""

    how: Literal["abandon", "retry"] = Field(description="Whether it ends so, or is done again in a new cycle.")
    reason: str = Field(default="", description="Why it is abandoned.")


Names = Annotated[tuple[str, ...], Field(max_length=MOST_NAMED)]


class Terms(Frozen):
    """What is shared, what for, and until when."""

    memories: Names = Field(default=(), description="Ids of memories.")
    patterns: Names = Field(default=(), description="Names or ids of learned patterns.")
    domains: Names = Field(default=(), description="Fields of knowledge, such as auth.")
    tags: Names = Field(default=(), description="Tags; a memory with any of them is shared.")
    everything: bool = Field(default=False, description="All that the owner remembers, now and later.")
    purpose: str = Field(default="", max_length=LONGEST_QUERY, description="What it is for.")
    rights: tuple[Right, ...] = Field(default=(), description="What may be done with it; read and learn, if left out.")
    expires: Moment | None = Field(default=None, description="When it ends by itself.")


class GrantRequest(Terms):
    """A question for the knowledge of another agent."""

    owner: str = Field(max_length=LONGEST_NAME, description="The agent whose knowledge it is.")


class GrantOffer(Terms):
    """An offer of knowledge to another agent."""

    to: str = Field(max_length=LONGEST_NAME, description="The agent it is for.")


class GrantShare(Terms):
    """Knowledge that is shared at once."""

    to: str = Field(max_length=LONGEST_NAME, description="An agent, `group:NAME` or `everyone`.")
    via: str = Field(default="", max_length=LONGEST_NAME, description="The grant by which it was lent, to share it on.")


class GrantAgreement(Frozen):
    """On which terms a request is agreed to; an offer is agreed to as it is."""

    rights: tuple[Right, ...] = Field(default=(), description="Other rights than those that were asked for.")
    expires: Moment | None = Field(default=None, description="When it ends by itself.")


class GroupView(Frozen):
    """Agents with whom knowledge can be shared at once, as `group:NAME`."""

    name: str = Field(description="The name of the group.")
    members: tuple[str, ...] = Field(description="The agents that are in it, by name.")


class GroupChange(Frozen):
    """Who comes into a group, and who leaves it."""

    add: Names = Field(default=(), description="Agents that come in.")
    remove: Names = Field(default=(), description="Agents that leave.")


class Merge(Frozen):
    """Whose knowledge is to be taken in, as far as that agent shares it."""

    from_agent: str = Field(max_length=LONGEST_NAME, description="Whose knowledge it is.")
    domains: Names = Field(default=(), description="Only of these domains.")
    tags: Names = Field(default=(), description="Only with any of these tags.")
    dry_run: bool = Field(default=False, description="Only say what would come in.")


class Policy(Frozen):
    """Which memories go by themselves: those that fulfil everything it says."""

    name: str = Field(
        min_length=1, max_length=100, description="What it is called; a new one replaces the one of this name."
    )
    action: Action = Field(description="`forget` leaves nothing of them; `archive` moves them to a file.")
    agent: str | None = Field(
        default=None, max_length=LONGEST_NAME, description="Whose memories; those of all agents, if left out."
    )
    kinds: tuple[MemoryType, ...] = Field(default=(), description="Only memories of one of these kinds.")
    tags: Names = Field(default=(), description="Only memories that have all of these tags.")
    older_than_days: float | None = Field(
        default=None, gt=0, le=100_000, description="Only what was stored longer ago than so many days."
    )
    weaker_than: Share | None = Field(default=None, description="Only what has faded below this strength.")
    outcome: Went | None = Field(default=None, description="Only what went like this.")


class NewHold(Frozen):
    """What may not be forgotten until somebody releases it."""

    reason: str = Field(min_length=1, max_length=LONGEST_QUERY, description="Why it is held.")
    agent: str | None = Field(
        default=None, max_length=LONGEST_NAME, description="Whose memories; those of all agents, if left out."
    )
    memories: Names = Field(default=(), description="Only these, by id.")
    tags: Names = Field(default=(), description="Only those with one of these tags.")
    sessions: Names = Field(default=(), description="Only those of one of these sessions.")


class RetentionRun(Frozen):
    """How to let go of what fulfils a policy."""

    agents: Names | None = Field(default=None, description="Only of these agents; of all, if left out.")
    dry_run: bool = Field(default=False, description="Only say what would go.")


class AuditVerification(Verification):
    """What a look at the whole audit trail found."""


class AgentView(Frozen):
    """An agent, and who it is."""

    name: str = Field(description="Its name.")
    definition: Agent | None = Field(default=None, description="Who it is and what it is told to do, if defined.")


class LiveEvent(Frozen):
    """Something that happened, as the stream of events tells it; what it says can be read by its subject."""

    seq: int = Field(description="Its number in the stream, to go on after it; it says nothing of order or of others.")
    agent: str = Field(description="Whose it is.")
    event: str = Field(description="What happened: stored, forgotten, decision, outcome, failure, ….")
    subject: str = Field(description="The id of the memory, or the name of the thing, that it is about.")
    at: Moment = Field(description="When it happened.")


class Health(Frozen):
    """Whether the server is well."""

    status: Literal["ok", "unready"] = Field(description="`ok` if it is.")
