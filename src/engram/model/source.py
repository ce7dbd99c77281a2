"""The source of shared or imported knowledge, and the receiver's own results with it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Share


class PatternSource(Frozen):
    """The owner of shared knowledge, and the grant or import it came by."""

    name: str = Field(description="The owner; for an import, the author of the file and the key that signed it.")
    kind: Literal["grant", "import"] = Field(description="A grant or an import.")
    id: str = Field(description="The grant, or the import.")
    trust: Share = Field(description="Estimated from how often it helped the receiver; low at first.")
    reshare: bool = Field(default=False, description="Whether the receiver may pass it on.")


class OwnRecord(Frozen):
    """The receiver's own results with shared knowledge; the owner's figures stay in the pattern."""

    attempts: int = Field(default=0, description="How often it was tried.")
    quality: float = Field(default=0.0, ge=0, description="The sum of the qualities of these attempts.")
    success_rate: Share = Field(
        description="Expected success for the receiver: the owner's rate, adjusted by its own results."
    )
    interval: tuple[Share, Share] = Field(description="95% interval of that rate.")
