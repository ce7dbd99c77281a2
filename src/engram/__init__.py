"""Engram: a memory for AI agents that learns from outcomes.

import engram

brain = engram.open("team.db")
alice = brain.agent("alice")
alice.remember("Staging runs PostgreSQL 15", tags=["db"])
alice.recall("which database is in staging?")

`engine` has the classes behind this. Imports point down only: from the interfaces (`cli`, `hooks`, `client`, `server`)
over `api` and `engine` to the packages that do the work (`agents`, `recording`, `recall`, `learning`, `memories`,
`sharing`, `retention`, `transfer`, `upkeep`), to adapters (`stores`, `embed`, `privacy`), to the protocols that those
implement (`ports`), and to values (`model`). docs/architecture.md follows a memory through them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engram.agents.cycles import Life
    from engram.agents.executor import Recovery, Strategy, Task, TaskExecutor, TaskResult
    from engram.aio import AsyncEngram, AsyncTaskExecutor
    from engram.engine import AgentHandle, Engram
    from engram.errors import ActionBlocked, EngramError
    from engram.facades import EnhancedAgentMemory, LearningEngine, WorkingMemory
    from engram.memories.episodic import EpisodicMemory
    from engram.memories.procedural import ProceduralMemory
    from engram.memories.semantic import SemanticMemory
    from engram.model import (
        ActionRecord,
        AgentMemory,
        Draft,
        FailurePattern,
        ForgetReceipt,
        Hit,
        KnownFailure,
        LearningStats,
        Memory,
        MemoryIndex,
        MemoryRecord,
        MemoryType,
        Prediction,
        PreventionCheck,
        Recall,
        Receipt,
        RecordedOutcome,
        Remedy,
        Solution,
        Suggestion,
        Verdict,
    )
    from engram.model.agent import ActionProposal, ActionResult, Agent, AgentCycle
    from engram.model.success import DecisionTemplate, SuccessPattern, Synthesis
    from engram.model.workflow import ExecutionResult
    from engram.model.workspace import Workspace, WorkspaceFile
    from engram.wiring import open

__version__ = "0.1.0"

_HOMES = {
    "AsyncEngram": "engram.aio",
    "AsyncTaskExecutor": "engram.aio",
    "AgentHandle": "engram.engine",
    "Engram": "engram.engine",
    "ActionBlocked": "engram.errors",
    "EngramError": "engram.errors",
    "LearningEngine": "engram.facades",
    "Recovery": "engram.agents.executor",
    "Strategy": "engram.agents.executor",
    "Task": "engram.agents.executor",
    "TaskExecutor": "engram.agents.executor",
    "TaskResult": "engram.agents.executor",
    "ActionRecord": "engram.model",
    "AgentMemory": "engram.model",
    "Draft": "engram.model",
    "FailurePattern": "engram.model",
    "ForgetReceipt": "engram.model",
    "Hit": "engram.model",
    "KnownFailure": "engram.model",
    "LearningStats": "engram.model",
    "Memory": "engram.model",
    "MemoryIndex": "engram.model",
    "MemoryRecord": "engram.model",
    "MemoryType": "engram.model",
    "Prediction": "engram.model",
    "PreventionCheck": "engram.model",
    "Recall": "engram.model",
    "Receipt": "engram.model",
    "RecordedOutcome": "engram.model",
    "Remedy": "engram.model",
    "Solution": "engram.model",
    "Suggestion": "engram.model",
    "Verdict": "engram.model",
    "DecisionTemplate": "engram.model.success",
    "SuccessPattern": "engram.model.success",
    "Synthesis": "engram.model.success",
    "EnhancedAgentMemory": "engram.facades",
    "WorkingMemory": "engram.facades",
    "EpisodicMemory": "engram.memories.episodic",
    "SemanticMemory": "engram.memories.semantic",
    "ProceduralMemory": "engram.memories.procedural",
    "Life": "engram.agents.cycles",
    "Agent": "engram.model.agent",
    "AgentCycle": "engram.model.agent",
    "ActionProposal": "engram.model.agent",
    "ActionResult": "engram.model.agent",
    "ExecutionResult": "engram.model.workflow",
    "Workspace": "engram.model.workspace",
    "WorkspaceFile": "engram.model.workspace",
    "open": "engram.wiring",
}

__all__ = [
    "ActionBlocked",
    "ActionProposal",
    "ActionRecord",
    "ActionResult",
    "Agent",
    "AgentCycle",
    "AgentHandle",
    "AgentMemory",
    "AsyncEngram",
    "AsyncTaskExecutor",
    "DecisionTemplate",
    "Draft",
    "Engram",
    "EngramError",
    "EnhancedAgentMemory",
    "EpisodicMemory",
    "ExecutionResult",
    "FailurePattern",
    "ForgetReceipt",
    "Hit",
    "KnownFailure",
    "LearningEngine",
    "LearningStats",
    "Life",
    "Memory",
    "MemoryIndex",
    "MemoryRecord",
    "MemoryType",
    "Prediction",
    "PreventionCheck",
    "ProceduralMemory",
    "Recall",
    "Receipt",
    "RecordedOutcome",
    "Recovery",
    "Remedy",
    "SemanticMemory",
    "Solution",
    "Strategy",
    "SuccessPattern",
    "Suggestion",
    "Synthesis",
    "Task",
    "TaskExecutor",
    "TaskResult",
    "Verdict",
    "WorkingMemory",
    "Workspace",
    "WorkspaceFile",
    "__version__",
    "open",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import engram` costs almost nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'engram' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


_MOVED = {
    "engram.access": "engram.sharing.api_keys",
    "engram.enhanced": "engram.facades",
    "engram.erasure": "engram.retention.erasure",
    "engram.ids": "engram.clock",
    "engram.knowledge.bundle": "engram.transfer.bundle",
    "engram.knowledge.importers": "engram.transfer.importers",
    "engram.knowledge.signing": "engram.transfer.signing",
    "engram.learn.alarms": "engram.learning.alarms",
    "engram.learn.belief": "engram.learning.decisions.belief",
    "engram.learn.decisions": "engram.learning.decisions.suggestions",
    "engram.lifecycle.agents": "engram.agents.definitions",
    "engram.model.life": "engram.model.agent",
    "engram.mcp.server": "engram.server.mcp.server",
    "engram.memory.forgetting": "engram.memories.forgetting_curve",
    "engram.memory.skills": "engram.memories.skills",
    "engram.retrieve.debug": "engram.recall.explain",
    "engram.retrieve.quoting": "engram.recall.quoting",
    "engram.retrieve.search": "engram.recall.search",
    "engram.rpc.client": "engram.client.grpc",
    "engram.rpc.run": "engram.server.grpc.run",
    "engram.server.app": "engram.server.rest.app",
    "engram.server.grpc.client": "engram.client.grpc",
    "engram.tending": "engram.upkeep.maintenance",
    "engram.words": "engram.text.terms",
}
"""Documented import paths that have changed; the old ones work with a `DeprecationWarning`."""
_MOVED_PACKAGES = {path.rpartition(".")[0] for path in _MOVED} - {
    "engram",
    "engram.model",
    "engram.server",
    "engram.server.grpc",
}


class _MovedModules:
    """Import a module under the path that it used to have."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that has moved, or the package in which it was."""
        if name in _MOVED_PACKAGES:
            return ModuleSpec(name, None, is_package=True)  # a namespace without files
        return ModuleSpec(name, cls()) if name in _MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module from where it is now."""
        moved = _MOVED[spec.name]
        warnings.warn(f"{spec.name} has moved; import {moved} instead", DeprecationWarning, stacklevel=2)
        module = import_module(moved)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which the import system has replaced."""
        module.__spec__ = self._spec


sys.meta_path.insert(0, _MovedModules)
