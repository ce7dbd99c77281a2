"""Memories in SQL tables: everything that SQLite and PostgreSQL do in the same way."""

from engram.stores.sql.mirror import PUSHED
from engram.stores.sql.store import SqlStore
from engram.stores.sql.tables import HYDRATE, LATER, PAGE, WRITE, Tables, Touches, sound, storable

__all__ = ["HYDRATE", "LATER", "PAGE", "PUSHED", "WRITE", "SqlStore", "Tables", "Touches", "sound", "storable"]
