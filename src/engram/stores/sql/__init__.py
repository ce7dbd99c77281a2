"""The parts of a store on SQL tables that SQLite and PostgreSQL share."""

from engram.stores.sql.mirror import PUSHED
from engram.stores.sql.store import SqlStore
from engram.stores.sql.tables import HYDRATE, LATER, PAGE, WRITE, Tables, Touches, sound, storable

__all__ = ["HYDRATE", "LATER", "PAGE", "PUSHED", "WRITE", "SqlStore", "Tables", "Touches", "sound", "storable"]
