"""Workspaces: tracked folders and their snapshots."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Moment

FileKind = Literal["file", "link", "folder"]
ChangeKind = Literal["added", "removed", "changed", "mode", "renamed"]
Secrets = Literal["withhold", "keep"]


class Workspace(Frozen):
    """A folder whose contents are tracked."""

    name: str = Field(description="Its name.")
    folder: str = Field(description="Where it is on the server.")
    ignore: tuple[str, ...] = Field(default=(), description="Names and paths that are not tracked, such as `*.pyc`.")
    secrets: Secrets = Field(default="withhold", description="Treatment of text files that contain a secret.")
    created_at: Moment = Field(description="When it was stored.")


class WorkspaceFile(Frozen):
    """One file of a snapshot; a folder is listed only if it is empty."""

    path: str = Field(description="The path of the file in its folder.")
    kind: FileKind = Field(default="file", description="Which kind it is.")
    mode: int = Field(default=0, description="Its permissions, such as 0o644; 0 for links and folders.")
    size: int = Field(default=0, description="How many bytes it has.")
    hash: str = Field(default="", description="SHA-256 of the file's content; empty for links and folders.")
    target: str = Field(default="", description="Target of a link.")


class Skipped(Frozen):
    """A file that was skipped, and the reason."""

    path: str = Field(description="The path of the file in its folder.")
    reason: str = Field(description="Why.")


class Snapshot(Frozen):
    """All files of a workspace at one moment; equal files have an equal tree."""

    id: str = Field(description="Its id.")
    workspace: str = Field(description="The name of the workspace.")
    tree: str = Field(description="The hash of all files; the same for the same files.")
    parent: str = Field(default="", description="The snapshot before it.")
    label: str = Field(default="", description="What the snapshot was called.")
    at: Moment = Field(description="When it happened.")
    files: int = Field(description="How many files it has.")
    size: int = Field(description="How many bytes it has.")
    skipped: tuple[Skipped, ...] = Field(default=(), description="What was left alone, and why.")
    fresh: bool = Field(default=True, description="Whether it differs from the one before.")
    read: int = Field(default=0, description="Number of bytes read for it, if it was just taken.")
    stored: int = Field(default=0, description="Number of bytes it added to the objects, if it was just taken.")


class Change(Frozen):
    """Change of one file between two snapshots."""

    kind: ChangeKind = Field(description="Which kind it is.")
    path: str = Field(description="The path of the file in its folder.")
    before: WorkspaceFile | None = Field(default=None, description="The file as it was; none if it is new.")
    after: WorkspaceFile | None = Field(default=None, description="The file as it is after it; none if it is gone.")


class WorkspaceDiff(Frozen):
    """The changes between two snapshots, in the order of their paths."""

    workspace: str = Field(description="The name of the workspace.")
    before: str = Field(description="The id of the earlier snapshot.")
    after: str = Field(description="Empty for the current state of the folder.")
    changes: tuple[Change, ...] = Field(default=(), description="What changed, in the order of the paths.")
    skipped: tuple[Skipped, ...] = Field(default=(), description="What was left alone, and why.")

    def of(self, kind: ChangeKind) -> tuple[str, ...]:
        """Return the paths with this kind of change."""
        return tuple(change.path for change in self.changes if change.kind == kind)


class RestoreReport(Frozen):
    """Result of a restore: `kept` are files with unsaved changes, `refused` those that must not be written."""

    workspace: str
    snapshot: str
    folder: str
    written: tuple[str, ...] = ()
    unchanged: int = 0
    kept: tuple[Skipped, ...] = ()
    refused: tuple[Skipped, ...] = ()


class VerifyReport(Frozen):
    """Result of reading all objects of the snapshots again."""

    objects: int
    size: int
    problems: tuple[Skipped, ...] = ()


class PruneReport(Frozen):
    """Snapshots and objects that were deleted, or would be; objects still used by any snapshot are kept."""

    snapshots: tuple[Snapshot, ...] = ()
    trees: int = Field(default=0, description="Number of file lists deleted.")
    objects: int = Field(default=0, description="Number of objects deleted.")
    size: int = Field(default=0, description="Number of bytes freed.")
    dry_run: bool = Field(default=False, description="Whether nothing was deleted.")
