"""Handle each event with the engine: recall at a prompt, check before a tool call, learn after it, store turns.

Recalled memories are quoted as data for the model; the output of tools is stored with the origin `tool`.
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
from engram.hooks.entry import ANSWERED_EVENTS, MAX_ERROR, SHELLS, error_text, parse_object, shorten, tool_name
from engram.hooks.transcript import TranscriptTurn, read_commands, read_turns
from engram.learning.events import Circumstances
from engram.model import Clean, Hit, Memory, Origin, Verdict
from engram.recall.quoting import PREAMBLE, quoted

MAX_PROMPT = 2_000
MAX_ACTION = 2_000
MAX_RECALLED = 5
BUDGET = 800
"""Tokens of the memories recalled at a prompt."""
MIN_SCORE = 0.4
"""Memories with a lower score are more likely to distract than to help."""
MAX_TURNS_AT_START = 3
"""Turns that are recalled when a session starts."""
MAX_COMMANDS = 50
"""Commands of a session whose exit codes are read when the agent stops."""
TURNS_AT_STOP, TURNS_AT_END = 3, 200
"""Turns that are read when the agent stops, and when the session ends or is about to be compacted."""


def answer(call: Any, payload: Mapping[str, Any], agent: str) -> dict[str, Any] | None:
    """Open the database and handle an event; return the answer for the client, or `None`."""
    options: dict[str, Any] = {"busy_seconds": 1.0, "model_download": False} if call.event in ANSWERED_EVENTS else {}
    with wiring.open(call.db, say=lambda message: None, **options) as brain:
        return handle_event(brain, agent, call, payload)


def handle_event(brain: Engram, name: str, call: Any, payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Handle an event for one agent; return the answer for the client, or `None`."""
    agent, event = brain.agent(name), HookEvent(call.event, call.client, payload)
    if call.event == "PreToolUse":
        return check_tool_call(agent, event, block=call.block)
    if call.event == "UserPromptSubmit":
        return recall_for_prompt(brain, agent, event)
    if call.event == "SessionStart":
        return recall_last_turns(agent, event)
    if call.event in {"PostToolUse", "PostToolUseFailure"}:
        learn_from_tool_call(brain, agent, event)
    else:
        store_turns(agent, event)
        learn_from_transcript(brain, agent, event)
    return None


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event, with the same properties for all clients."""

    name: str
    client: str
    payload: Mapping[str, Any]

    def text(self, *names: str) -> str:
        """Return the first of these payload fields that is a string, else an empty one."""
        return next((value for name in names if isinstance(value := self.payload.get(name), str)), "")

    @property
    def session(self) -> str | None:
        """The id of the session."""
        return self.text("session_id", "conversation_id")[:200] or None

    @property
    def project(self) -> str:
        """The name of the project folder."""
        roots = self.payload.get("workspace_roots")
        root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
        return PurePath((self.text("cwd") or root).replace("\\", "/")).name[:100]

    @property
    def tool(self) -> str:
        """The name of the tool; the same for all shells."""
        name = tool_name(dict(self.payload))[:100]
        return "shell" if name.lower() in SHELLS else name

    @property
    def action(self) -> str:
        """The tool call as text that is equal for equal calls: the shell command, or the tool with its call."""
        given = self.payload.get("tool_input")
        if isinstance(given, str):
            given = parse_object(given) or {"command": given}
        given = given if isinstance(given, dict) else self.payload
        command = given.get("command")
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = " ".join(command)
        if self.tool == "shell":
            return command.strip()[:MAX_ACTION] if isinstance(command, str) else ""
        scalars = {name: value for name, value in given.items() if isinstance(value, str | int | float | bool)}
        values = ", ".join(f"{name}={json.dumps(shorten(str(value), 200))}" for name, value in sorted(scalars.items()))
        return f"{self.tool}({values})"[:MAX_ACTION]


def recall_for_prompt(brain: Engram, agent: AgentHandle, event: HookEvent) -> dict[str, Any] | None:
    """Recall memories for a prompt, except those of the same session, which are in the conversation already."""
    prompt = event.text("prompt")[:MAX_PROMPT]
    hits = agent.recall(prompt, 2 * MAX_RECALLED, budget_tokens=2 * BUDGET)
    by_words = brain.embedder.identity.startswith("hashing")  # its scores say little about similarity
    relevant = [
        hit
        for hit in hits
        if (hit.session is None or hit.session != event.session)
        and (hit.why.get("found_by") != "vector" if by_words else hit.score >= MIN_SCORE)
    ]
    return _quote_hits(event, relevant[:MAX_RECALLED])


def recall_last_turns(agent: AgentHandle, event: HookEvent) -> dict[str, Any] | None:
    """Recall the last turns: of this session if it was compacted, else of this project."""
    if event.text("source") == "compact" and event.session is not None:
        memories: Sequence[Memory] = agent.list(session=event.session, limit=MAX_TURNS_AT_START)
    else:
        memories = agent.list(tags=[event.project], limit=MAX_TURNS_AT_START) if event.project else []
    return _quote_hits(event, [Hit(id=memory.id, memory=memory, score=1.0) for memory in reversed(memories)])


def check_tool_call(agent: AgentHandle, event: HookEvent, *, block: bool) -> dict[str, Any] | None:
    """Warn before a tool call that is known to fail; block it only if the user has chosen that."""
    if not event.action:
        return None
    verdict = agent.check(action=event.action, environment=event.project, tool=event.tool)
    if verdict.decision == "allow":
        return None
    text = _warning(verdict)
    if block and verdict.decision == "block":
        if event.client == "cursor":
            return {"permission": "deny", "agent_message": text, "user_message": _BLOCKED_MESSAGE}
        decision = {"permissionDecision": "deny", "permissionDecisionReason": text}
        return {"systemMessage": _BLOCKED_MESSAGE, "hookSpecificOutput": {"hookEventName": event.name, **decision}}
    if event.client == "cursor":
        return {"agent_message": text}
    return _add_context(event, text, "Engram: this is known to fail; the agent was warned")


_BLOCKED_MESSAGE = "Engram blocked a tool call that is known to fail"


def learn_from_tool_call(brain: Engram, agent: AgentHandle, event: HookEvent) -> None:
    """Learn from a finished tool call: from every failure, and from the success of an action that failed before."""
    error, id = error_text(event.name, event.payload), event.text("tool_use_id", "tool_call_id")
    if error or event.name == "PostToolUse":
        _learn_action(brain, agent, event, event.action, event.tool, error, id)


def learn_from_transcript(brain: Engram, agent: AgentHandle, event: HookEvent) -> None:
    """Learn from the exit codes in Codex's transcript, which its hooks do not report; repeating it changes nothing."""
    for command in read_commands(event.text("transcript_path"), MAX_COMMANDS) if event.client == "codex" else ():
        error = shorten(f"Exit code {command.code}\n{command.output}", MAX_ERROR) if command.code else ""
        _learn_action(brain, agent, event, command.text[:MAX_ACTION], "shell", error, command.id)


def _learn_action(
    brain: Engram, agent: AgentHandle, event: HookEvent, action: str, tool: str, error: str, id: str
) -> None:
    """Record a failed action, or the success of one that failed before; each call counts once."""
    if not action:
        return
    where: dict[str, Any] = {"environment": event.project, "tool": tool, "session": event.session}
    where |= {"origin": Origin.TOOL, "key": f"{event.client}:{id[:200]}" if id else None}
    if error:
        try:
            agent.learn_from_failure(error, action=action, **where)
        except (Conflict, InvalidInput):  # recorded differently, quarantined or rejected: the session goes on
            return
        return
    around = Circumstances(brain.clean(event.project), brain.clean(tool), Clean(""), tuple[Clean]())
    if agent.learning.verdict(brain.clean(action), Clean(""), around).failures:
        context = f"{tool} in {event.project or 'a folder'}"
        agent.record_decision(context=context, action=action, outcome="success", **where)


def store_turns(agent: AgentHandle, event: HookEvent) -> None:
    """Store the turns of a session that are not stored yet: prompts and answers, verbatim."""
    if event.payload.get("stop_hook_active"):
        return
    turns = read_turns(event.text("transcript_path"), TURNS_AT_STOP if event.name == "Stop" else TURNS_AT_END)
    last = event.text("last_assistant_message").strip()
    if turns and last and not turns[-1].answer:
        turns[-1] = TranscriptTurn(turns[-1].id, turns[-1].prompt, last, turns[-1].at)
    if event.name == "Stop":
        turns = [turn for turn in turns if turn.answer]
    stored = set()
    if event.session is not None:
        stored = {memory.metadata.get("turn") for memory in agent.list(session=event.session, limit=2 * TURNS_AT_END)}
    for turn in turns:
        if turn.id not in stored:
            agent.episodic.record(
                turn.prompt,
                turn.answer,
                session=event.session,
                at=turn.at,
                tags=[event.project] if event.project else (),
                metadata={"turn": turn.id, "client": event.client},
                key=f"{event.client}:{event.session}:{turn.id}",
            )


def _quote_hits(event: HookEvent, hits: Sequence[Hit]) -> dict[str, Any] | None:
    block = quoted(hits, budget_tokens=BUDGET)
    if not block:
        return None
    count = sum(json.dumps(hit.id) in block for hit in hits)
    message = f"Engram recalled {count} {'memory' if count == 1 else 'memories'}"
    return _add_context(event, f"{message}.\n{block}", message)


def _add_context(event: HookEvent, text: str, message: str) -> dict[str, Any]:
    """Return an answer in the client's format: more context for the model, and a message for the user."""
    if event.client == "cursor":
        return {"additional_context": text} | ({"continue": True} if event.name == "UserPromptSubmit" else {})
    return {"systemMessage": message, "hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def _warning(verdict: Verdict) -> str:
    """Return a verdict in words, with memories quoted on one line each."""
    lines = [f"Engram: this is known to fail: {json.dumps(verdict.reason)}.", PREAMBLE]
    lines += [
        f"| failed {one.failures} times: {json.dumps(shorten(one.error_signature, 300))}"
        for one in verdict.failures[:3]
    ]
    lines += [
        f"| worked instead ({one.success_rate:.0%} of {one.attempts}): {json.dumps(shorten(one.text, 300))}"
        for one in verdict.instead[:3]
    ]
    return "\n".join(lines)
