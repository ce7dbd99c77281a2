"""Skills: named workflows with triggers, parameters and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from engram.model.content import Frozen
from engram.model.memory import Moment, Share

ParameterType = Literal["string", "integer", "number", "boolean", "list", "choice"]


class Triggers(Frozen):
    """Conditions that select a skill for a request: phrases, patterns, or similar examples."""

    phrases: tuple[str, ...] = Field(default=(), max_length=50, description="Words that occur in the request.")
    patterns: tuple[str, ...] = Field(
        default=(), max_length=50, description="RE2 patterns; named groups fill parameters."
    )
    examples: tuple[str, ...] = Field(
        default=(), max_length=50, description="Requests that resemble those the skill is for."
    )


class Parameter(Frozen):
    """A parameter of a skill; one that is not required and has no default is `none` in the templates."""

    type: ParameterType = "string"
    description: str = ""
    required: bool = False
    default: JsonValue = None
    choices: tuple[str, ...] = Field(default=(), max_length=100, description="For type choice: the permitted values.")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.required and self.default is not None:
            raise ValueError("a required parameter has no default; keep one of them")
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("choices belong to a parameter of type choice, and it needs some")
        return self


class SkillStep(Frozen):
    """One step: a prompt for a model, or an action such as a command; both are templates."""

    name: str = ""
    prompt: str = ""
    action: str = ""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"prompt": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.prompt.strip()) == bool(self.action.strip()):
            raise ValueError("a step has either a prompt or an action")
        return self

    @property
    def kind(self) -> Literal["prompt", "action"]:
        """The type of the step."""
        return "prompt" if self.prompt.strip() else "action"

    @property
    def template(self) -> str:
        """The text before the parameters are filled in."""
        return self.prompt if self.kind == "prompt" else self.action


class SkillDefinition(Frozen):
    """A skill as its author writes it; a step may be just its prompt, and triggers just a list of phrases."""

    name: str = Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$", description="Such as `explain-code`.")
    description: str = Field(min_length=1, max_length=2000)
    triggers: Triggers = Triggers()
    parameters: Mapping[str, Parameter] = Field(default_factory=dict, max_length=50)
    steps: tuple[SkillStep, ...] = Field(min_length=1, max_length=50)

    @field_validator("triggers", mode="before")
    @classmethod
    def _phrases(cls, given: Any) -> Any:
        return {"phrases": given} if isinstance(given, list | tuple) else given


class SkillOrigin(Frozen):
    """The success pattern that a skill was made from, and its success rate at that time."""

    pattern_id: str
    success_rate: Share
    attempts: int


class Skill(SkillDefinition):
    """One stored version of a skill, with its statistics."""

    id: str = Field(description="The id of the memory that holds this version.")
    version: int = Field(ge=1)
    added_at: Moment
    origin: SkillOrigin | None = None
    attempts: int = Field(default=0, description="Number of uses of this version with a known outcome.")
    success_rate: Share | None = Field(
        default=None, description="Expected success rate; uses of other versions count half. Missing if never used."
    )
    interval: tuple[Share, Share] | None = Field(default=None, description="95% interval of the success rate.")

    @property
    def action(self) -> str:
        """The action by which its uses are recorded as decisions."""
        return f"skill:{self.name}@{self.version}"

    @property
    def definition(self) -> SkillDefinition:
        """The definition without id, version and statistics."""
        return SkillDefinition.model_validate({name: getattr(self, name) for name in SkillDefinition.model_fields})


class SkillMatch(Frozen):
    """A skill that matches a request, its score, the kind of match, and the parameters found in the request."""

    skill: Skill
    score: Share
    by: Literal["phrase", "pattern", "similarity"]
    why: str
    parameters: Mapping[str, JsonValue] = Field(default_factory=dict)
