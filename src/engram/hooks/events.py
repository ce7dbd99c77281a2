"""What the memory does for each event: recall at the prompt, check before a tool, learn after it, keep the turns.

What is recalled goes to the model as quoted data; what tools said is stored as theirs, not as the agent's own word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from engram import wiring
from engram.engine import AgentHandle, Engram
from engram.errors import Conflict, InvalidInput
from engram.hooks.fast import ASKED, MOST_ERROR, SHELLS, cut, error_of, parsed, tool_name
from engram.hooks.transcript import Turn, commands, turns
from engram.learning.events import Circumstances
from engram.model import Clean, Hit, Memory, Origin, Verdict
from engram.recall.quoting import PREAMBLE, quoted

MOST_PROMPT = 2_000
MOST_ACTION = 2_000
RECALLED = 5
BUDGET = 800
"""Tokens of what is recalled at a prompt."""
ENOUGH = 0.4
"""Below this score a memory is more likely to distract than to help."""
AGAIN = 3
"""Turns of a project that are told when a session starts in it."""
COMMANDS = 50
"""Commands of a session whose end is looked up when the agent stops."""
FEW, MANY = 3, 200
"""Turns that are looked through when the agent stops, and when the session ends or is about to be shortened."""


def answer(asked: Any, payload: Mapping[str, Any], agent: str) -> dict[str, Any] | None:
    """What the client is told, if anything, from a memory that is opened for it."""
    hurry: dict[str, Any] = {"busy_seconds": 1.0, "model_download": False} if asked.event in ASKED else {}
    with wiring.open(asked.db, say=lambda message: None, **hurry) as brain:
        return told(brain, agent, asked, payload)


def told(brain: Engram, name: str, asked: Any, payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the client is told, if anything, from the memory of the agent of this name."""
    agent, event = brain.agent(name), _Event(asked.event, asked.client, payload)
    if asked.event == "PreToolUse":
        return checked(agent, event, block=asked.block)
    if asked.event == "UserPromptSubmit":
        return recalled(brain, agent, event)
    if asked.event == "SessionStart":
        return begun(agent, event)
    if asked.event in {"PostToolUse", "PostToolUseFailure"}:
        learned(brain, agent, event)
    else:
        handed_over(agent, event)
        looked_back(brain, agent, event)
    return None


@dataclass(frozen=True, slots=True)
class _Event:
    """What a client tells, under the same names for all clients."""

    name: str
    client: str
    payload: Mapping[str, Any]

    def text(self, *names: str) -> str:
        """The first of these that is a text."""
        return next((value for name in names if isinstance(value := self.payload.get(name), str)), "")

    @property
    def session(self) -> str | None:
        return self.text("session_id", "conversation_id")[:200] or None

    @property
    def project(self) -> str:
        """The name of the folder that is worked in."""
        roots = self.payload.get("workspace_roots")
        root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
        return PurePath((self.text("cwd") or root).replace("\\", "/")).name[:100]

    @property
    def tool(self) -> str:
        name = tool_name(dict(self.payload))[:100]
        return "shell" if name.lower() in SHELLS else name

    @property
    def action(self) -> str:
        """What the tool does, in words that are the same for the same call: the command, or the call."""
        given = self.payload.get("tool_input")
        if isinstance(given, str):
            given = parsed(given) or {"command": given}
        given = given if isinstance(given, dict) else self.payload
        command = given.get("command")
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = " ".join(command)
        if self.tool == "shell":
            return command.strip()[:MOST_ACTION] if isinstance(command, str) else ""
        scalars = {name: value for name, value in given.items() if isinstance(value, str | int | float | bool)}
        said = ", ".join(f"{name}={json.dumps(cut(str(value), 200))}" for name, value in sorted(scalars.items()))
        return f"{self.tool}({said})"[:MOST_ACTION]


def recalled(brain: Engram, agent: AgentHandle, event: _Event) -> dict[str, Any] | None:
    """What is remembered about a prompt; what the same session said is in the conversation already."""
    prompt = event.text("prompt")[:MOST_PROMPT]
    hits = agent.recall(prompt, 2 * RECALLED, budget_tokens=2 * BUDGET)
    by_words = brain.embedder.identity.startswith("hashing")  # its scores say little about likeness
    good = [
        hit
        for hit in hits
        if (hit.session is None or hit.session != event.session)
        and (hit.why.get("found_by") != "vector" if by_words else hit.score >= ENOUGH)
    ]
    return _shown(event, good[:RECALLED])


def begun(agent: AgentHandle, event: _Event) -> dict[str, Any] | None:
    """Where it was left off: the last turns of this session, if it was shortened, else of this project."""
    if event.text("source") == "compact" and event.session is not None:
        known: Sequence[Memory] = agent.list(session=event.session, limit=AGAIN)
    else:
        known = agent.list(tags=[event.project], limit=AGAIN) if event.project else []
    return _shown(event, [Hit(id=memory.id, memory=memory, score=1.0) for memory in reversed(known)])


def checked(agent: AgentHandle, event: _Event, *, block: bool) -> dict[str, Any] | None:
    """A warning before a tool call that is known to fail; it is stopped only if the user has chosen that."""
    if not event.action:
        return None
    verdict = agent.check(action=event.action, environment=event.project, tool=event.tool)
    if verdict.decision == "allow":
        return None
    text = _warning(verdict)
    if block and verdict.decision == "block":
        if event.client == "cursor":
            return {"permission": "deny", "agent_message": text, "user_message": _SAID_BLOCKED}
        decision = {"permissionDecision": "deny", "permissionDecisionReason": text}
        return {"systemMessage": _SAID_BLOCKED, "hookSpecificOutput": {"hookEventName": event.name, **decision}}
    if event.client == "cursor":
        return {"agent_message": text}
    return _context(event, text, "Engram: this is known to fail; the agent was told")


_SAID_BLOCKED = "Engram stopped a tool call that is known to fail"


def learned(brain: Engram, agent: AgentHandle, event: _Event) -> None:
    """Learn from how a tool call went: from every failure, and from the success of what has failed before."""
    error, id = error_of(event.name, event.payload), event.text("tool_use_id", "tool_call_id")
    if error or event.name == "PostToolUse":
        _learned(brain, agent, event, event.action, event.tool, error, id)


def looked_back(brain: Engram, agent: AgentHandle, event: _Event) -> None:
    """Learn from how the commands of a session ended, where the client did not tell it at once; again is harmless."""
    for ran in commands(event.text("transcript_path"), COMMANDS) if event.client == "codex" else ():
        error = cut(f"Exit code {ran.code}\n{ran.printed}", MOST_ERROR) if ran.code else ""
        _learned(brain, agent, event, ran.command[:MOST_ACTION], "shell", error, ran.id)


def _learned(brain: Engram, agent: AgentHandle, event: _Event, action: str, tool: str, error: str, id: str) -> None:
    """Learn that an action failed, or that it did not, if it has before; the same call counts once."""
    if not action:
        return
    where: dict[str, Any] = {"environment": event.project, "tool": tool, "session": event.session}
    where |= {"origin": Origin.TOOL, "key": f"{event.client}:{id[:200]}" if id else None}
    if error:
        try:
            agent.learn_from_failure(error, action=action, **where)
        except (Conflict, InvalidInput):  # it was told otherwise, is set apart, or cannot be kept: the session goes on
            return
        return
    around = Circumstances(brain.clean(event.project), brain.clean(tool), Clean(""), tuple[Clean]())
    if agent.learning.verdict(brain.clean(action), Clean(""), around).failures:
        context = f"{tool} in {event.project or 'a folder'}"
        agent.record_decision(context=context, action=action, outcome="success", **where)


def handed_over(agent: AgentHandle, event: _Event) -> None:
    """Keep the turns of a session that are not kept yet: what was asked and what was answered, word for word."""
    if event.payload.get("stop_hook_active"):
        return
    spoken = turns(event.text("transcript_path"), FEW if event.name == "Stop" else MANY)
    last = event.text("last_assistant_message").strip()
    if spoken and last and not spoken[-1].answered:
        spoken[-1] = Turn(spoken[-1].id, spoken[-1].asked, last, spoken[-1].at)
    if event.name == "Stop":
        spoken = [turn for turn in spoken if turn.answered]
    known = set()
    if event.session is not None:
        known = {memory.metadata.get("turn") for memory in agent.list(session=event.session, limit=2 * MANY)}
    for turn in spoken:
        if turn.id not in known:
            agent.episodic.record(
                turn.asked,
                turn.answered,
                session=event.session,
                at=turn.at,
                tags=[event.project] if event.project else (),
                metadata={"turn": turn.id, "client": event.client},
                key=f"{event.client}:{event.session}:{turn.id}",
            )


def _shown(event: _Event, hits: Sequence[Hit]) -> dict[str, Any] | None:
    block = quoted(hits, budget_tokens=BUDGET)
    if not block:
        return None
    many = sum(json.dumps(hit.id) in block for hit in hits)
    said = f"Engram recalled {many} {'memory' if many == 1 else 'memories'}"
    return _context(event, f"{said}.\n{block}", said)


def _context(event: _Event, text: str, said: str) -> dict[str, Any]:
    """More for the model to read, in the client's own form, and a line for the user."""
    if event.client == "cursor":
        return {"additional_context": text} | ({"continue": True} if event.name == "UserPromptSubmit" else {})
    return {"systemMessage": said, "hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def _warning(verdict: Verdict) -> str:
    """A verdict in words, with everything that was remembered quoted on one line each."""
    lines = [f"Engram: this is known to fail: {json.dumps(verdict.reason)}.", PREAMBLE]
    lines += [
        f"| failed {one.failures} times: {json.dumps(cut(one.error_signature, 300))}" for one in verdict.failures[:3]
    ]
    lines += [
        f"| worked instead ({one.success_rate:.0%} of {one.attempts}): {json.dumps(cut(one.text, 300))}"
        for one in verdict.instead[:3]
    ]
    return "\n".join(lines)
