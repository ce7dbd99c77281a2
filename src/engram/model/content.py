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

    kind: Literal[MemoryType.DECISION] = MemoryType.DECISION
    decision_context: Clean = Clean("")
    chosen_action: Clean = Clean("")
    outcome_quality: float | None = Field(default=None, ge=0, le=1)
    alternative_actions: tuple[Clean, ...] = ()
    environment: Clean = Clean("")
    tool: Clean = Clean("")
    task_type: Clean = Clean("")
    error: Clean = Clean("")
    duration: float | None = Field(default=None, ge=0, description="In seconds.")
    cost: float | None = Field(default=None, ge=0)
    lent: bool = Field(default=False, description="Whether knowledge of other agents contributed to it.")
    informed_by: tuple[str, ...] = Field(
        default=(), description="The recalls, suggestions and verdicts it was based on."
    )


class FailureContent(Frozen):
    """A failure, its cause, and its solution."""

    kind: Literal[MemoryType.FAILURE] = MemoryType.FAILURE
    error_signature: Clean = Clean("")
    root_cause: Clean = Clean("")
    solution_applied: Clean = Clean("")
    prevention_strategy: Clean | None = None
    error: Clean = Clean("")
    solution_helped: float | None = Field(default=None, ge=0, le=1)
    action: Clean = Clean("")
    environment: Clean = Clean("")
    tool: Clean = Clean("")
    task_type: Clean = Clean("")


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

    kind: Literal[MemoryType.SUCCESS] = MemoryType.SUCCESS
    context_signature: Clean = Clean("")
    successful_approach: Clean = Clean("")
    key_factors: tuple[Clean, ...] = ()
    replication_steps: tuple[Clean, ...] = ()


class CollaborationContent(Frozen):
    """Joint work with other agents and its lessons."""

    kind: Literal[MemoryType.COLLABORATION] = MemoryType.COLLABORATION
    partner_agents: tuple[Clean, ...] = ()
    interaction_type: Clean = Clean("")
    outcome: Clean = Clean("")
    lessons_learned: tuple[Clean, ...] = ()


class KnowledgeContent(Frozen):
    """A statement about a domain."""

    kind: Literal[MemoryType.KNOWLEDGE] = MemoryType.KNOWLEDGE
    domain: Clean = Clean("")
    knowledge_type: Clean = Clean("")
    expertise_level: Clean = Clean("")
    related_entities: tuple[Clean, ...] = ()
    subject: Clean = Clean("")
    predicate: Clean = Clean("")
    object: Clean = Clean("")


class ObservationContent(Frozen):
    """An observation of the agent."""

    kind: Literal[MemoryType.OBSERVATION] = MemoryType.OBSERVATION


class ReflectionContent(Frozen):
    """A conclusion from earlier memories, which `provenance.sources` lists."""

    kind: Literal[MemoryType.REFLECTION] = MemoryType.REFLECTION


class PlanContent(Frozen):
    """Steps that the agent intends to take."""

    kind: Literal[MemoryType.PLAN] = MemoryType.PLAN
    steps: tuple[Clean, ...] = ()


class ResultContent(Frozen):
    """Result of an action."""

    kind: Literal[MemoryType.RESULT] = MemoryType.RESULT
    ok: bool | None = None
    error: Clean | None = None
    artifacts: tuple[Clean, ...] = ()


class MessageContent(Frozen):
    """One message of a conversation; `provenance` has the speaker."""

    kind: Literal[MemoryType.MESSAGE] = MemoryType.MESSAGE


class ProcedureContent(Frozen):
    """A procedure, step by step."""

    kind: Literal[MemoryType.PROCEDURE] = MemoryType.PROCEDURE
    steps: tuple[Clean, ...] = ()


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
