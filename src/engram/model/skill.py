"""Skills: workflows with a name, what calls for them, what they need to know, and their steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from engram.model.content import Frozen
from engram.model.memory import Moment, Share

ParameterType = Literal["string", "integer", "number", "boolean", "list", "choice"]


class Triggers(Frozen):
    """What calls for a skill: words in a request, a pattern it fits, or what it is like."""

    phrases: tuple[str, ...] = Field(default=(), max_length=50, description="Words that stand in the request.")
    patterns: tuple[str, ...] = Field(
        default=(), max_length=50, description="RE2 patterns; named groups fill parameters."
    )
    examples: tuple[str, ...] = Field(default=(), max_length=50, description="Requests that are like those it is for.")


class Parameter(Frozen):
    """Something a skill has to be told; one that is not required and has no default is `none` in the templates."""

    type: ParameterType = "string"
    description: str = ""
    required: bool = False
    default: JsonValue = None
    choices: tuple[str, ...] = Field(default=(), max_length=100, description="For a choice: the values it can have.")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.required and self.default is not None:
            raise ValueError("a required parameter has no default; keep one of them")
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("choices belong to a parameter of type choice, and it needs some")
        return self


class Step(Frozen):
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
        """Which of the two it is."""
        return "prompt" if self.prompt.strip() else "action"

    @property
    def template(self) -> str:
        """What it says, before the parameters are filled in."""
        return self.prompt if self.kind == "prompt" else self.action


class SkillDefinition(Frozen):
    """A skill as it is written down; a step may be just its prompt, and triggers just a list of phrases."""

    name: str = Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$", description="Such as `explain-code`.")
    description: str = Field(min_length=1, max_length=2000)
    triggers: Triggers = Triggers()
    parameters: Mapping[str, Parameter] = Field(default_factory=dict, max_length=50)
    steps: tuple[Step, ...] = Field(min_length=1, max_length=50)

    @field_validator("triggers", mode="before")
    @classmethod
    def _phrases(cls, given: Any) -> Any:
        return {"phrases": given} if isinstance(given, list | tuple) else given


class SkillOrigin(Frozen):
    """The success pattern that a skill was made from, and how well that had worked by then."""

    pattern_id: str
    success_rate: Share
    attempts: int


class Skill(SkillDefinition):
    """One version of a skill that is kept, and how it did so far."""

    id: str = Field(description="The id of the memory that holds this version.")
    version: int = Field(ge=1)
    added_at: Moment
    origin: SkillOrigin | None = None
    attempts: int = Field(default=0, description="Uses of this version whose outcome is known.")
    success_rate: Share | None = Field(
        default=None, description="The expected rate; uses of other versions count half. None: never used."
    )
    interval: tuple[Share, Share] | None = Field(
        default=None, description="Between these rates the true one lies with 95%."
    )

    @property
    def action(self) -> str:
        """The action by which its uses are recorded as decisions."""
        return f"skill:{self.name}@{self.version}"

    @property
    def definition(self) -> SkillDefinition:
        """What was written down."""
        return SkillDefinition.model_validate({name: getattr(self, name) for name in SkillDefinition.model_fields})


class SkillMatch(Frozen):
    """A skill that fits a request, how well, by what, and the parameters that the request already tells."""

    skill: Skill
    score: Share
    by: Literal["phrase", "pattern", "similarity"]
    why: str
    parameters: Mapping[str, JsonValue] = Field(default_factory=dict)
