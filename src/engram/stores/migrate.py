"""Upgrade a database to the newest schema."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(conn: sa.Connection, scripts: Path = SCRIPTS) -> None:
    """Run all pending migrations inside the transaction that is open on `conn`."""
    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = conn
    command.upgrade(config, "head")
