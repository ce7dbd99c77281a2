"""Request and response models of the network interfaces, besides the memories themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field, JsonValue

from engram.model.agent import Agent
from engram.model.content import Frozen, MemoryType
from engram.model.episode import OutcomeName
from engram.model.grant import Right
from engram.model.memory import Hit, Moment, Origin, Receipt, Share
from engram.model.retention import Action

T = TypeVar("T")

MOST_AT_ONCE = 1000
LONGEST_QUERY = 4096
MOST_HITS = 100
"""Memories that one recall may return."""
MOST_NAMED = 1000
"""Memories, patterns, domains or tags that one request may name."""
LONGEST_NAME = 400

Outcome = Annotated[
    Literal["success", "partial", "failure"] | Share,
    Field(description="Outcome: success, partial, failure, or a number from 0 to 1."),
]


class Flaw(Frozen):
    """One error in a request."""

    where: str = Field(description="The place in the request, such as `body.query`.")
    what: str = Field(description="The error.")


class Problem(Frozen):
    """Description of an error (RFC 9457)."""

    type: str = Field(description="URI of the kind of problem: `urn:engram:problem:` and its code.")
    title: str = Field(description="The kind of problem, in words.")
    status: int = Field(ge=400, le=599, description="The HTTP status.")
    detail: str = Field(description="The cause, and what to do next.")
    code: str = Field(description="Error code, the same in every interface.")
    request_id: str = Field(default="", description="Identifies the request in the server's log.")
    errors: tuple[Flaw, ...] = Field(default=(), description="All errors in the request, if it is invalid.")
    receipt: Receipt | None = Field(default=None, description="The receipt of a memory that was not stored.")


class Page(Frozen, Generic[T]):
    """One page of a list."""

    items: tuple[T, ...] = Field(description="The items of this page, in order.")
    next_cursor: str | None = Field(
        default=None, description="Pass this as `cursor` to get the next page; missing on the last."
    )


class NewMemory(Frozen):
    """A memory to store."""

    text: str = Field(description="The text to remember.")
    kind: MemoryType = Field(default=MemoryType.OBSERVATION, description="The kind of memory.")
    tags: tuple[str, ...] = Field(default=(), description="Labels to find it by.")
    at: Moment | None = Field(default=None, description="Time it happened; now, if left out.")
    session: str | None = Field(default=None, description="The session it belongs to.")
    role: str | None = Field(default=None, description="The role of the speaker, such as user or assistant.")
    speaker: str | None = Field(default=None, description="The speaker.")
    importance: Share = Field(default=0.5, description="Its importance.")
    confidence: Share = Field(default=1.0, description="Confidence that it is true.")
    key: str | None = Field(
        default=None,
        description="Idempotency key: a second request with it stores nothing. Same as the header Idempotency-Key.",
    )
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict, description="Further data, as JSON.")
    context: str = Field(default="", description="The situation it belongs to.")
    content: Mapping[str, JsonValue] = Field(default_factory=dict, description="The typed fields of its kind.")
    sources: tuple[str, ...] = Field(default=(), description="The ids of memories it was derived from.")
    valid_from: Moment | None = Field(
        default=None, description="Start of its validity; the time it happened, if left out."
    )
    valid_until: Moment | None = Field(default=None, description="End of its validity.")
    origin: Origin = Field(
        default=Origin.SELF,
        description="Its origin; instructions that do not come from the agent itself are quarantined.",
    )
    trust: Share | None = Field(default=None, description="Its trust; that of its origin, if left out.")


class NewMemories(Frozen):
    """Several memories to store in one transaction."""

    items: tuple[NewMemory, ...] = Field(min_length=1, max_length=MOST_AT_ONCE, description="The memories, in order.")


class Receipts(Frozen):
    """Results of storing several drafts."""

    receipts: tuple[Receipt, ...] = Field(description="One for each draft, in their order.")


class Annotation(Frozen):
    """New metadata of a memory; what is left out stays unchanged."""

    tags: tuple[str, ...] | None = Field(default=None, description="All its labels.")
    importance: Share | None = Field(default=None, description="Its importance.")
    confidence: Share | None = Field(default=None, description="Confidence that it is true.")
    valid_until: Moment | None = Field(default=None, description="End of its validity.")


class RecallQuery(Frozen):
    """A search among the memories."""

    query: str = Field(min_length=1, max_length=LONGEST_QUERY, description="The question, in words.")
    k: int = Field(default=5, ge=1, le=MOST_HITS, description="Maximum number of memories.")
    kinds: tuple[MemoryType, ...] = Field(default=(), description="Only these kinds.")
    tags: tuple[str, ...] = Field(default=(), description="Only memories with all of these labels.")
    since: Moment | None = Field(default=None, description="Only memories of events at or after this time.")
    until: Moment | None = Field(default=None, description="Only memories of events before this time.")
    as_of: Moment | None = Field(default=None, description="Only memories valid at this time.")
    now: Moment | None = Field(default=None, description="Time of the question, to which words like `last week` refer.")
    session: str | None = Field(default=None, description="Only of this session.")
    min_score: Share = Field(default=0.0, description="Minimum score.")
    group_by: Literal["session"] | None = Field(default=None, description="Keep the best hit of each session only.")
    budget_tokens: int | None = Field(
        default=None, ge=1, le=1_000_000_000, description="Maximum length of all texts together, in tokens."
    )
    expand: bool = Field(
        default=False, description="Also search for concepts that facts connect with those in the query."
    )


class ContextQuery(RecallQuery):
    """A search for memories to put into a prompt."""

    k: int = Field(default=8, ge=1, le=MOST_HITS, description="Maximum number of memories.")
    budget_tokens: int = Field(
        default=1000, ge=1, le=1_000_000_000, description="Maximum length of the text, in tokens."
    )


class ContextText(Frozen):
    """Memories as text for a prompt."""

    text: str = Field(description="The memories, quoted as data, each with its origin and trust; empty without any.")


class Recalled(Frozen):
    """The memories that answer a query."""

    id: str = Field(description="The id of this recall, to report its outcome by.")
    hits: tuple[Hit, ...] = Field(description="The memories, best first.")


class ActionContext(Frozen):
    """The circumstances of an action."""

    environment: str = Field(default="", description="Where it is done, such as staging.")
    tool: str = Field(default="", description="The tool it is done with.")
    task_type: str = Field(default="", description="The kind of task.")
    tags: tuple[str, ...] = Field(default=(), description="Labels of the situation.")


class NewDecision(ActionContext):
    """A decision and its outcome."""

    context: str = Field(description="The situation.")
    action: str = Field(description="The action taken.")
    outcome: Outcome | None = Field(default=None, description="Its outcome, which may also be reported later.")
    alternatives: tuple[str, ...] = Field(default=(), description="The actions that were not taken.")
    error: str = Field(default="", description="The error, if it failed.")
    duration: float | None = Field(default=None, ge=0, description="Duration in seconds.")
    cost: float | None = Field(default=None, ge=0, description="Cost, in any one unit.")
    informed_by: tuple[str, ...] = Field(
        default=(), description="The ids of recalls, suggestions and verdicts it was based on."
    )
    from_others: bool = Field(default=False, description="Whether knowledge of other agents contributed to it.")
    at: Moment | None = Field(default=None, description="Time it was taken; now, if left out.")
    session: str | None = Field(default=None, description="The session it belongs to.")
    importance: Share = Field(default=0.5, description="Its importance.")
    key: str | None = Field(
        default=None,
        description="Idempotency key: a second request with it stores nothing. Same as the header Idempotency-Key.",
    )
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict, description="Further data, as JSON.")


class NewOutcome(Frozen):
    """The outcome of a decision, recall or suggestion."""

    id: str = Field(description="The id of a decision, a recall or a suggestion.")
    outcome: Outcome = Field(description="Success, partial, failure, or a number from 0 to 1.")
    used: tuple[str, ...] | None = Field(default=None, description="The memories of a recall that were used.")
    action: str | None = Field(default=None, description="The action taken, if not the suggested one.")
    error: str = Field(default="", description="The error, if it failed.")
    duration: float | None = Field(default=None, ge=0, description="Duration in seconds.")
    cost: float | None = Field(default=None, ge=0, description="Cost, in any one unit.")
    correct: bool = Field(default=False, description="Whether it replaces an earlier outcome.")


class Noted(Frozen):
    """Result of recording something."""

    news: bool = Field(description="False if the same was recorded before.")


class SuggestionQuery(ActionContext):
    """A context to suggest an action for."""

    context: str = Field(description="The situation.")
    actions: tuple[str, ...] | None = Field(
        default=None, description="The actions to choose from; all that were tried, if left out."
    )
    explore: bool = Field(default=False, description="Whether to suggest an action with little evidence now and then.")


class PredictionQuery(ActionContext):
    """An action whose success to predict."""

    context: str = Field(description="The situation.")
    action: str = Field(description="The action.")


class CheckQuery(ActionContext):
    """An action to check before it is taken."""

    action: str = Field(description="The action, such as a command line.")
    context: str = Field(default="", description="The situation.")


class NewFailure(Frozen):
    """A failure and its solution."""

    error: str = Field(description="The error, with its traceback if there is one.")
    solution: str = Field(default="", description="The solution applied.")
    helped: bool | Share | None = Field(default=None, description="Whether the solution helped; yes, if left out.")
    action: str = Field(default="", description="The action that failed.")
    context: str = Field(default="", description="The situation.")
    environment: str = Field(default="", description="Where it was done, such as staging.")
    tool: str = Field(default="", description="The tool it was done with.")
    task_type: str = Field(default="", description="The kind of task.")
    root_cause: str = Field(default="", description="The root cause.")
    prevention: str = Field(default="", description="A way to prevent it.")
    tags: tuple[str, ...] = Field(default=(), description="Labels to find it by.")
    at: Moment | None = Field(default=None, description="Time it happened; now, if left out.")
    session: str | None = Field(default=None, description="The session it belongs to.")
    key: str | None = Field(
        default=None,
        description="Idempotency key: a second request with it stores nothing. Same as the header Idempotency-Key.",
    )


class TriedSolution(Frozen):
    """Result of applying a solution."""

    solution: str = Field(description="The solution applied.")
    helped: bool | Share = Field(default=True, description="Whether it helped, or how much.")


class NewChecks(Frozen):
    """A failure to make prevention checks for."""

    pattern: str = Field(description="The failure: its name or id.")
    stage: str = Field(default="", description="The workflow stage of the checks.")


class NewCycle(Frozen):
    """The action an agent intends next."""

    thoughts: JsonValue = Field(default="", description="Its reasoning so far, as text or JSON.")
    tool: str = Field(default="", description="The tool to call.")
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict, description="The tool's arguments.")
    reasoning: str = Field(default="", description="The reason for the action.")
    plan: tuple[str, ...] = Field(default=(), description="The actions planned after it.")
    workspace: str = Field(default="", description="The workspace it works on.")
    again: bool = Field(default=False, description="Allow it even if the same call is still without a result.")


class CycleError(Frozen):
    """Error of an action."""

    message: str = Field(description="The error message.")
    kind: str = Field(default="", description="The class or code of the error.")
    details: JsonValue = Field(default=None, description="Further data, as JSON.")


class CycleEnd(Frozen):
    """Result of a cycle."""

    output: JsonValue = Field(default=None, description="Output of the action.")
    error: str | CycleError | None = Field(default=None, description="Its error, if it failed.")
    artifacts: tuple[str, ...] = Field(default=(), description="Locations of its artifacts.")
    learn: bool = Field(default=False, description="Whether to learn from its failure.")


class CycleDecision(Frozen):
    """Decision about a cycle without a result."""

    how: Literal["abandon", "retry"] = Field(description="End it without a result, or repeat it in a new cycle.")
    reason: str = Field(default="", description="Reason for abandoning it.")


Names = Annotated[tuple[str, ...], Field(max_length=MOST_NAMED)]


class Terms(Frozen):
    """Scope, purpose and duration of a grant."""

    memories: Names = Field(default=(), description="Ids of memories.")
    patterns: Names = Field(default=(), description="Names or ids of learned patterns.")
    domains: Names = Field(default=(), description="Fields of knowledge, such as auth.")
    tags: Names = Field(default=(), description="Tags; a memory with any of them is shared.")
    everything: bool = Field(default=False, description="All memories of the owner, present and future.")
    purpose: str = Field(default="", max_length=LONGEST_QUERY, description="Purpose of the grant.")
    rights: tuple[Right, ...] = Field(default=(), description="Permitted uses; read and learn, if left out.")
    expires: Moment | None = Field(default=None, description="Time at which it expires.")


class GrantRequest(Terms):
    """A request for another agent's knowledge."""

    owner: str = Field(max_length=LONGEST_NAME, description="The owner of the knowledge.")


class GrantOffer(Terms):
    """An offer of knowledge to another agent."""

    to: str = Field(max_length=LONGEST_NAME, description="The receiving agent.")


class GrantShare(Terms):
    """Knowledge shared at once."""

    to: str = Field(max_length=LONGEST_NAME, description="An agent, `group:NAME` or `everyone`.")
    via: str = Field(
        default="", max_length=LONGEST_NAME, description="The grant under which it was received, to pass it on."
    )


class GrantAgreement(Frozen):
    """Changes to a request on approval; an offer is accepted unchanged."""

    rights: tuple[Right, ...] = Field(default=(), description="The rights given, if not those requested.")
    expires: Moment | None = Field(default=None, description="Time at which it expires.")


class GroupView(Frozen):
    """A group of agents, which grants name as `group:NAME`."""

    name: str = Field(description="The name of the group.")
    members: tuple[str, ...] = Field(description="The names of its agents.")


class GroupChange(Frozen):
    """Changes to the members of a group."""

    add: Names = Field(default=(), description="Agents to add.")
    remove: Names = Field(default=(), description="Agents to remove.")


class Merge(Frozen):
    """A merge of another agent's shared knowledge."""

    from_agent: str = Field(max_length=LONGEST_NAME, description="The owner of the knowledge.")
    domains: Names = Field(default=(), description="Only of these domains.")
    tags: Names = Field(default=(), description="Only with any of these tags.")
    dry_run: bool = Field(default=False, description="Only report what would be merged.")


class Policy(Frozen):
    """A rule for automatic deletion or archiving of the memories that meet all its conditions."""

    name: str = Field(min_length=1, max_length=100, description="Its name; a policy of the same name is replaced.")
    action: Action = Field(description="`forget` deletes them for good; `archive` moves them to a file.")
    agent: str | None = Field(
        default=None, max_length=LONGEST_NAME, description="Only memories of this agent; of all agents, if left out."
    )
    kinds: tuple[MemoryType, ...] = Field(default=(), description="Only memories of one of these kinds.")
    tags: Names = Field(default=(), description="Only memories that have all of these tags.")
    older_than_days: float | None = Field(
        default=None, gt=0, le=100_000, description="Only memories stored more than this many days ago."
    )
    weaker_than: Share | None = Field(default=None, description="Only memories whose strength is below this.")
    outcome: OutcomeName | None = Field(default=None, description="Only memories with this outcome.")


class NewHold(Frozen):
    """A ban on deleting memories until it is released."""

    reason: str = Field(min_length=1, max_length=LONGEST_QUERY, description="Reason for the hold.")
    agent: str | None = Field(
        default=None, max_length=LONGEST_NAME, description="Only memories of this agent; of all agents, if left out."
    )
    memories: Names = Field(default=(), description="Only these, by id.")
    tags: Names = Field(default=(), description="Only those with one of these tags.")
    sessions: Names = Field(default=(), description="Only those of one of these sessions.")


class RetentionRun(Frozen):
    """A run of the retention policies."""

    agents: Names | None = Field(default=None, description="Only for these agents; for all, if left out.")
    dry_run: bool = Field(default=False, description="Only report what would be deleted.")


class AgentView(Frozen):
    """An agent and its definition."""

    name: str = Field(description="Its name.")
    definition: Agent | None = Field(default=None, description="Its definition, if it has one.")


class LiveEvent(Frozen):
    """An event in the live stream, without its content, which can be read by its subject."""

    seq: int = Field(
        description="Position in the stream, to resume after it; neither consecutive nor in order of time."
    )
    agent: str = Field(description="The agent it belongs to.")
    event: str = Field(description="Type of the event: stored, forgotten, decision, outcome, failure, ….")
    subject: str = Field(description="The id or name of its subject.")
    at: Moment = Field(description="Time it happened.")


class Health(Frozen):
    """State of the server."""

    status: Literal["ok", "unready"] = Field(description="`ok` if it can serve requests.")
