"""What a memory holds besides its text: one typed value per kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from engram.model.clean import Clean


def texts_in(value: JsonValue, *, names: bool = False) -> Iterator[str]:
    """All texts in a JSON value, in order; with `names`, those of its fields, too."""
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
    """A value: immutable, strict about unknown fields."""

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
"""Kinds that state something: saying it again is more evidence. All other kinds are events."""


class DecisionContent(Frozen):
    """A choice: what was done in which context, instead of what, and how well it went."""

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
    lent: bool = Field(default=False, description="Whether what other agents learned was part of that.")
    informed_by: tuple[str, ...] = Field(
        default=(), description="The recalls, suggestions and verdicts it was based on."
    )


class FailureContent(Frozen):
    """Something that went wrong, why, and what solved it."""

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


class SuccessContent(Frozen):
    """Something that went well, and how to do it again."""

    kind: Literal[MemoryType.SUCCESS] = MemoryType.SUCCESS
    context_signature: Clean = Clean("")
    successful_approach: Clean = Clean("")
    key_factors: tuple[Clean, ...] = ()
    replication_steps: tuple[Clean, ...] = ()


class CollaborationContent(Frozen):
    """Work with other agents, and what was learnt from it."""

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
    """Something the agent saw."""

    kind: Literal[MemoryType.OBSERVATION] = MemoryType.OBSERVATION


class ReflectionContent(Frozen):
    """A thought about earlier memories, which `provenance.sources` names."""

    kind: Literal[MemoryType.REFLECTION] = MemoryType.REFLECTION


class PlanContent(Frozen):
    """What the agent means to do."""

    kind: Literal[MemoryType.PLAN] = MemoryType.PLAN
    steps: tuple[Clean, ...] = ()


class ResultContent(Frozen):
    """What an action gave."""

    kind: Literal[MemoryType.RESULT] = MemoryType.RESULT
    ok: bool | None = None
    error: Clean | None = None
    artifacts: tuple[Clean, ...] = ()


class MessageContent(Frozen):
    """One turn of a conversation; who spoke is in `provenance`."""

    kind: Literal[MemoryType.MESSAGE] = MemoryType.MESSAGE


class ProcedureContent(Frozen):
    """How something is done, step by step."""

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
"""The content of a memory, told apart by `kind`."""


_CAME_LATER: dict[str, frozenset[str]] = {
    MemoryType.DECISION: frozenset("environment tool task_type error duration cost lent informed_by".split()),
    MemoryType.FAILURE: frozenset("error solution_helped action environment tool task_type".split()),
    MemoryType.KNOWLEDGE: frozenset("subject predicate object".split()),
}


def told(content: Content) -> dict[str, JsonValue]:
    """A content as JSON by which it is compared: fields that came later count only if they say something."""
    whole, set_ = content.model_dump(mode="json"), content.model_dump(mode="json", exclude_defaults=True)
    later = _CAME_LATER.get(content.kind, frozenset())
    return {name: value for name, value in whole.items() if name not in later or name in set_}
