"""Typed clients of `engram serve` over HTTP and gRPC, with the methods, values and errors of the library itself.

with Client("http://127.0.0.1:8750", key) as alice:
    alice.remember("Staging runs PostgreSQL 15", tags=["db"])
    alice.recall("which database is in staging?")
"""

from engram.client.rest import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
