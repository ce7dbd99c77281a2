"""The dashboard: web pages to inspect and review the memory, rendered on the server.

Pages work without scripts, which add charts and live updates. `mount` adds it to an application; `invitation` makes a
token that signs in the user who started the server.
"""

from __future__ import annotations

from engram.server.dashboard.routes import invitation, mount

__all__ = ["invitation", "mount"]
