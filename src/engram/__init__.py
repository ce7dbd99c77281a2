"""Engram: a memory for AI agents that learns from outcomes.

import engram

brain = engram.open("team.db")
alice = brain.agent("alice")
alice.remember("Staging runs PostgreSQL 15", tags=["db"])
alice.recall("which database is in staging?")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engram.aio import AsyncEngram, AsyncTaskExecutor
    from engram.engine import AgentHandle, Engram
    from engram.enhanced import EnhancedAgentMemory, WorkingMemory
    from engram.errors import ActionBlocked, EngramError
    from engram.learning import LearningEngine
    from engram.lifecycle.cycles import Life
    from engram.lifecycle.executor import Recovery, Strategy, Task, TaskExecutor, TaskResult
    from engram.memory.episodic import EpisodicMemory
    from engram.memory.procedural import ProceduralMemory
    from engram.memory.semantic import SemanticMemory
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
    from engram.model.life import ActionProposal, ActionResult, Agent, AgentCycle
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
    "LearningEngine": "engram.learning",
    "Recovery": "engram.lifecycle.executor",
    "Strategy": "engram.lifecycle.executor",
    "Task": "engram.lifecycle.executor",
    "TaskExecutor": "engram.lifecycle.executor",
    "TaskResult": "engram.lifecycle.executor",
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
    "EnhancedAgentMemory": "engram.enhanced",
    "WorkingMemory": "engram.enhanced",
    "EpisodicMemory": "engram.memory.episodic",
    "SemanticMemory": "engram.memory.semantic",
    "ProceduralMemory": "engram.memory.procedural",
    "Life": "engram.lifecycle.cycles",
    "Agent": "engram.model.life",
    "AgentCycle": "engram.model.life",
    "ActionProposal": "engram.model.life",
    "ActionResult": "engram.model.life",
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
