"""The dashboard: the memory in a browser. Pages are made here and complete without scripts; those add charts and news.

`mount` puts it into an application, and `invitation` makes the text by which whoever started the server gets in.
"""

from __future__ import annotations

from engram.server.dashboard.routes import invitation, mount

__all__ = ["invitation", "mount"]
