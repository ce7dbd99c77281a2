"""Content of a memory besides its text: one class per kind of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from engram.model.clean import Clean


def texts_in(value: JsonValue, *, names: bool = False) -> Iterator[str]:
    """Yield all texts in a JSON value, in order; with `names`, the keys of objects, too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item, names=names)
    elif isinstance(value, dict):
        for name, item in value.items():
            if names:
                yield name
            yield from texts_in(item, names=names)


class Frozen(BaseModel):
    """Base of all models: immutable, unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MemoryType(StrEnum):
    """The kinds of memory."""

    DECISION = "decision"
    FAILURE = "failure"
    SUCCESS = "success"
    COLLABORATION = "collaboration"
    KNOWLEDGE = "knowledge"
    OBSERVATION = "observation"
    REFLECTION = "reflection"
    PLAN = "plan"
    RESULT = "result"
    MESSAGE = "message"
    PROCEDURE = "procedure"


KNOWLEDGE_LIKE = frozenset({MemoryType.KNOWLEDGE, MemoryType.PROCEDURE})
"""Kinds that state something: repeating a text adds evidence. All other kinds are events."""


class DecisionContent(Frozen):
    """A decision: context, action, alternatives and outcome."""

    kind: Literal[MemoryType.DECISION] = Field(default=MemoryType.DECISION, description="Which kind it is.")
    decision_context: Clean = Field(default=Clean(""), description="The situation in which it was taken.")
    chosen_action: Clean = Field(default=Clean(""), description="What was done.")
    outcome_quality: float | None = Field(
        default=None, ge=0, le=1, description="How well it went, from 0 to 1; none as long as that is not known."
    )
    alternative_actions: tuple[Clean, ...] = Field(default=(), description="What could have been done instead.")
    environment: Clean = Field(default=Clean(""), description="Where it was done, such as staging.")
    tool: Clean = Field(default=Clean(""), description="What it is done with.")
    task_type: Clean = Field(default=Clean(""), description="Which kind of task it belongs to.")
    error: Clean = Field(default=Clean(""), description="What went wrong; empty or none if nothing did.")
    duration: float | None = Field(default=None, ge=0, description="In seconds.")
    cost: float | None = Field(default=None, ge=0, description="What it cost, in any one unit.")
    lent: bool = Field(default=False, description="Whether knowledge of other agents contributed to it.")
    informed_by: tuple[str, ...] = Field(
        default=(), description="The recalls, suggestions and verdicts it was based on."
    )


class FailureContent(Frozen):
    """A failure, its cause, and its solution."""

    kind: Literal[MemoryType.FAILURE] = Field(default=MemoryType.FAILURE, description="Which kind it is.")
    error_signature: Clean = Field(default=Clean(""), description="What stays the same when the error happens again.")
    root_cause: Clean = Field(default=Clean(""), description="Why it failed.")
    solution_applied: Clean = Field(default=Clean(""), description="What was done about it.")
    prevention_strategy: Clean | None = Field(default=None, description="What would have kept it from happening.")
    error: Clean = Field(default=Clean(""), description="What went wrong; empty or none if nothing did.")
    solution_helped: float | None = Field(
        default=None, ge=0, le=1, description="How much that helped; none if nobody said."
    )
    action: Clean = Field(default=Clean(""), description="What was done, or is to be done.")
    environment: Clean = Field(default=Clean(""), description="Where it was done, such as staging.")
    tool: Clean = Field(default=Clean(""), description="What it is done with.")
    task_type: Clean = Field(default=Clean(""), description="Which kind of task it belongs to.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDraft:
    """A decision as a caller reports it, before redaction; `DecisionContent` is what is stored of it."""

    context: str
    action: str
    outcome: str | float | None = None
    alternatives: Sequence[str] = ()
    environment: str = ""
    tool: str = ""
    task_type: str = ""
    error: str | BaseException = ""
    duration: float | None = None
    cost: float | None = None
    informed_by: str | Sequence[str] = ()
    from_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureDraft:
    """A failure as a caller reports it, before redaction; `FailureContent` is what is stored of it."""

    error: str | BaseException
    solution: str = ""
    helped: bool | float | None = None
    action: str = ""
    context: str = ""
    environment: str = ""
    tool: str = ""
    task_type: str = ""
    root_cause: str = ""
    prevention: str = ""


class SuccessContent(Frozen):
    """A success, and the steps to repeat it."""

    kind: Literal[MemoryType.SUCCESS] = Field(default=MemoryType.SUCCESS, description="Which kind it is.")
    context_signature: Clean = Field(default=Clean(""), description="The situations it is about, in words.")
    successful_approach: Clean = Field(default=Clean(""), description="What worked.")
    key_factors: tuple[Clean, ...] = Field(default=(), description="What made it work.")
    replication_steps: tuple[Clean, ...] = Field(default=(), description="What to do to repeat it.")


class CollaborationContent(Frozen):
    """Joint work with other agents and its lessons."""

    kind: Literal[MemoryType.COLLABORATION] = Field(default=MemoryType.COLLABORATION, description="Which kind it is.")
    partner_agents: tuple[Clean, ...] = Field(default=(), description="Who else worked on it.")
    interaction_type: Clean = Field(default=Clean(""), description="How they worked together.")
    outcome: Clean = Field(default=Clean(""), description="What came of it.")
    lessons_learned: tuple[Clean, ...] = Field(default=(), description="What was learnt from it.")


class KnowledgeContent(Frozen):
    """A statement about a domain."""

    kind: Literal[MemoryType.KNOWLEDGE] = Field(default=MemoryType.KNOWLEDGE, description="Which kind it is.")
    domain: Clean = Field(default=Clean(""), description="The field of knowledge.")
    knowledge_type: Clean = Field(default=Clean(""), description="Which kind of knowledge it is.")
    expertise_level: Clean = Field(default=Clean(""), description="How deep the knowledge goes.")
    related_entities: tuple[Clean, ...] = Field(default=(), description="What it is about.")
    subject: Clean = Field(default=Clean(""), description="What it is about.")
    predicate: Clean = Field(default=Clean(""), description="How subject and object are related.")
    object: Clean = Field(default=Clean(""), description="What is said of the subject.")


class ObservationContent(Frozen):
    """An observation of the agent."""

    kind: Literal[MemoryType.OBSERVATION] = Field(default=MemoryType.OBSERVATION, description="Which kind it is.")


class ReflectionContent(Frozen):
    """A conclusion from earlier memories, which `provenance.sources` lists."""

    kind: Literal[MemoryType.REFLECTION] = Field(default=MemoryType.REFLECTION, description="Which kind it is.")


class PlanContent(Frozen):
    """Steps that the agent intends to take."""

    kind: Literal[MemoryType.PLAN] = Field(default=MemoryType.PLAN, description="Which kind it is.")
    steps: tuple[Clean, ...] = Field(default=(), description="The steps, in their order.")


class ResultContent(Frozen):
    """Result of an action."""

    kind: Literal[MemoryType.RESULT] = Field(default=MemoryType.RESULT, description="Which kind it is.")
    ok: bool | None = Field(default=None, description="Whether it worked.")
    error: Clean | None = Field(default=None, description="What went wrong; empty or none if nothing did.")
    artifacts: tuple[Clean, ...] = Field(default=(), description="Where what it made is to be found.")


class MessageContent(Frozen):
    """One message of a conversation; `provenance` has the speaker."""

    kind: Literal[MemoryType.MESSAGE] = Field(default=MemoryType.MESSAGE, description="Which kind it is.")


class ProcedureContent(Frozen):
    """A procedure, step by step."""

    kind: Literal[MemoryType.PROCEDURE] = Field(default=MemoryType.PROCEDURE, description="Which kind it is.")
    steps: tuple[Clean, ...] = Field(default=(), description="The steps, in their order.")


Content = Annotated[
    DecisionContent
    | FailureContent
    | SuccessContent
    | CollaborationContent
    | KnowledgeContent
    | ObservationContent
    | ReflectionContent
    | PlanContent
    | ResultContent
    | MessageContent
    | ProcedureContent,
    Field(discriminator="kind"),
]
"""The content of a memory, distinguished by `kind`."""


_CAME_LATER: dict[str, frozenset[str]] = {
    MemoryType.DECISION: frozenset("environment tool task_type error duration cost lent informed_by".split()),
    MemoryType.FAILURE: frozenset("error solution_helped action environment tool task_type".split()),
    MemoryType.KNOWLEDGE: frozenset("subject predicate object".split()),
}


def comparable_content(content: Content) -> dict[str, JsonValue]:
    """Serialise a content for comparison; fields of newer versions are included only if set."""
    whole, set_ = content.model_dump(mode="json"), content.model_dump(mode="json", exclude_defaults=True)
    later = _CAME_LATER.get(content.kind, frozenset())
    return {name: value for name, value in whole.items() if name not in later or name in set_}
