"""Hooks for coding agents (Claude Code, Codex, Cursor): recall at a prompt, check before a tool call, learn after it.

- `entry` parses one event. Until there is something to do, only the standard library is imported, and no error or
  delay breaks the session of the coding agent.
- `handlers` handles each event with the engine; `transcript` reads the session's transcript.
- `peer_client` passes an event to a process that already has the database open, where `peer_server` answers it.
- `install` adds the hooks to the configuration of the coding agents, with `json_edit`.
"""

from engram.hooks.entry import main

__all__ = ["main"]
