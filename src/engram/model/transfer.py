"""What came of handing knowledge over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from engram.model.bundle import Finding, Verification
from engram.model.content import Frozen


class ExportReport(Frozen):
    """What was written to a file."""

    file: str = Field(description="Where it is.")
    memories: int = Field(description="How many memories it has.")
    lent: int = Field(default=0, description="How many of them are of others, who allow to share them on.")
    events: int = Field(description="How many decisions, outcomes, failures and solutions it has.")
    patterns: int = Field(description="How many patterns it names.")
    signed_by: str | None = Field(default=None, description="The id of the key it is signed with.")
    left_out: Mapping[str, int] = Field(default_factory=dict, description="What was not written, by the reason.")


class ImportReport(Frozen):
    """What became of the memories in a file, or what would become of them."""

    source: str = Field(description="Who the file is from.")
    format: str = Field(default="engram", description="The kind of file.")
    dry_run: bool = Field(default=False, description="Whether nothing was stored.")
    verification: Verification = Field(
        default=Verification(status="unsigned"), description="What its signature is worth."
    )
    stored: int = Field(default=0, description="Memories that are new.")
    merged: int = Field(default=0, description="Memories that say what was known already.")
    known: int = Field(default=0, description="Memories that had come before, by this or by another way.")
    own: int = Field(default=0, description="Memories of the receiver's own that came back; they count no second time.")
    quarantined: int = Field(default=0, description="Memories that were set apart for review.")
    rejected: int = Field(default=0, description="Memories that cannot be kept.")
    outcomes: int = Field(default=0, description="Outcomes that are new.")
    reasons: tuple[str, ...] = Field(default=(), description="Why memories were set apart or rejected, the first few.")
    findings: tuple[Finding, ...] = Field(default=(), description="What the receiver should know about the file.")

    @property
    def status(self) -> Literal["nothing new", "imported"]:
        """Whether anything came in."""
        return "imported" if self.stored or self.merged or self.outcomes or self.quarantined else "nothing new"
