"""Hooks of coding agents: memory without being asked.

`main` is the fast way in: until it is clear that there is something to do, only the standard library is imported, and
what happens to it never breaks or delays the session that it was called from.
"""

from engram.hooks.fast import main

__all__ = ["main"]
