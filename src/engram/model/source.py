"""The source of knowledge that came from others, and how it did for its receiver."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Share


class PatternSource(Frozen):
    """The owner of shared knowledge, and the grant or import by which it came."""

    name: str = Field(description="The owner; for an import, who wrote the file, and which key signed it.")
    kind: Literal["grant", "import"] = Field(description="The way it came: by a grant, or by an import.")
    id: str = Field(description="The grant, or the import.")
    trust: Share = Field(description="From how often it helped the receiver; low at first.")
    reshare: bool = Field(default=False, description="Whether the receiver may share it on.")


class OwnRecord(Frozen):
    """How something of others did for the receiver; the owner's figures stay in the pattern."""

    attempts: int = 0
    quality: float = Field(default=0.0, ge=0, description="The sum of the qualities of these attempts.")
    success_rate: Share = Field(description="What the receiver can expect: the owner's rate, adjusted by its own.")
    interval: tuple[Share, Share] = Field(description="95% interval of that rate.")
