"""Hooks for coding agents (Claude Code, Codex, Cursor): recall, check and learn at their events.

`main` handles one event. It imports only the standard library until there is something to do, and no error or delay
breaks the session of the coding agent. `install` writes the configuration of the clients.
"""

from engram.hooks.entry import main

__all__ = ["main"]
