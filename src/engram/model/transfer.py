"""Reports of exports and imports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from engram.model.bundle import Finding, Verification
from engram.model.content import Frozen


class ExportReport(Frozen):
    """Result of an export."""

    file: str = Field(description="Path of the file.")
    memories: int = Field(description="Number of memories in it.")
    lent: int = Field(
        default=0, description="Number of them that belong to other agents, exported with their permission."
    )
    events: int = Field(description="Number of decisions, outcomes, failures and solutions in it.")
    patterns: int = Field(description="Number of patterns in it.")
    signed_by: str | None = Field(default=None, description="The id of the signing key.")
    left_out: Mapping[str, int] = Field(default_factory=dict, description="Number of records not written, by reason.")


class ImportReport(Frozen):
    """Result of an import, or of its dry run."""

    source: str = Field(description="The author of the file.")
    format: str = Field(default="engram", description="Format of the file.")
    dry_run: bool = Field(default=False, description="Whether nothing was stored.")
    verification: Verification = Field(
        default=Verification(status="unsigned"), description="Result of checking its signature."
    )
    stored: int = Field(default=0, description="New memories.")
    merged: int = Field(default=0, description="Memories merged with existing ones of the same text.")
    known: int = Field(default=0, description="Memories that had been imported or shared before.")
    own: int = Field(default=0, description="The receiver's own memories that came back; they are not counted again.")
    quarantined: int = Field(default=0, description="Memories quarantined for review.")
    rejected: int = Field(default=0, description="Memories that cannot be stored.")
    outcomes: int = Field(default=0, description="New outcomes.")
    reasons: tuple[str, ...] = Field(default=(), description="Reasons for quarantine or rejection, the first few.")
    findings: tuple[Finding, ...] = Field(default=(), description="Warnings about the file.")

    @property
    def status(self) -> Literal["nothing new", "imported"]:
        """`imported` if the import changed anything."""
        return "imported" if self.stored or self.merged or self.outcomes or self.quarantined else "nothing new"
